// SPDX-License-Identifier: Apache-2.0
// Gradients between backward and step: what users read and write there is the mean over ranks,
// whatever the stage.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/blocks.h"
#include "engine/device_ranks.h"

namespace zero::testing {
namespace {

StrategyOptions small_pages(int stage) {
  auto options = StrategyOptions().device(test_device_name()).stage(stage).page_bytes(1 << 20);
  if (stage == 3) options.parameter_budget(3 << 20);
  return options;
}

struct Training {
  explicit Training(StrategyOptions options, double rate = 0.1)
      : optimizer(model->parameters(), rate), strategy(options) {
    strategy.setup(*model, optimizer);
  }
  at::Tensor loss(double scale = 1.0) { return model->loss(inputs(strategy.device())) * scale; }
  Blocks model{4};
  torch::optim::SGD optimizer;
  Strategy strategy;
};

std::vector<at::Tensor> plain_gradients(double scale) {
  Blocks model(4);
  model->to(test_device());
  (model->loss(inputs(test_device())) * scale).backward();
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : model->parameters()) gradients.push_back(parameter.grad().cpu());
  return gradients;
}

void expect_gradients(const Training& training, double scale, const char* when) {
  SCOPED_TRACE(when);
  const auto expected = plain_gradients(scale);
  const auto parameters = training.model->parameters();
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(parameters[i].grad().defined()) << i;
    EXPECT_EQ(parameters[i].grad().sizes(), expected[i].sizes());
    EXPECT_TRUE(at::allclose(parameters[i].grad().cpu(), expected[i], 1e-5, 1e-9)) << i;
    EXPECT_TRUE(
        at::allclose(training.strategy.gradient(parameters[i]).cpu(), expected[i], 1e-5, 1e-9))
        << i;
  }
}

ZERO_RANK_BODY(gradients_can_be_read_and_written) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    Training training(small_pages(stage));
    // Every rank has its own loss; the mean over ranks is what counts.
    const double scale = 1.0 + training.strategy.rank();
    const double mean = (1.0 + training.strategy.world_size()) / 2;
    training.loss(scale).backward();
    expect_gradients(training, mean, "first backward");
    training.loss(scale).backward();  // accumulates, also after the gradients were read
    expect_gradients(training, 2 * mean, "accumulated");
    for (auto& parameter : training.model->parameters()) parameter.grad().mul_(0.5);
    expect_gradients(training, mean, "written in place");
    training.model->zero_grad();
    EXPECT_FALSE(training.model->blocks[0]->weight.grad().defined());
    training.loss(scale).backward();
    expect_gradients(training, mean, "cleared by the module");
    training.optimizer.zero_grad();
    training.loss(scale).backward();
    expect_gradients(training, mean, "cleared by the optimizer");
    training.model->zero_grad(/*set_to_none=*/false);
    training.loss(scale).backward();
    expect_gradients(training, mean, "zeroed by the module");
  }
}

TEST(Gradients, AreTheMeanOverRanksAndCanBeReadWrittenAndCleared) {
  on_test_ranks({1, 2}, "gradients_can_be_read_and_written");
}

ZERO_RANK_BODY(norms_are_global) {
  double expected = 0;
  constexpr double kLarge = 1e4;  // against the 1e-6 that LibTorch adds to the norm
  const double mean = kLarge * (1.0 + std::atoi(std::getenv("WORLD_SIZE"))) / 2;
  for (const auto& gradient : plain_gradients(mean))
    expected += gradient.to(at::kDouble).square().sum().item<double>();
  expected = std::sqrt(expected);
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    Training training(small_pages(stage));
    training.loss(kLarge * (1.0 + training.strategy.rank())).backward();
    EXPECT_NEAR(training.strategy.clip_grad_norm_(expected / 2) / expected, 1.0, 1e-5);
    EXPECT_NEAR(training.strategy.clip_grad_norm_(1e9) / expected, 0.5, 1e-5) << "clipped";
    EXPECT_NEAR(
        torch::nn::utils::clip_grad_norm_(training.model->parameters(), expected / 4) / expected,
        0.5, 1e-5);
    EXPECT_NEAR(training.strategy.clip_grad_norm_(1e9) / expected, 0.25, 1e-5)
        << "clipped by LibTorch's own function";
  }
}

