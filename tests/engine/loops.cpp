// SPDX-License-Identifier: Apache-2.0
#include "engine/loops.h"

#include <cstdlib>

namespace zero::testing {

namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kBudget = 32 << 10;

Setting setting_of(int stage, bool optimizer, bool parameters, Update update) {
  Setting setting;
  setting.update = update;
  setting.options =
      StrategyOptions().device(test_device_name()).stage(stage).page_bytes(kPageBytes);
  setting.name = "stage " + std::to_string(stage);
  if (optimizer) setting.options.offload_optimizer(true);
  if (parameters) setting.options.offload_parameters(true).parameter_budget(kBudget);
  if (optimizer) setting.name += ", optimizer offloaded";
  if (parameters) setting.name += ", parameters offloaded";
  setting.name += update == Update::kOptimizer ? ", optimizer.step()" : ", strategy.step()";
  return setting;
}

}  // namespace

int rank_count() {
  const char* const count = std::getenv("WORLD_SIZE");
  return count == nullptr ? 1 : std::atoi(count);
}

std::vector<Setting> settings(Update update) {
  std::vector<Setting> all;
  if (rank_count() > 1) {
    all.push_back(setting_of(update == Update::kOptimizer ? 1 : 0, false, false, update));
    all.push_back(setting_of(2, update == Update::kOptimizer, false, update));
  } else {
    for (int stage = 0; stage <= 3; ++stage) {
      all.push_back(setting_of(stage, false, false, update));
      if (stage > 0) all.push_back(setting_of(stage, true, false, update));
    }
  }
  all.push_back(setting_of(3, true, true, update));
  return all;
}

std::unique_ptr<torch::optim::Optimizer> sgd_with_momentum(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(0.05).momentum(0.9));
}

std::unique_ptr<torch::optim::Optimizer> adamw(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::AdamW>(std::move(parameters),
                                               torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
}

void compare_notes(const std::vector<std::pair<std::string, at::Tensor>>& plain,
                   const std::vector<std::pair<std::string, at::Tensor>>& seen, Update update) {
  ASSERT_EQ(plain.size(), seen.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    const auto& [name, expected] = plain[i];
    ASSERT_EQ(name, seen[i].first);
    const at::Tensor& actual = seen[i].second;
    ASSERT_EQ(actual.defined(), expected.defined()) << name;
    if (!expected.defined()) continue;
    ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
    ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << name;
    if (update == Update::kOptimizer && rank_count() == 1) {
      ASSERT_TRUE(at::equal(actual, expected))
          << name << ": off by " << (actual - expected).abs().max();
    } else {
      ASSERT_TRUE(at::allclose(actual, expected, 1e-4, 1e-6))
          << name << ": off by " << (actual - expected).abs().max();
    }
  }
}

Mlp::Mlp() {
  first = register_module("first", torch::nn::Linear(6, 67));
  norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({67})));
  second = register_module("second", torch::nn::Linear(67, 67));
  third = register_module("third", torch::nn::Linear(67, 6));
  scale = register_parameter("scale", torch::full({}, 1.5));
}

at::Tensor Mlp::forward(const at::Tensor& x) {
  at::Tensor hidden = torch::tanh(norm(first(x)));
  hidden = hidden + torch::gelu(second(hidden));
  return third(hidden) * scale;
}

}  // namespace zero::testing
