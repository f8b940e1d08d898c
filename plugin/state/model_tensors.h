// SPDX-License-Identifier: Apache-2.0
// A model's parameters and buffers as files see them: each once, with all the names it has.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace zero {

struct ModelTensor {
  std::vector<std::string> names;  // in registration order; several when tied
  at::Tensor tensor;
};

// Undefined ones are left out. Tensors are the same when they are one handle, or equal views of one
// storage.
std::vector<ModelTensor> model_tensors(const torch::nn::Module& model);

}  // namespace zero
