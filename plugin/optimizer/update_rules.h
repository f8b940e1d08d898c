// SPDX-License-Identifier: Apache-2.0
// What the user's torch::optim object says about the update: its rule, its options now (learning
// rates may change at any step), and its state. The state stays in the optimizer, as LibTorch's own
// state objects whose tensors are views of our buffers, so that saving the optimizer saves it and a
// plain optimizer.step() goes on from it.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>

#include "plugin/optimizer/kernels/update.h"

namespace zero {

// Which state buffers a rule needs, as large as the shard.
struct StateNeeds {
  bool moment1 = false;
  bool moment2 = false;
  bool moment3 = false;
};

// This segment's part of the state buffers; undefined where not needed.
struct StateViews {
  at::Tensor moment1;
  at::Tensor moment2;
  at::Tensor moment3;
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual StateNeeds needs(const torch::optim::Optimizer& optimizer) const = 0;
  // Advances the step count of `master` by one and fills in rule and scalars of its update. A state
  // that lies elsewhere (loaded, or made by a plain step) is moved into `views`.
  virtual void prepare(torch::optim::Optimizer& optimizer, torch::optim::OptimizerParamGroup& group,
                       const at::Tensor& master, const StateViews& views,
                       kernels::Segment& segment) const = 0;
};

// Throws for an optimizer whose update has no kernel, with the ones that have, and for one that has
// been stepped before: its state would be lost.
std::unique_ptr<UpdateRule> rule_of(const torch::optim::Optimizer& optimizer);

}  // namespace zero
