// SPDX-License-Identifier: Apache-2.0
// An exception in the middle of a step, the user's own or LibTorch's, is like a step that never was:
// the next one starts clean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <stdexcept>

#include "engine/blocks.h"

namespace zero::testing {
namespace {

constexpr int kBlocks = 5;

struct Planted : std::runtime_error {
  Planted() : std::runtime_error("planted") {}
};

struct Training {
  explicit Training(const StrategyOptions& options)
      : optimizer(model->parameters(), 1.0), strategy(options) {
    strategy.setup(model, optimizer);
  }
  at::Tensor loss() { return model->loss(inputs(strategy.device())); }
  Blocks model{kBlocks};
  torch::optim::SGD optimizer;
  Strategy strategy;
};

// Each of these throws in the middle of something.
const std::vector<std::pair<const char*, std::function<void(Training&)>>> kBreaks{
    {"forward, by LibTorch",
     [](Training& training) {
       at::Tensor x = training.model->blocks[0](inputs(training.strategy.device()));
       (void)training.model->blocks[1](x.narrow(1, 0, 7));
     }},
    {"forward, by the user",
     [](Training& training) {
       at::Tensor x = training.model->blocks[0](inputs(training.strategy.device()));
       x = training.model->blocks[1](x);
       throw Planted();
     }},
    {"an operator that needs two weights",
     [](Training& training) {
       (void)at::cat(
           {training.model->blocks[0]->weight, training.model->blocks[1]->weight.narrow(1, 0, 3)});
     }},
    {"a write in place",
     [](Training& training) {
       const at::NoGradGuard no_grad;
       training.model->blocks[2]->weight.add_(
           at::ones({3, 3}, inputs(training.strategy.device()).options()));
     }},
    {"backward",
     [](Training& training) {
       const auto hook = training.model->blocks[1]->weight.register_hook(
           [](const at::Tensor&) -> at::Tensor { throw Planted(); });
       const at::Tensor loss = training.loss();
       try {
         loss.backward();
       } catch (...) {
         training.model->blocks[1]->weight.remove_hook(hook);
         throw;
       }
     }},
    {"a second backward, after gradients had been added up",
     [](Training& training) {
       training.loss().backward();
       const at::Tensor loss = training.loss();
       loss.register_hook([](const at::Tensor&) -> at::Tensor { throw Planted(); });
       loss.backward();
     }},
    {"a scope that reads",
     [](Training& training) {
       const GatheredParameters scope(training.strategy);
       throw Planted();
     }},
    {"a scope that writes",
     [](Training& training) {
       const GatheredParameters scope(training.strategy, {training.model->blocks[3]->weight}, 0);
       throw Planted();
     }},
    {"a step",
     [](Training& training) {
       training.loss().backward();
       auto& parameters = training.optimizer.param_groups()[0].params();
       const at::Tensor last = parameters.back();
       parameters.pop_back();
       try {
         training.strategy.step();
       } catch (...) {
         parameters.push_back(last);
         throw;
       }
     }},
};

TEST(Exceptions, InTheMiddleOfAStepLeaveTheNextOneClean) {
  const auto cases = {
      StrategyOptions().stage(0), StrategyOptions().stage(2).offload_optimizer(true),
      StrategyOptions().stage(3).offload_parameters(true).parameter_budget(3 * kMiB),
      StrategyOptions()
          .stage(3)
          .offload_parameters(true)
          .offload_optimizer(true)
          .precision("fp32")
          .parameter_budget(2 * kMiB)};
  Blocks expected(kBlocks);
  expected->to(test_device());
  torch::optim::SGD optimizer(expected->parameters(), 1.0);
  for (size_t i = 0; i < 2 * kBreaks.size(); ++i) {
    optimizer.zero_grad();
    expected->loss(inputs(test_device())).backward();
    optimizer.step();
  }
  int number = 0;
  for (const auto& options : cases) {
    SCOPED_TRACE(::testing::Message() << "case " << number++);
    Training training(StrategyOptions(options).device(test_device_name()).page_bytes(kMiB));
    for (const bool plain_step : {false, true}) {
      for (const auto& [where, run] : kBreaks) {
        SCOPED_TRACE(::testing::Message() << where << ", plain step " << plain_step);
        EXPECT_ANY_THROW(run(training));
        training.optimizer.zero_grad();
        training.loss().backward();
        plain_step ? static_cast<void>(training.optimizer.step())
                   : static_cast<void>(training.strategy.step());
      }
    }
    for (int block = 0; block < kBlocks; ++block) {
      EXPECT_TRUE(at::allclose(training.model->blocks[block]->weight.cpu(),
                               expected->blocks[block]->weight.cpu(), 1e-5, 1e-7))
          << "block " << block;
    }
  }
}

}  // namespace
}  // namespace zero::testing
