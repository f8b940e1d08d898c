// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/update_rules.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <typeinfo>

namespace zero {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;

template <class Options>
const Options& options_of(const OptimizerParamGroup& group) {
  return static_cast<const Options&>(group.options());
}

template <class Options, class Condition>
bool any_group(const Optimizer& optimizer, const Condition& condition) {
  for (const auto& group : optimizer.param_groups()) {
    if (condition(options_of<Options>(group))) return true;
  }
  return false;
}

// The state object of `master`, made when there is none.
template <class State>
State& state_of(Optimizer& optimizer, const at::Tensor& master, bool& is_new) {
  auto& slot = optimizer.state()[master.unsafeGetTensorImpl()];
  is_new = slot == nullptr;
  if (is_new) slot = std::make_unique<State>();
  return static_cast<State&>(*slot);
}

// Returns the buffer, holding what `current` holds.
at::Tensor moved_into(const at::Tensor& buffer, const at::Tensor& current) {
  if (!buffer.defined()) return current;
  TORCH_CHECK(
      !current.defined() || current.numel() == buffer.numel(),
      "LibZeRO: the optimizer's state has ", current.numel(), " elements for a shard of ",
      buffer.numel(),
      ". A state is loaded on the rank and with the stage and number of ranks it was saved with.");
  if (current.defined() && current.const_data_ptr() != buffer.const_data_ptr())
    at::Tensor(buffer).copy_(current);
  return buffer;
}

// Adam and AdamW differ in where weight decay goes, and share everything else.
template <class Options, class State, kernels::Rule kRule>
class AdamRule final : public UpdateRule {
 public:
  StateNeeds needs(const Optimizer& optimizer) const override {
    return {true, true, any_group<Options>(optimizer, [](const Options& options) {
              return options.amsgrad();
            })};
  }

  void prepare(Optimizer& optimizer, OptimizerParamGroup& group, const at::Tensor& master,
               const StateViews& views, kernels::Segment& segment) const override {
    const auto& options = options_of<Options>(group);
    bool is_new = false;
    auto& state = state_of<State>(optimizer, master, is_new);
    state.exp_avg(moved_into(views.moment1, state.exp_avg()));
    state.exp_avg_sq(moved_into(views.moment2, state.exp_avg_sq()));
    if (options.amsgrad()) state.max_exp_avg_sq(moved_into(views.moment3, state.max_exp_avg_sq()));
    state.step(state.step() + 1);
    const auto [beta1, beta2] = options.betas();
    segment.rule = kRule;
    segment.scalars =
        kernels::adam_scalars(kRule, options.lr(), beta1, beta2, options.eps(),
                              options.weight_decay(), options.amsgrad(), state.step());
  }
};

class SgdRule final : public UpdateRule {
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;

 public:
  StateNeeds needs(const Optimizer& optimizer) const override {
    return {any_group<Options>(optimizer,
                               [](const Options& options) { return options.momentum() != 0; }),
            false, false};
  }

  void prepare(Optimizer& optimizer, OptimizerParamGroup& group, const at::Tensor& master,
               const StateViews& views, kernels::Segment& segment) const override {
    const auto& options = options_of<Options>(group);
    bool first_step = false;
    if (options.momentum() != 0) {
      auto& state = state_of<State>(optimizer, master, first_step);
      state.momentum_buffer(moved_into(views.moment1, state.momentum_buffer()));
    }
    segment.rule = kernels::Rule::kSgd;
    segment.scalars = kernels::sgd_scalars(options.lr(), options.momentum(), options.dampening(),
                                           options.weight_decay(), options.nesterov(), first_step);
  }
};

}  // namespace

std::unique_ptr<UpdateRule> rule_of(const Optimizer& optimizer) {
  using namespace torch::optim;
  TORCH_CHECK(
      optimizer.state().empty(), "LibZeRO: the optimizer has state of earlier steps (",
      optimizer.state().size(),
      " parameters), which setup would lose. Call zero::Strategy::setup before the first step.");
  if (dynamic_cast<const AdamW*>(&optimizer) != nullptr) {
    return std::make_unique<AdamRule<AdamWOptions, AdamWParamState, kernels::Rule::kAdamW>>();
  }
  if (dynamic_cast<const Adam*>(&optimizer) != nullptr) {
    return std::make_unique<AdamRule<AdamOptions, AdamParamState, kernels::Rule::kAdam>>();
  }
  if (dynamic_cast<const SGD*>(&optimizer) != nullptr) return std::make_unique<SgdRule>();
  TORCH_CHECK(false, "LibZeRO: the optimizer (", c10::demangle(typeid(optimizer).name()),
              ") has no sharded update yet. Use torch::optim::AdamW, Adam or SGD.");
}

}  // namespace zero
