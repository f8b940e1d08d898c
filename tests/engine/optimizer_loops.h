// SPDX-License-Identifier: Apache-2.0
// One training loop, run with LibTorch alone and under a strategy at every stage; the parameters
// must agree. With several ranks each has a batch of its own, and LibTorch alone sees all of them.
#pragma once

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/device_ranks.h"
#include "support/error_of.h"
#include "zero/strategy.h"

namespace zero::testing {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    body = register_module("body", torch::nn::Linear(7, 19));
    head = register_module("head", torch::nn::Linear(19, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return head(torch::tanh(body(x))); }
  torch::nn::Linear body{nullptr}, head{nullptr};
};
TORCH_MODULE(Net);

using Values = std::map<std::string, at::Tensor>;

inline int test_rank() {
  const char* const rank = std::getenv("RANK");
  return rank != nullptr ? std::atoi(rank) : 0;
}
inline int test_world_size() {
  const char* const size = std::getenv("WORLD_SIZE");
  return size != nullptr ? std::atoi(size) : 1;
}

inline Values values_of(const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  Values values;
  for (const auto& item : model.named_parameters())
    values[item.key()] = item.value().detach().clone().to(at::kCPU, at::kFloat);
  return values;
}

inline void expect_near(const Values& actual, const Values& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, value] : expected) {
    const auto distance = (actual.at(name) - value).norm().item<double>();
    EXPECT_LE(distance, 1e-5 * value.norm().item<double>()) << name;
  }
}

// What a loop runs on: a model and, unless it runs with LibTorch alone, a strategy.
class Bench {
 public:
  explicit Bench(std::optional<StrategyOptions> options) {
    torch::manual_seed(3);
    model = Net();
    other = Net();
    if (options) {
      strategy = std::make_unique<Strategy>(*options);
    } else {
      model->to(test_device());
      other->to(test_device());
    }
  }
  bool plain() const { return strategy == nullptr; }

  // Of this rank's batch, or the mean over all ranks' for LibTorch alone.
  at::Tensor loss(int step, Net net = nullptr) {
    if (!net) net = model;
    at::Tensor sum;
    for (int rank = 0; rank < test_world_size(); ++rank) {
      if (!plain() && rank != test_rank()) continue;
      const at::Tensor loss =
          (net(batch(step, rank).to(net->head->weight.dtype())) - 0.5).square().mean();
      sum = sum.defined() ? sum + loss : loss;
    }
    return plain() ? sum / test_world_size() : sum;
  }
  static at::Tensor batch(int step, int rank) {
    torch::manual_seed(100 * step + rank);
    return torch::randn({5, 7}).to(test_device());
  }

  void setup(torch::optim::Optimizer& optimizer) {
    if (strategy) strategy->setup(model, optimizer);
  }
  // strategy.step(), which also clears the gradients, or the same by LibTorch.
  void step(torch::optim::Optimizer& optimizer) {
    if (strategy) {
      strategy->step(optimizer);
    } else {
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  // `count` whole steps from step `first` on.
  void train(torch::optim::Optimizer& optimizer, int first, int count) {
    for (int i = first; i < first + count; ++i) {
      loss(i).backward();
      step(optimizer);
    }
  }

  Net model{nullptr}, other{nullptr};
  std::unique_ptr<Strategy> strategy;
};

inline StrategyOptions at_stage(int stage) {
  return StrategyOptions().device(test_device_name()).stage(stage).page_bytes(4096);
}

inline std::vector<StrategyOptions> every_stage() {
  std::vector<StrategyOptions> all;
  for (int stage = 0; stage <= 3; ++stage) {
    const auto options = at_stage(stage);
    all.push_back(options);
    if (stage > 0) all.push_back(StrategyOptions(options).offload_optimizer(true));
    if (stage == 3) all.push_back(StrategyOptions(all.back()).offload_parameters(true));
  }
  return all;
}

inline std::string text_of(const StrategyOptions& options) {
  std::string text = "stage ";
  text.append(std::to_string(options.stage()));
  if (options.offload_optimizer()) text.append(", optimizer offloaded");
  if (options.offload_parameters()) text.append(", parameters offloaded");
  return text;
}

// `run` trains bench.model (and bench.other) in the same way with and without a strategy.
inline void expect_plain_numbers(const std::function<void(Bench&)>& run,
                                 const std::function<void(StrategyOptions&)>& also = {}) {
  Bench expected(std::nullopt);
  const Values start = values_of(*expected.model);
  run(expected);
  EXPECT_FALSE(at::equal(start.at("head.weight"), values_of(*expected.model).at("head.weight")))
      << "nothing was trained";
  for (auto options : every_stage()) {
    if (also) also(options);
    SCOPED_TRACE(text_of(options) + ", ranks " + std::to_string(test_world_size()));
    Bench bench(options);
    run(bench);
    expect_near(values_of(*bench.model), values_of(*expected.model));
    expect_near(values_of(*bench.other), values_of(*expected.other));
  }
}

}  // namespace zero::testing
