// SPDX-License-Identifier: Apache-2.0
// A stack of square layers of 1 MiB each, so that pages and budgets are easy to count.
#pragma once

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <vector>

#include "support/device.h"
#include "support/error_of.h"
#include "zero/strategy.h"

namespace zero::testing {

constexpr int64_t kMiB = 1 << 20;

struct BlocksImpl : torch::nn::Module {
  explicit BlocksImpl(int count) {
    torch::manual_seed(11);
    for (int i = 0; i < count; ++i) {
      const auto options = torch::nn::LinearOptions(512, 512).bias(false);
      blocks.push_back(register_module("block" + std::to_string(i), torch::nn::Linear(options)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& block : blocks) x = torch::tanh(block(x));
    return x;
  }
  at::Tensor loss(const at::Tensor& x) { return forward(x).square().mean(); }
  std::vector<torch::nn::Linear> blocks;
};
TORCH_MODULE(Blocks);

inline at::Tensor inputs(at::Device device) {
  torch::manual_seed(5);
  return torch::rand({4, 512}).to(device);
}

// Everything offloaded, pages of one layer, `budget` bytes of them at once.
inline StrategyOptions paged(int64_t budget) {
  return StrategyOptions()
      .device(test_device_name())
      .stage(3)
      .offload_parameters(true)
      .offload_optimizer(true)
      .page_bytes(kMiB)
      .parameter_budget(budget);
}

}  // namespace zero::testing
