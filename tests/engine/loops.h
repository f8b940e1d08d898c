// SPDX-License-Identifier: Apache-2.0
// A training loop as people write it, run with LibTorch alone and then under strategies of all
// kinds. What the loop notes on its way (losses, gradients, weights) must be the same.
//
// Under several ranks each rank runs the loop on the same data, so means over ranks are those of
// one rank.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "support/device.h"
#include "zero/strategy.h"

namespace zero::testing {

// Who runs the update: the user's optimizer, with LibTorch's own arithmetic, or strategy.step().
enum class Update { kOptimizer, kStrategy };

struct Setting {
  std::string name;
  StrategyOptions options;
  Update update = Update::kOptimizer;
};

// Of this process's world: WORLD_SIZE.
int rank_count();

// Stages 0 to 3, offload of the optimizer and of parameters, small pages; on several ranks fewer of
// them, because each is a world to join.
std::vector<Setting> settings(Update update);

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;
std::unique_ptr<torch::optim::Optimizer> sgd_with_momentum(std::vector<at::Tensor> parameters);
std::unique_ptr<torch::optim::Optimizer> adamw(std::vector<at::Tensor> parameters);

// What a loop may use.
template <class Model>
class Trainee {
 public:
  Trainee(std::shared_ptr<Model> module, const MakeOptimizer& make, const Setting* setting)
      : model(std::move(module)), optimizer(make(model->parameters())) {
    if (setting == nullptr) return;
    update_ = setting->update;
    strategy_.emplace(setting->options);
    strategy_->setup(*model, *optimizer);
  }

  std::shared_ptr<Model> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  at::Device device = test_device();

  // Update and clearing of the gradients.
  void step() {
    if (strategy_ && update_ == Update::kStrategy) {
      strategy_->step();
    } else {
      optimizer->step();
      optimizer->zero_grad();
    }
  }
  void note(const std::string& name, const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    notes.emplace_back(name, tensor.defined() ? tensor.detach().clone().cpu() : tensor);
  }
  void note_gradients(const std::string& when) {
    for (const auto& item : model->named_parameters())
      note(when + ", gradient of " + item.key(), item.value().grad());
  }
  void note_parameters(const std::string& when) {
    for (const auto& item : model->named_parameters()) note(when + ", " + item.key(), item.value());
  }
  // Null with LibTorch alone.
  Strategy* strategy() { return strategy_ ? &*strategy_ : nullptr; }

  std::vector<std::pair<std::string, at::Tensor>> notes;

 private:
  std::optional<Strategy> strategy_;
  Update update_ = Update::kOptimizer;
};

// Fails where notes differ: in their bits, or, where the update is the strategy's own or sums go
// over ranks, by more than rounding.
void compare_notes(const std::vector<std::pair<std::string, at::Tensor>>& plain,
                   const std::vector<std::pair<std::string, at::Tensor>>& seen, Update update);

// The model is made by `make`, from the same seed each time.
template <class Model, class Loop>
void expect_as_libtorch(const std::function<std::shared_ptr<Model>()>& make, const Loop& loop,
                        const MakeOptimizer& optimizer = sgd_with_momentum) {
  const auto run = [&](const Setting* setting) {
    torch::manual_seed(17);
    auto model = make();
    model->to(test_device());
    Trainee<Model> trainee(std::move(model), optimizer, setting);
    torch::manual_seed(23);
    loop(trainee);
    trainee.note_parameters("at the end");
    return std::move(trainee.notes);
  };
  const auto plain = run(nullptr);
  for (const Update update : {Update::kOptimizer, Update::kStrategy}) {
    for (const Setting& setting : settings(update)) {
      SCOPED_TRACE(setting.name);
      try {
        compare_notes(plain, run(&setting), update);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

template <class Model, class Loop>
void expect_as_libtorch(const Loop& loop, const MakeOptimizer& optimizer = sgd_with_momentum) {
  expect_as_libtorch<Model>(
      std::function<std::shared_ptr<Model>()>([] { return std::make_shared<Model>(); }), loop,
      optimizer);
}

// Three layers and a scale: pages of odd sizes, a scalar, a bias.
struct Mlp : torch::nn::Module {
  Mlp();
  at::Tensor forward(const at::Tensor& x);
  at::Tensor loss(const at::Tensor& x) { return forward(x).square().mean(); }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  at::Tensor scale;  // 0-dim
};

// [rows, 6], from the generator's present state.
inline at::Tensor rows(int64_t count, at::Device device) {
  return torch::randn({count, 6}).to(device);
}

}  // namespace zero::testing
