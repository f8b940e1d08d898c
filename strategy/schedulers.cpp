// SPDX-License-Identifier: Apache-2.0
#include "zero/schedulers.h"

#include <c10/util/Exception.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "zero/lion.h"

namespace zero {
namespace {

constexpr double kCycleBeta2 = 0.99;

void check_at_least(double lowest, double value, const char* scheduler, const char* name) {
  TORCH_CHECK(std::isfinite(value) && value >= lowest, "zero::", scheduler, ": ", name, " is ",
              value, ", it must be a finite number of at least ", lowest, ".");
}

void warn_if_all_warmup(int64_t total, int64_t warmup, const char* scheduler) {
  if (total >= warmup) return;
  TORCH_WARN("zero::", scheduler, ": total_num_steps is ", total, " and warmup_num_steps is ",
             warmup, ": training ends during the warm-up.");
}

// How much of the warm-up is done: from 0 to 1. Below two steps there is no logarithm to divide by.
double warmed(int64_t iteration, int64_t num_steps, WarmupType type) {
  const auto steps = static_cast<double>(std::max<int64_t>(2, num_steps));
  const auto done = static_cast<double>(iteration);
  return type == WarmupType::kLinear ? done / steps : std::log(done + 1.0) / std::log(steps);
}

bool warms_up(int64_t iteration, int64_t num_steps) {
  return iteration < std::max<int64_t>(2, num_steps);
}

// Calls `call(options)` with the options of an optimizer that has betas; false where it has none.
template <class Call>
bool with_betas(torch::optim::OptimizerOptions& options, const Call& call) {
  if (auto* const adamw = dynamic_cast<torch::optim::AdamWOptions*>(&options)) {
    call(*adamw);
  } else if (auto* const adam = dynamic_cast<torch::optim::AdamOptions*>(&options)) {
    call(*adam);
  } else if (auto* const lion = dynamic_cast<LionOptions*>(&options)) {
    call(*lion);
  } else {
    return false;
  }
  return true;
}

bool has_betas(torch::optim::Optimizer& optimizer) {
  return with_betas(optimizer.defaults(), [](auto&) {});
}

}  // namespace

Scheduler::Scheduler(torch::optim::Optimizer& optimizer)
    : LRScheduler(optimizer), optimizer_(optimizer), own_rates_(get_current_lrs()) {}

std::vector<double> Scheduler::get_lrs() {
  std::vector<double> rates;
  for (size_t group = 0; group < own_rates_.size(); ++group) {
    rates.push_back(rate(step_count_, group));
  }
  // LibTorch sets the rates that are returned, one a group.
  const size_t groups = optimizer_.param_groups().size();
  TORCH_CHECK(groups == rates.size(), "zero::", name(), ": the optimizer has ", groups,
              " parameter groups, it had ", rates.size(),
              " when the schedule was made; make the schedule after the last group is added.");
  set_others(step_count_);
  return rates;
}

void Scheduler::apply(int64_t iteration) {
  for (size_t group = 0; group < own_rates_.size(); ++group) {
    optimizer_.param_groups()[group].options().set_lr(rate(iteration, group));
  }
  set_others(iteration);
}

void Scheduler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("schedule", c10::IValue(std::string(name())));
  archive.write("steps", c10::IValue(steps()));
  archive.write("own_rates", c10::IValue(own_rates_));
}

void Scheduler::load(torch::serialize::InputArchive& archive) {
  c10::IValue schedule, steps, rates;
  archive.read("schedule", schedule);
  archive.read("steps", steps);
  archive.read("own_rates", rates);
  TORCH_CHECK(schedule.toStringRef() == name(), "zero::", name(), ": the saved state is of ",
              schedule.toStringRef(), "; load it into the schedule it was saved from.");
  std::vector<double> own_rates = rates.toDoubleVector();
  TORCH_CHECK(own_rates.size() == own_rates_.size(), "zero::", name(), ": the saved state has ",
              own_rates.size(), " parameter groups, the optimizer has ", own_rates_.size(),
              "; build the optimizer as it was when the state was saved.");
  own_rates_ = std::move(own_rates);
  go_to(steps.toInt());
}

void Scheduler::go_to(int64_t steps) {
  TORCH_CHECK(steps >= 0, "zero::", name(), ": ", steps, " steps; it must be at least 0.");
  step_count_ = static_cast<unsigned>(steps);
  apply(steps - 1);
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const Scheduler& scheduler) {
  scheduler.save(archive);
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           Scheduler& scheduler) {
  scheduler.load(archive);
  return archive;
}

