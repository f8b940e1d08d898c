// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/update_rules.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <typeinfo>

#include "zero/lion.h"

namespace zero {

namespace {

using torch::optim::OptimizerParamGroup;
using torch::optim::OptimizerParamState;

// What the rules have in common: LibTorch's options and state classes.
template <class OptionsClass, class StateClass>
class RuleOf : public UpdateRule {
 public:
  std::unique_ptr<OptimizerParamState> make_state() const final {
    return std::make_unique<StateClass>();
  }

 protected:
  static const OptionsClass& options_of(const OptimizerParamGroup& group) {
    return static_cast<const OptionsClass&>(group.options());
  }
  static StateClass& state_of(OptimizerParamState& state) {
    return static_cast<StateClass&>(state);
  }
  static int64_t next_step(OptimizerParamState& state) {
    return state_of(state).step(state_of(state).step() + 1).step();
  }
};

// Adam and AdamW differ in where weight decay goes, and share everything else.
template <class Options, class State, kernels::Rule kRule>
class AdamRule final : public RuleOf<Options, State> {
 public:
  Moments<bool> needs(const OptimizerParamGroup& group) const override {
    return {true, true, this->options_of(group).amsgrad()};
  }
  Moments<at::Tensor*> moments(OptimizerParamState& state) const override {
    auto& own = this->state_of(state);
    return {&own.exp_avg(), &own.exp_avg_sq(), &own.max_exp_avg_sq()};
  }
  void prepare(const OptimizerParamGroup& group, OptimizerParamState* state, bool /*is_new*/,
               kernels::Segment& segment) const override {
    const auto& options = this->options_of(group);
    const auto [beta1, beta2] = options.betas();
    segment.rule = kRule;
    segment.scalars =
        kernels::adam_scalars(kRule, options.lr(), beta1, beta2, options.eps(),
                              options.weight_decay(), options.amsgrad(), this->next_step(*state));
  }
};

class SgdRule final : public RuleOf<torch::optim::SGDOptions, torch::optim::SGDParamState> {
 public:
  Moments<bool> needs(const OptimizerParamGroup& group) const override {
    return {options_of(group).momentum() != 0, false, false};
  }
  Moments<at::Tensor*> moments(OptimizerParamState& state) const override {
    return {&state_of(state).momentum_buffer(), nullptr, nullptr};
  }
  void prepare(const OptimizerParamGroup& group, OptimizerParamState* /*state*/, bool is_new,
               kernels::Segment& segment) const override {
    const auto& options = options_of(group);
    segment.rule = kernels::Rule::kSgd;
    segment.scalars = kernels::sgd_scalars(options.lr(), options.momentum(), options.dampening(),
                                           options.weight_decay(), options.nesterov(), is_new);
  }
};

class AdagradRule final
    : public RuleOf<torch::optim::AdagradOptions, torch::optim::AdagradParamState> {
 public:
  Moments<bool> needs(const OptimizerParamGroup& /*group*/) const override {
    return {false, true, false};
  }
  double initial_value(const OptimizerParamGroup& group) const override {
    return options_of(group).initial_accumulator_value();
  }
  Moments<at::Tensor*> moments(OptimizerParamState& state) const override {
    return {nullptr, &state_of(state).sum(), nullptr};
  }
  void prepare(const OptimizerParamGroup& group, OptimizerParamState* state, bool /*is_new*/,
               kernels::Segment& segment) const override {
    const auto& options = options_of(group);
    segment.rule = kernels::Rule::kAdagrad;
    segment.scalars = kernels::adagrad_scalars(options.lr(), options.lr_decay(), options.eps(),
                                               options.weight_decay(), next_step(*state));
  }
};

class RmspropRule final
    : public RuleOf<torch::optim::RMSpropOptions, torch::optim::RMSpropParamState> {
 public:
  Moments<bool> needs(const OptimizerParamGroup& group) const override {
    return {options_of(group).momentum() > 0, true, options_of(group).centered()};
  }
  Moments<at::Tensor*> moments(OptimizerParamState& state) const override {
    auto& own = state_of(state);
    return {&own.momentum_buffer(), &own.square_avg(), &own.grad_avg()};
  }
  void prepare(const OptimizerParamGroup& group, OptimizerParamState* state, bool /*is_new*/,
               kernels::Segment& segment) const override {
    const auto& options = options_of(group);
    next_step(*state);
    segment.rule = kernels::Rule::kRmsprop;
    segment.scalars =
        kernels::rmsprop_scalars(options.lr(), options.alpha(), options.eps(),
                                 options.weight_decay(), options.momentum(), options.centered());
  }
};

}  // namespace

double UpdateRule::initial_value(const OptimizerParamGroup& /*group*/) const { return 0.0; }

const UpdateRule* rule_of(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;
  static const AdamRule<AdamWOptions, AdamWParamState, kernels::Rule::kAdamW> adamw;
  static const AdamRule<AdamOptions, AdamParamState, kernels::Rule::kAdam> adam;
  static const SgdRule sgd;
  static const AdagradRule adagrad;
  static const RmspropRule rmsprop;
  const auto& type = typeid(optimizer);
  if (type == typeid(AdamW)) return &adamw;
  if (type == typeid(Adam)) return &adam;
  if (type == typeid(SGD)) return &sgd;
  if (type == typeid(Adagrad)) return &adagrad;
  if (type == typeid(RMSprop)) return &rmsprop;
  return nullptr;
}

void check_usable(const torch::optim::Optimizer& optimizer, bool allow_untested) {
  TORCH_CHECK(dynamic_cast<const torch::optim::LBFGS*>(&optimizer) == nullptr,
              "LibZeRO: the optimizer is ", name_of(optimizer),
              ", whose step takes dot products over all parameters and calls the closure several "
              "times; on shards of parameters they would be wrong. Use torch::optim::AdamW, Adam, "
              "SGD, Adagrad or RMSprop.");
  const bool known = rule_of(optimizer) != nullptr || typeid(optimizer) == typeid(Lion);
  TORCH_CHECK(known || allow_untested, "LibZeRO: the optimizer is ", name_of(optimizer),
              ", of which LibZeRO does not know whether it updates each element by itself, as it "
              "must on shards of parameters. If it does, set zero_allow_untested_optimizer; else "
              "use torch::optim::AdamW, Adam, SGD, Adagrad or RMSprop.");
}

std::string name_of(const torch::optim::Optimizer& optimizer) {
  return c10::demangle(typeid(optimizer).name());
}

}  // namespace zero