TEST(Gradients, NormAndClippingAreThoseOfTheWholeModel) {
  on_test_ranks({1, 2, 4}, "norms_are_global");
}

ZERO_RANK_BODY(another_model_runs_backward) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    Training training(small_pages(stage));
    training.loss().backward();
    const auto before = training.strategy.gradient(training.model->blocks[1]->weight);
    plain_gradients(3.0);
    EXPECT_TRUE(at::equal(training.strategy.gradient(training.model->blocks[1]->weight), before));
    EXPECT_TRUE(training.model->blocks[1]->weight.grad().defined());
  }
}

TEST(Gradients, AnotherModelsBackwardLeavesThemAlone) {
  on_test_ranks({1, 2}, "another_model_runs_backward");
}

// Stage 3 pages parameters by collectives, so there ranks must touch the same pages; see
// docs/architecture.md.
ZERO_RANK_BODY(ranks_use_different_experts_below_stage_3) {
  for (int stage = 0; stage <= 2; ++stage) {
    SCOPED_TRACE(stage);
    Training training(small_pages(stage), 1.0);
    const at::Tensor x = inputs(training.strategy.device());
    auto& expert = training.model->blocks[training.strategy.rank() == 0 ? 1 : 2];
    const auto before = training.model->blocks[2]->weight.clone();
    const auto unused = training.model->blocks[3]->weight.clone();
    training.strategy.backward(expert(training.model->blocks[0](x)).square().mean());
    EXPECT_FALSE(training.model->blocks[3]->weight.grad().defined());
    training.strategy.step();
    EXPECT_FALSE(at::equal(training.model->blocks[2]->weight.clone(), before));
    EXPECT_TRUE(at::equal(training.model->blocks[3]->weight.clone(), unused))
        << "no gradient: no update";
  }
}

TEST(Gradients, AnExpertThatOneRankDoesNotUseIsUpdatedOnAll) {
  on_test_ranks({2, 3}, "ranks_use_different_experts_below_stage_3");
}

TEST(Gradients, AnExceptionInBackwardLeavesTheNextStepClean) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    Training training(small_pages(stage).offload_optimizer(stage > 0));
    const auto hook = training.model->blocks[1]->weight.register_hook(
        [](at::Tensor) -> at::Tensor { throw std::runtime_error("planted"); });
    EXPECT_THROW(training.loss().backward(), std::runtime_error);
    training.model->blocks[1]->weight.remove_hook(hook);
    training.optimizer.zero_grad();
    training.loss().backward();
    expect_gradients(training, 1.0, "after the exception");
    training.strategy.step();
  }
}

TEST(Gradients, AReplacementThatDoesNotFitIsRefusedByName) {
  Training training(small_pages(2));
  auto& weight = training.model->blocks[2]->weight;
  const auto replace = [&](const at::Tensor& gradient) {
    training.loss().backward();
    weight.mutable_grad() = gradient;
    return error_of([&] { training.loss().backward(); });
  };
  const at::Tensor flat = at::ones({2, 512, 512}).to(weight.device());
  EXPECT_THAT(replace(flat), ::testing::HasSubstr("'block2.weight', which has sizes [512, 512]"));
  EXPECT_THAT(replace(flat[1]), ::testing::HasSubstr("a part of another tensor"));
  EXPECT_EQ(replace(flat[1].clone()), "");
}

TEST(Gradients, ANormThatIsNotFiniteChangesNothing) {
  Training training(small_pages(3).offload_parameters(true).gradient_clipping(1.0));
  const auto before = training.model->blocks[0]->weight.clone();
  training.loss(std::numeric_limits<double>::infinity()).backward();
  const StepReport report = training.strategy.step();
  EXPECT_FALSE(report.applied);
  EXPECT_FALSE(std::isfinite(report.gradient_norm));
  EXPECT_TRUE(at::equal(training.model->blocks[0]->weight.clone(), before));
  training.loss().backward();
  EXPECT_TRUE(training.strategy.step().applied);
  EXPECT_FALSE(at::equal(training.model->blocks[0]->weight.clone(), before));
}

}  // namespace
}  // namespace zero::testing
