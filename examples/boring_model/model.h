// SPDX-License-Identifier: Apache-2.0
// A stack of Linear layers, each of the hidden ones a checkpointed region: as plain as a model can
// be whose activations, not its parameters, fill the device.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace boring {

struct ModelSizes {
  int64_t features = 4;
  int64_t width = 2000;
  int64_t layers = 10;
};

// Called with 0 after linear_in, i + 1 after linear_i, and layers + 1 after linear_out.
using AtBoundary = std::function<void(int64_t boundary)>;

class BoringModelImpl : public torch::nn::Module {
 public:
  explicit BoringModelImpl(const ModelSizes& sizes);
  // x: [batch, rows, features] -> [batch, rows, 2]
  at::Tensor forward(at::Tensor x, const AtBoundary& at_boundary);

 private:
  torch::nn::Linear linear_in_, linear_out_;
  std::vector<torch::nn::Linear> hidden_;
};
TORCH_MODULE(BoringModel);

}  // namespace boring
