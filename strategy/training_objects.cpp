// SPDX-License-Identifier: Apache-2.0
#include "strategy/training_objects.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <utility>

#include "zero/lion.h"

namespace zero {
namespace {

using torch::optim::Optimizer;
using Parameters = std::vector<at::Tensor>;

constexpr double kSgdRate = 1e-3;  // PyTorch's default; LibTorch's SGD has none

// Hands a setting on where somebody gave it; otherwise the object keeps its own default.
template <Consumer kReader, class T, class Set>
void hand_on(const Setting<T>& setting, const Set& set) {
  const T& value = setting.read(kReader);
  TORCH_CHECK(!setting.automatic(), "LibZeRO: ", setting.provenance().flag, " (",
              setting.provenance().where,
              ") is auto, which nobody fills where the object is built from the configuration; "
              "write a value.");
  if (setting.given()) set(value);
}

template <class T, class Set>
void to_optimizer(const Setting<T>& setting, const Set& set) {
  hand_on<Consumer::kOptimizer>(setting, set);
}

template <class T, class Set>
void to_scheduler(const Setting<T>& setting, const Set& set) {
  hand_on<Consumer::kScheduler>(setting, set);
}

// What all optimizers have.
template <class Options>
Options common(const OptimizerSettings& settings, Options options = {}) {
  options.weight_decay(0.0);
  to_optimizer(settings.lr, [&](double lr) { options.lr(lr); });
  to_optimizer(settings.weight_decay, [&](double decay) { options.weight_decay(decay); });
  return options;
}

template <class Options>
void set_betas(const OptimizerSettings& settings, Options& options) {
  to_optimizer(settings.betas, [&](const std::vector<double>& betas) {
    TORCH_CHECK(betas.size() == 2, "LibZeRO: optimizer.params.betas (",
                settings.betas.provenance().where, ") holds ", betas.size(),
                " numbers; write two, such as [0.9, 0.999].");
    options.betas({betas[0], betas[1]});
  });
}

template <class Type, class Options>
std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings, Parameters parameters) {
  auto options = common<Options>(settings);
  set_betas(settings, options);
  to_optimizer(settings.eps, [&](double eps) { options.eps(eps); });
  to_optimizer(settings.amsgrad, [&](bool amsgrad) { options.amsgrad(amsgrad); });
  return std::make_unique<Type>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings, Parameters parameters) {
  auto options = common(settings, torch::optim::SGDOptions(kSgdRate));
  to_optimizer(settings.momentum, [&](double momentum) { options.momentum(momentum); });
  to_optimizer(settings.dampening, [&](double dampening) { options.dampening(dampening); });
  to_optimizer(settings.nesterov, [&](bool nesterov) { options.nesterov(nesterov); });
  return std::make_unique<torch::optim::SGD>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> make_adagrad(const OptimizerSettings& settings, Parameters parameters) {
  auto options = common<torch::optim::AdagradOptions>(settings);
  to_optimizer(settings.eps, [&](double eps) { options.eps(eps); });
  to_optimizer(settings.lr_decay, [&](double decay) { options.lr_decay(decay); });
  to_optimizer(settings.initial_accumulator_value,
               [&](double value) { options.initial_accumulator_value(value); });
  return std::make_unique<torch::optim::Adagrad>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> make_rmsprop(const OptimizerSettings& settings, Parameters parameters) {
  auto options = common<torch::optim::RMSpropOptions>(settings);
  to_optimizer(settings.eps, [&](double eps) { options.eps(eps); });
  to_optimizer(settings.alpha, [&](double alpha) { options.alpha(alpha); });
  to_optimizer(settings.momentum, [&](double momentum) { options.momentum(momentum); });
  to_optimizer(settings.centered, [&](bool centered) { options.centered(centered); });
  return std::make_unique<torch::optim::RMSprop>(std::move(parameters), options);
}

std::unique_ptr<Optimizer> make_lion(const OptimizerSettings& settings, Parameters parameters) {
  auto options = common<LionOptions>(settings);
  set_betas(settings, options);
  return std::make_unique<Lion>(std::move(parameters), options);
}

template <class Options>
void set_warmup_steps(const SchedulerSettings& settings, Options& options) {
  to_scheduler(settings.warmup_num_steps, [&](int64_t steps) { options.warmup_num_steps(steps); });
  to_scheduler(settings.warmup_type, [&](const std::string& type) {
    options.warmup_type(type == "linear" ? WarmupType::kLinear : WarmupType::kLog);
  });
}

template <class Options>
void set_warmup(const SchedulerSettings& settings, Options& options) {
  set_warmup_steps(settings, options);
  to_scheduler(settings.warmup_min_lr, [&](double rate) { options.warmup_min_lr(rate); });
  to_scheduler(settings.warmup_max_lr, [&](double rate) { options.warmup_max_lr(rate); });
}

int64_t total_steps(const SchedulerSettings& settings) {
  const int64_t total = settings.total_num_steps.read(Consumer::kScheduler);
  TORCH_CHECK(settings.total_num_steps.given(),
              "LibZeRO: scheduler.params.total_num_steps is "
              "missing; write the number of optimizer steps of the whole training.");
  return total;
}

std::unique_ptr<Scheduler> make_one_cycle(const SchedulerSettings& settings, Optimizer& optimizer) {
  TORCH_CHECK(
      settings.cycle_min_lr.given() && settings.cycle_max_lr.given(),
      "LibZeRO: OneCycle needs scheduler.params.cycle_min_lr and cycle_max_lr; write both.");
  OneCycleOptions options(settings.cycle_min_lr.read(Consumer::kScheduler),
                          settings.cycle_max_lr.read(Consumer::kScheduler));
  to_scheduler(settings.decay_lr_rate, [&](double rate) { options.decay_lr_rate(rate); });
  to_scheduler(settings.cycle_first_step_size,
               [&](int64_t steps) { options.cycle_first_step_size(steps); });
  to_scheduler(settings.cycle_second_step_size, [&](int64_t steps) {
    if (steps > 0) options.cycle_second_step_size(steps);
  });
  to_scheduler(settings.cycle_first_stair_count,
               [&](int64_t stairs) { options.cycle_first_stair_count(stairs); });
  to_scheduler(settings.cycle_second_stair_count,
               [&](int64_t stairs) { options.cycle_second_stair_count(stairs); });
  to_scheduler(settings.decay_step_size, [&](int64_t steps) { options.decay_step_size(steps); });
  to_scheduler(settings.cycle_momentum, [&](bool cycles) { options.cycle_momentum(cycles); });
  to_scheduler(settings.cycle_min_mom, [&](double momentum) { options.cycle_min_mom(momentum); });
  to_scheduler(settings.cycle_max_mom, [&](double momentum) { options.cycle_max_mom(momentum); });
  to_scheduler(settings.decay_mom_rate, [&](double rate) { options.decay_mom_rate(rate); });
  return std::make_unique<OneCycle>(optimizer, options);
}

std::unique_ptr<Scheduler> make_range_test(const SchedulerSettings& settings,
                                           Optimizer& optimizer) {
  LRRangeTestOptions options;
  to_scheduler(settings.lr_range_test_min_lr,
               [&](double rate) { options.lr_range_test_min_lr(rate); });
  to_scheduler(settings.lr_range_test_step_size,
               [&](int64_t steps) { options.lr_range_test_step_size(steps); });
  to_scheduler(settings.lr_range_test_step_rate,
               [&](double rate) { options.lr_range_test_step_rate(rate); });
  to_scheduler(settings.lr_range_test_staircase,
               [&](bool stairs) { options.lr_range_test_staircase(stairs); });
  return std::make_unique<LRRangeTest>(optimizer, options);
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings,
                                          Parameters parameters) {
  const std::string& type = settings.type.read(Consumer::kOptimizer);
  const bool decoupled = settings.adam_w_mode.read(Consumer::kOptimizer);
  if (type == "AdamW" || type == "Adam") {
    using namespace torch::optim;
    return decoupled ? make_adam<AdamW, AdamWOptions>(settings, std::move(parameters))
                     : make_adam<Adam, AdamOptions>(settings, std::move(parameters));
  }
  if (type == "SGD") return make_sgd(settings, std::move(parameters));
  if (type == "Adagrad") return make_adagrad(settings, std::move(parameters));
  if (type == "RMSprop") return make_rmsprop(settings, std::move(parameters));
  if (type == "Lion") return make_lion(settings, std::move(parameters));
  TORCH_CHECK(
      false,
      "LibZeRO: the configuration names no optimizer; write an optimizer section "
      "such as optimizer: {type: AdamW, params: {lr: 3e-4}}, or make the optimizer in code.");
}

namespace {

std::unique_ptr<Scheduler> scheduler_of_type(const SchedulerSettings& settings,
                                             Optimizer& optimizer) {
  const std::string& type = settings.type.read(Consumer::kScheduler);
  if (type == "WarmupLR") {
    WarmupOptions options;
    set_warmup(settings, options);
    return std::make_unique<WarmupLR>(optimizer, options);
  }
  if (type == "WarmupDecayLR") {
    WarmupDecayOptions options(total_steps(settings));
    set_warmup(settings, options);
    return std::make_unique<WarmupDecayLR>(optimizer, options);
  }
  if (type == "WarmupCosineLR") {
    WarmupCosineOptions options(total_steps(settings));
    set_warmup_steps(settings, options);
    to_scheduler(settings.warmup_min_ratio, [&](double ratio) { options.warmup_min_ratio(ratio); });
    to_scheduler(settings.cos_min_ratio, [&](double ratio) { options.cos_min_ratio(ratio); });
    return std::make_unique<WarmupCosineLR>(optimizer, options);
  }
  if (type == "OneCycle") return make_one_cycle(settings, optimizer);
  if (type == "LRRangeTest") return make_range_test(settings, optimizer);
  TORCH_CHECK(
      false,
      "LibZeRO: the configuration names no schedule; write a scheduler section such "
      "as scheduler: {type: WarmupLR, params: {warmup_num_steps: 500}}, or make it in code.");
}

}  // namespace

std::unique_ptr<Scheduler> make_scheduler(const SchedulerSettings& settings, Optimizer& optimizer) {
  auto scheduler = scheduler_of_type(settings, optimizer);
  to_scheduler(settings.last_batch_iteration,
               [&](int64_t iteration) { scheduler->go_to(iteration + 1); });
  return scheduler;
}

}  // namespace zero