WarmupLR::WarmupLR(torch::optim::Optimizer& optimizer, const WarmupOptions& options)
    : Scheduler(optimizer), options_(options) {
  check_at_least(0.0, options.warmup_min_lr(), name(), "warmup_min_lr");
  check_at_least(0.0, options.warmup_max_lr().value_or(0.0), name(), "warmup_max_lr");
  check_at_least(1.0, static_cast<double>(options.warmup_num_steps()), name(), "warmup_num_steps");
  begin();
}

double WarmupLR::rate(int64_t iteration, size_t group) const {
  const double low = options_.warmup_min_lr();
  const double high = options_.warmup_max_lr().value_or(own_rates()[group]);
  if (iteration < 0) return low;
  if (!warms_up(iteration, options_.warmup_num_steps())) return high;
  return low +
         (high - low) * warmed(iteration, options_.warmup_num_steps(), options_.warmup_type());
}

WarmupDecayLR::WarmupDecayLR(torch::optim::Optimizer& optimizer, const WarmupDecayOptions& options)
    : Scheduler(optimizer), options_(options) {
  check_at_least(1.0, static_cast<double>(options.total_num_steps()), name(), "total_num_steps");
  check_at_least(0.0, options.warmup_min_lr(), name(), "warmup_min_lr");
  check_at_least(0.0, options.warmup_max_lr().value_or(0.0), name(), "warmup_max_lr");
  check_at_least(1.0, static_cast<double>(options.warmup_num_steps()), name(), "warmup_num_steps");
  warn_if_all_warmup(options.total_num_steps(), options.warmup_num_steps(), name());
  begin();
}

double WarmupDecayLR::rate(int64_t iteration, size_t group) const {
  const double low = options_.warmup_min_lr();
  const double high = options_.warmup_max_lr().value_or(own_rates()[group]);
  if (iteration < 0) return low;
  const int64_t warmup = options_.warmup_num_steps();
  if (warms_up(iteration, warmup)) {
    return low + (high - low) * warmed(iteration, warmup, options_.warmup_type());
  }
  const int64_t total = options_.total_num_steps();
  const auto left = static_cast<double>(std::max<int64_t>(0, total - iteration));
  const auto decay =
      static_cast<double>(std::max<int64_t>(1, total - std::max<int64_t>(2, warmup)));
  return low + (high - low) * (left / decay);
}

WarmupCosineLR::WarmupCosineLR(torch::optim::Optimizer& optimizer,
                               const WarmupCosineOptions& options)
    : Scheduler(optimizer), options_(options) {
  check_at_least(1.0, static_cast<double>(options.total_num_steps()), name(), "total_num_steps");
  check_at_least(0.0, options.warmup_min_ratio(), name(), "warmup_min_ratio");
  check_at_least(0.0, options.cos_min_ratio(), name(), "cos_min_ratio");
  check_at_least(1.0, static_cast<double>(options.warmup_num_steps()), name(), "warmup_num_steps");
  warn_if_all_warmup(options.total_num_steps(), options.warmup_num_steps(), name());
  begin();
}

double WarmupCosineLR::rate(int64_t iteration, size_t group) const {
  if (iteration < 0) return 0.0;
  const double own = own_rates()[group];
  const int64_t warmup = options_.warmup_num_steps();
  if (warms_up(iteration, warmup)) {
    const double low = options_.warmup_min_ratio();
    return own * (low + (1.0 - low) * warmed(iteration, warmup, options_.warmup_type()));
  }
  const int64_t after = std::max<int64_t>(2, warmup);
  const auto done = static_cast<double>(iteration - after + 1);
  const auto all = static_cast<double>(std::max<int64_t>(1, options_.total_num_steps() - after));
  const double low = options_.cos_min_ratio();
  // At its end the cosine stays where it is.
  const double wave = (1.0 + std::cos(std::numbers::pi * std::min(1.0, done / all))) / 2.0;
  return own * (low + (1.0 - low) * wave);
}

