// SPDX-License-Identifier: Apache-2.0
// What the user's torch::optim object says about the update: its rule, its options now (learning
// rates may change at any step), and its state. The state stays in the optimizer, as LibTorch's own
// state objects whose tensors are views of our buffers, so that saving the optimizer saves it and a
// plain optimizer.step() goes on from it.
#pragma once

#include <torch/optim/optimizer.h>

#include <array>
#include <memory>

#include "plugin/optimizer/kernels/update.h"

namespace zero {

// Something for each of moment1, moment2 and moment3 of kernels::Buffers.
template <class T>
using Moments = std::array<T, 3>;

// An optimizer whose update has a kernel. No members: one may be shared.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // Which moments the options of this group ask for now.
  virtual Moments<bool> needs(const torch::optim::OptimizerParamGroup& group) const = 0;
  // What a moment starts from.
  virtual double initial_value(const torch::optim::OptimizerParamGroup& group) const;
  virtual std::unique_ptr<torch::optim::OptimizerParamState> make_state() const = 0;
  // Where a state object of this optimizer keeps the moments; null for what it never has.
  virtual Moments<at::Tensor*> moments(torch::optim::OptimizerParamState& state) const = 0;
  // Advances the state's step count by one and fills in rule and scalars of the update. `state` is
  // null where no moment is needed; `is_new`: it was made for this update.
  virtual void prepare(const torch::optim::OptimizerParamGroup& group,
                       torch::optim::OptimizerParamState* state, bool is_new,
                       kernels::Segment& segment) const = 0;
};

// By exact type: a class of the user's own that derives from torch::optim::Adam may do anything in
// its step. Null where there is no kernel.
const UpdateRule* rule_of(const torch::optim::Optimizer& optimizer);

// Throws for an optimizer that cannot work on shards, with the reason, and unless `allow_untested`
// for one without a kernel, with the flag that allows it.
void check_usable(const torch::optim::Optimizer& optimizer, bool allow_untested);

// The class's name as users write it.
std::string name_of(const torch::optim::Optimizer& optimizer);

}  // namespace zero
