// SPDX-License-Identifier: Apache-2.0
// What cannot work is refused with one clear sentence, on every rank, and no rank is left waiting.
#include <gtest/gtest.h>

#include "engine/blocks.h"
#include "engine/device_ranks.h"

namespace zero::testing {
namespace {

using ::testing::HasSubstr;

TEST(Refusals, AnOptimizerWithForeignParameters) {
  Blocks model(2), other(1);
  torch::optim::SGD optimizer(other->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu"));
  EXPECT_THAT(error_of([&] { strategy.setup(*model, optimizer); }),
              HasSubstr("no parameters of the model"));
}

TEST(Refusals, AnOptimizerWithoutAShardedUpdate) {
  Blocks model(2);
  torch::optim::LBFGS optimizer(model->parameters());
  Strategy strategy(StrategyOptions().device("cpu"));
  EXPECT_THAT(error_of([&] { strategy.setup(*model, optimizer); }), HasSubstr("LBFGS"));
}

TEST(Refusals, AModelWithoutParameters) {
  torch::nn::Sequential model{torch::nn::ReLU()};
  Strategy strategy(StrategyOptions().device("cpu"));
  EXPECT_THAT(error_of([&] { strategy.setup(*model); }), HasSubstr("0 parameters are registered"));
}

TEST(Refusals, ASecondSetupAndAStepWithoutSetup) {
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu"));
  EXPECT_THAT(error_of([&] { strategy.step(); }), HasSubstr("Call setup"));
  strategy.setup(*model, optimizer);
  Blocks other(2);
  torch::optim::SGD another(other->parameters(), 0.1);
  EXPECT_THAT(error_of([&] { strategy.setup(*other, another); }),
              HasSubstr("setup was called before"));
}

TEST(Refusals, Fp64ParametersInTheOptimizer) {
  Blocks model(2);
  model->to(at::kDouble);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu"));
  EXPECT_THAT(error_of([&] { strategy.setup(*model, optimizer); }), HasSubstr("'block0.weight'"));
}

TEST(Refusals, AFlagThatNothingReadEndsTheFirstStep) {
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu").stage(1).gradient_accumulation_steps(4));
  strategy.setup(*model, optimizer);
  strategy.backward(model->loss(inputs(at::kCPU)));
  EXPECT_THAT(error_of([&] { strategy.step(); }), HasSubstr("gradient_accumulation_steps"));
}

TEST(Refusals, InAPlainLoopTheSecondBackwardSaysIt) {
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu").stage(1).gradient_clipping(1.0));
  strategy.setup(*model, optimizer);
  model->loss(inputs(at::kCPU)).backward();
  optimizer.step();
  EXPECT_THAT(error_of([&] { model->loss(inputs(at::kCPU)).backward(); }),
              HasSubstr("gradient_clipping"));
}

TEST(Refusals, ADeviceThatIsNotHere) {
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cuda"));
  if (torch::cuda::is_available()) GTEST_SKIP() << "a GPU is here";
  EXPECT_THAT(error_of([&] { strategy.setup(*model, optimizer); }), HasSubstr("cuda"));
}

ZERO_RANK_BODY(ranks_differ) {
  const char* const rank = std::getenv("RANK");
  const bool first = rank != nullptr && std::string(rank) == "0";
  {
    Blocks model(first ? 2 : 3);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Strategy strategy(StrategyOptions().device("cpu").stage(3));
    EXPECT_THAT(error_of([&] { strategy.setup(*model, optimizer); }), HasSubstr("model"));
  }
  {
    Blocks model(2);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Strategy strategy(StrategyOptions().device("cpu").stage(first ? 2 : 3));
    EXPECT_THAT(error_of([&] { strategy.setup(*model, optimizer); }), HasSubstr("stage"));
  }
  {
    Blocks model(2), other(2);
    torch::optim::SGD optimizer(first ? other->parameters() : model->parameters(), 0.1);
    Strategy strategy(StrategyOptions().device("cpu"));
    const std::string error = error_of([&] { strategy.setup(*model, optimizer); });
    EXPECT_THAT(error, HasSubstr("no parameters of the model"))
        << "the rank without a mistake hears of it too";
  }
}

TEST(Refusals, RanksWithDifferentModelsFlagsOrErrorsAllHearOfIt) {
  on_test_ranks({2, 3}, "ranks_differ");
}

}  // namespace
}  // namespace zero::testing
