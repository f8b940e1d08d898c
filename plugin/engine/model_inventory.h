// SPDX-License-Identifier: Apache-2.0
// What a model and its optimizer bring: parameters with their names, and whether they fit together.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "plugin/paging/page_layout.h"

namespace zero {

// Every parameter once, in registration order; a tied one carries all its names. `optimizer` may be
// null. Throws when the model has no parameter, or when the optimizer holds a tensor that is not a
// parameter of the model.
std::vector<NamedParameter> inventory(const torch::nn::Module& model,
                                      const torch::optim::Optimizer* optimizer);

using ImplSet = std::unordered_set<const c10::TensorImpl*>;
// The tensors that are the model's parameters.
ImplSet impls_of(const torch::nn::Module& model);
// Throws with the name of a parameter of the model that is none of `known`.
void require_known(const torch::nn::Module& model, const ImplSet& known);

// Names, shapes, dtypes and trainability, a line each: equal on ranks that hold the same model.
std::string signature(const std::vector<NamedParameter>& parameters);
// Type, groups and learning rates of an optimizer, likewise.
std::string signature(const torch::optim::Optimizer& optimizer);

}  // namespace zero
