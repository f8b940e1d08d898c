// SPDX-License-Identifier: Apache-2.0
// What models and their optimizers bring: parameters with their names, and whether they fit
// together.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "plugin/paging/page_layout.h"

namespace zero {

// Every parameter once, in registration order; a tied one carries all its names, and with several
// models a name begins with its model ("models[1].head.weight"). Throws when a model has no
// parameter, when an optimizer holds a tensor that is not a parameter of the models, or when two
// optimizers hold the same one.
std::vector<NamedParameter> inventory(const std::vector<torch::nn::Module*>& models,
                                      const std::vector<torch::optim::Optimizer*>& optimizers);

using ImplSet = std::unordered_set<const c10::TensorImpl*>;
// The tensors that are the model's parameters.
ImplSet impls_of(const torch::nn::Module& model);
// Throws with the name of a parameter of the model that is none of `known`.
void require_known(const torch::nn::Module& model, const ImplSet& known);

// Names, shapes, dtypes and trainability, a line each: equal on ranks that hold the same model.
std::string signature(const std::vector<NamedParameter>& parameters);
// Types, groups and learning rates of optimizers, likewise.
std::string signature(const std::vector<torch::optim::Optimizer*>& optimizers);

}  // namespace zero
