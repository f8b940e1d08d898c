// SPDX-License-Identifier: Apache-2.0
// A small block with dropout, and the gradients of a stack of them.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "support/device.h"
#include "support/error_of.h"

namespace zero::testing {

inline constexpr int64_t kWidth = 64;

struct DropBlockImpl : torch::nn::Module {
  explicit DropBlockImpl(int64_t width = kWidth)
      : up(register_module("up", torch::nn::Linear(width, 2 * width))),
        norm(register_module("norm",
                             torch::nn::LayerNorm(torch::nn::LayerNormOptions({2 * width})))),
        down(register_module("down", torch::nn::Linear(2 * width, width))),
        dropout(register_module("dropout", torch::nn::Dropout(0.25))) {}
  at::Tensor forward(at::Tensor x) {
    return x + dropout(down(torch::gelu(norm(up(std::move(x))))));
  }
  torch::nn::Linear up;
  torch::nn::LayerNorm norm;
  torch::nn::Linear down;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(DropBlock);

struct StackImpl : torch::nn::Module {
  explicit StackImpl(int count) {
    torch::manual_seed(3);
    for (int i = 0; i < count; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), DropBlock()));
    to(test_device());
  }
  std::vector<DropBlock> blocks;
};
TORCH_MODULE(Stack);

inline at::Tensor random_input(int64_t rows = 8) {
  torch::manual_seed(17);
  return torch::randn({rows, kWidth}).to(test_device());
}

inline std::vector<at::Tensor> gradients_of(const torch::nn::Module& model) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : model.parameters()) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  }
  return gradients;
}

// The gradients of `forward(x)`'s mean square, from zero gradients and a fixed seed.
template <class Forward>
std::vector<at::Tensor> gradients_after(torch::nn::Module& model, const Forward& forward) {
  model.zero_grad();
  torch::manual_seed(29);
  forward().square().mean().backward();
  return gradients_of(model);
}

// Where two lists differ, or "".
inline std::string difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return "other number of tensors";
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i].defined() ? b[i].defined() && at::equal(a[i], b[i]) : !b[i].defined();
    if (!same) return "tensor " + std::to_string(i) + " differs";
  }
  return "";
}

}  // namespace zero::testing