OneCycle::OneCycle(torch::optim::Optimizer& optimizer, const OneCycleOptions& options)
    : Scheduler(optimizer), options_(options) {
  check_at_least(0.0, options.cycle_min_lr(), name(), "cycle_min_lr");
  check_at_least(options.cycle_min_lr(), options.cycle_max_lr(), name(), "cycle_max_lr");
  check_at_least(0.0, options.decay_lr_rate(), name(), "decay_lr_rate");
  check_at_least(1.0, static_cast<double>(options.cycle_first_step_size()), name(),
                 "cycle_first_step_size");
  check_at_least(1.0, static_cast<double>(second_size()), name(), "cycle_second_step_size");
  check_at_least(0.0, static_cast<double>(options.cycle_first_stair_count()), name(),
                 "cycle_first_stair_count");
  check_at_least(0.0, static_cast<double>(options.cycle_second_stair_count().value_or(0)), name(),
                 "cycle_second_stair_count");
  check_at_least(0.0, static_cast<double>(options.decay_step_size()), name(), "decay_step_size");
  check_at_least(0.0, options.cycle_min_mom(), name(), "cycle_min_mom");
  check_at_least(options.cycle_min_mom(), options.cycle_max_mom(), name(), "cycle_max_mom");
  cycles_momentum_ = options.cycle_momentum().value_or(true);
  if (cycles_momentum_ && !has_betas(optimizer)) {
    TORCH_CHECK(!options.cycle_momentum(),
                "zero::OneCycle: cycle_momentum is true, but the optimizer has no betas; set it to "
                "false, or use AdamW, Adam or Lion.");
    TORCH_WARN("zero::OneCycle: the optimizer has no betas, so only its rate follows the cycle.");
    cycles_momentum_ = false;
  }
  begin();
}

int64_t OneCycle::second_size() const {
  return options_.cycle_second_step_size().value_or(options_.cycle_first_step_size());
}

int64_t OneCycle::cycle_size() const { return options_.cycle_first_step_size() + second_size(); }

double OneCycle::height(int64_t iteration) const {
  const int64_t place = (iteration + 1) % cycle_size();
  const bool up = place <= options_.cycle_first_step_size();
  const int64_t size = up ? options_.cycle_first_step_size() : second_size();
  const int64_t climbed = up ? place : cycle_size() - place;
  const int64_t first_stairs = options_.cycle_first_stair_count();
  const int64_t stairs =
      up ? first_stairs : options_.cycle_second_stair_count().value_or(first_stairs);
  if (stairs == 0) return static_cast<double>(climbed) / static_cast<double>(size);
  return static_cast<double>(climbed * stairs / size) / static_cast<double>(stairs);
}

double OneCycle::rate(int64_t iteration, size_t /*group*/) const {
  const double low = options_.cycle_min_lr();
  if (iteration < cycle_size()) return low + (options_.cycle_max_lr() - low) * height(iteration);
  if (options_.decay_step_size() == 0) return low;
  const double decays = static_cast<double>(iteration - cycle_size() + 1) /
                        static_cast<double>(options_.decay_step_size());
  return low / (1.0 + options_.decay_lr_rate() * decays);
}

void OneCycle::set_others(int64_t iteration) {
  if (!cycles_momentum_) return;
  const double high = options_.cycle_max_mom();
  double momentum = high;
  if (iteration < 0) {
    momentum = options_.cycle_min_mom();
  } else if (iteration < cycle_size()) {
    momentum = high - (high - options_.cycle_min_mom()) * height(iteration);
  } else if (options_.decay_step_size() != 0) {
    const double decays = static_cast<double>(iteration - cycle_size() + 1) /
                          static_cast<double>(options_.decay_step_size());
    momentum = high * (1.0 + options_.decay_mom_rate() * decays);
  }
  TORCH_CHECK(momentum < 1.0, "zero::OneCycle: decay_mom_rate ", options_.decay_mom_rate(),
              " has brought the first beta to ", momentum, " at iteration ", iteration,
              "; it must stay below 1, lower decay_mom_rate.");
  for (auto& group : optimizer().param_groups()) {
    with_betas(group.options(), [&](auto& options) { options.betas({momentum, kCycleBeta2}); });
  }
}

LRRangeTest::LRRangeTest(torch::optim::Optimizer& optimizer, const LRRangeTestOptions& options)
    : Scheduler(optimizer), options_(options) {
  check_at_least(0.0, options.lr_range_test_min_lr(), name(), "lr_range_test_min_lr");
  check_at_least(1.0, static_cast<double>(options.lr_range_test_step_size()), name(),
                 "lr_range_test_step_size");
  check_at_least(0.0, options.lr_range_test_step_rate(), name(), "lr_range_test_step_rate");
  begin();
}

double LRRangeTest::rate(int64_t iteration, size_t /*group*/) const {
  double intervals =
      static_cast<double>(iteration + 1) / static_cast<double>(options_.lr_range_test_step_size());
  if (options_.lr_range_test_staircase()) intervals = std::floor(intervals);
  return options_.lr_range_test_min_lr() * (1.0 + options_.lr_range_test_step_rate() * intervals);
}

}  // namespace zero
