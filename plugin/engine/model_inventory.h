// SPDX-License-Identifier: Apache-2.0
// What models and their optimizers bring: parameters with their names, and whether they fit
// together.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

#include "plugin/paging/page_layout.h"

namespace zero {

// Every parameter once, in registration order; a tied one carries all its names, and with several
// models a name begins with its model ("models[1].head.weight"). Throws when a model has no
// parameter, when an optimizer holds a tensor that is not a parameter of the models, or when two
// optimizers hold the same one.
std::vector<NamedParameter> inventory(const std::vector<torch::nn::Module*>& models,
                                      const std::vector<torch::optim::Optimizer*>& optimizers);

// Names, shapes, dtypes and trainability, a line each: equal on ranks that hold the same model.
std::string signature(const std::vector<NamedParameter>& parameters);
// Types, groups and learning rates of optimizers, likewise.
std::string signature(const std::vector<torch::optim::Optimizer*>& optimizers);

}  // namespace zero
