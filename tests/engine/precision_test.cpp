// SPDX-License-Identifier: Apache-2.0
// Loss scale, overflow and gradients that are not finite: no step applies one, on any rank.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "engine/blocks.h"
#include "engine/device_ranks.h"

namespace zero::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Placement {
  int stage;
  bool offload_optimizer;
  bool offload_parameters;
};
const std::vector<Placement> kPlacements = {{0, false, false}, {1, false, false}, {1, true, false},
                                            {2, false, false}, {2, true, false},  {3, false, false},
                                            {3, true, false},  {3, true, true}};

StrategyOptions placed(const Placement& at, const char* precision) {
  auto options = StrategyOptions()
                     .device(test_device_name())
                     .stage(at.stage)
                     .precision(precision)
                     .page_bytes(kMiB);
  if (at.offload_optimizer) options.offload_optimizer(true);
  if (at.offload_parameters) options.offload_parameters(true);
  return options;
}

std::string name_of(const Placement& at) {
  return "stage " + std::to_string(at.stage) + (at.offload_optimizer ? ", optimizer" : "") +
         (at.offload_parameters ? " and parameters" : "") +
         (at.offload_optimizer ? " offloaded" : "");
}

struct Training {
  explicit Training(const StrategyOptions& options)
      : optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2)), strategy(options) {
    strategy.setup(*model, optimizer);
  }
  at::Tensor loss(double factor = 1.0) {
    const at::Tensor x = inputs(strategy.device()).to(model->blocks[0]->weight.dtype());
    return model->forward(x).to(at::kFloat).square().mean() * factor;
  }
  // A step whose gradients overflow when `overflow` is set.
  StepReport step(bool overflow) {
    strategy.backward(loss(overflow ? kInfinity : 1.0));
    return strategy.step();
  }
  std::vector<at::Tensor> weights() {
    std::vector<at::Tensor> copies;
    for (const auto& parameter : model->parameters()) copies.push_back(parameter.detach().clone());
    return copies;
  }
  // Masters and moments, in the order of the groups; 0 and undefined before the first step.
  std::vector<at::Tensor> optimizer_state(int64_t& steps) {
    std::vector<at::Tensor> copies;
    steps = 0;
    for (const auto& master : optimizer.param_groups()[0].params()) {
      copies.push_back(master.detach().clone());
      const auto found = optimizer.state().find(master.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;
      const auto& state = static_cast<const torch::optim::AdamWParamState&>(*found->second);
      steps += state.step();
      copies.push_back(state.exp_avg().clone());
      copies.push_back(state.exp_avg_sq().clone());
    }
    return copies;
  }

  Blocks model{3};
  torch::optim::AdamW optimizer;
  Strategy strategy;
};

void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                 const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << what << ' ' << i;
}

bool is_last_rank(const Strategy& strategy) { return strategy.rank() == strategy.world_size() - 1; }

// G068: each overflow lowers the scale one notch, at every stage, and touches nothing.
ZERO_RANK_BODY(overflows_lower_the_scale_and_change_nothing) {
  for (const Placement& at : kPlacements) {
    SCOPED_TRACE(name_of(at));
    Training training(placed(at, "fp16").hysteresis(1));
    ASSERT_TRUE(training.step(false).applied);
    int64_t steps_before = 0, steps_after = 0;
    const auto weights = training.weights();
    const auto state = training.optimizer_state(steps_before);
    for (int i = 1; i <= 10; ++i) {
      const StepReport report = training.step(is_last_rank(training.strategy));
      EXPECT_FALSE(report.applied);
      EXPECT_EQ(report.step, 1);
      EXPECT_EQ(report.skipped, i);
      EXPECT_EQ(report.loss_scale, std::exp2(16 - i));
      EXPECT_EQ(training.strategy.loss_scale(), report.loss_scale);
      EXPECT_FALSE(std::isfinite(report.gradient_norm));
    }
    expect_same(training.weights(), weights, "weight");
    expect_same(training.optimizer_state(steps_after), state, "optimizer state");
    EXPECT_EQ(steps_after, steps_before);
    const StepReport report = training.step(false);
    EXPECT_TRUE(report.applied);
    EXPECT_EQ(report.step, 2);
    EXPECT_EQ(report.skipped, 10);
    EXPECT_TRUE(std::isfinite(report.gradient_norm));
  }
}

TEST(LossScale, EachOverflowLowersItAndChangesNothingElse) {
  on_test_ranks({1, 2}, "overflows_lower_the_scale_and_change_nothing");
}

// Not because a test says infinity, but because fp16 ends at 65504.
TEST(LossScale, ARealOverflowFindsTheScaleThatFits) {
  Training training(placed({2, false, false}, "fp16").initial_scale_power(40).hysteresis(1));
  StepReport report = training.step(false);
  while (!report.applied) report = training.step(false);
  EXPECT_GT(report.skipped, 5);
  EXPECT_EQ(training.strategy.loss_scale(), std::exp2(40 - report.skipped));
  EXPECT_TRUE(at::isfinite(training.weights()[0]).all().item<bool>());
}

TEST(LossScale, GrowsAfterItsWindow) {
  Training training(placed({1, false, false}, "fp16").initial_scale_power(8).loss_scale_window(2));
  EXPECT_EQ(training.step(false).loss_scale, 256);
  EXPECT_EQ(training.step(false).loss_scale, 512);
}

// G067.
ZERO_RANK_BODY(endless_overflow_ends_the_run) {
  for (const int stage : {0, 3}) {
    Training training(placed({stage, false, false}, "fp16")
                          .initial_scale_power(2)
                          .hysteresis(1)
                          .min_loss_scale(0.5)
                          .max_consecutive_overflows(6));
    for (int i = 0; i < 5; ++i) training.step(true);
    EXPECT_EQ(training.strategy.loss_scale(), 0.5);
    const std::string error = error_of([&] { training.step(true); });
    EXPECT_THAT(error, HasSubstr("6 steps in a row"));
    EXPECT_THAT(error, HasSubstr("loss scale 0.5"));
    EXPECT_THAT(error, HasSubstr("last loss inf"));
    EXPECT_TRUE(training.step(false).applied) << "the engine can still be used";
  }
}

TEST(LossScale, ARunThatOnlyOverflowsFailsWithAReason) {
  on_test_ranks({1, 2}, "endless_overflow_ends_the_run");
}

// What is read and clipped between backward and step are gradients of the loss itself.
ZERO_RANK_BODY(gradients_are_unscaled) {
  for (const Placement& at : kPlacements) {
    SCOPED_TRACE(name_of(at));
    std::vector<at::Tensor> expected;
    double norm = 0;
    for (const double scale : {1.0, 256.0}) {
      SCOPED_TRACE(scale);
      Training training(placed(at, "fp16").loss_scale(scale));
      for (int micro = 0; micro < 2; ++micro) training.strategy.backward(training.loss(64.0));
      std::vector<at::Tensor> gradients;
      for (const auto& parameter : training.model->parameters()) {
        gradients.push_back(parameter.grad().clone());
        EXPECT_TRUE(at::equal(training.strategy.gradient(parameter), gradients.back()));
      }
      const double clipped = training.strategy.clip_grad_norm_(1e-3);
      const StepReport report = training.strategy.step();
      EXPECT_NEAR(report.gradient_norm / 1e-3, 1.0, 1e-3);
      if (scale == 1.0) {
        expected = gradients;
        norm = clipped;
        continue;
      }
      EXPECT_NEAR(clipped / norm, 1.0, 1e-3);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::allclose(gradients[i], expected[i], 2e-3, 1e-6)) << i;
      }
    }
  }
}

TEST(LossScale, GradientsAndNormsAreThoseOfTheLossItself) {
  on_test_ranks({1, 2}, "gradients_are_unscaled");
}

TEST(LossScale, APlainBackwardIsRefusedAndLeavesTheEngineUsable) {
  for (const int stage : {0, 2, 3}) {
    Training training(placed({stage, false, false}, "fp16"));
    EXPECT_THAT(error_of([&] { training.loss().backward(); }),
                HasSubstr("call strategy.backward(loss)"));
    EXPECT_TRUE(training.step(false).applied);
  }
}

TEST(LossScale, OfOneIsRightForAPlainLoop) {
  Training training(placed({3, false, false}, "fp16").loss_scale(1));
  const auto before = training.weights();
  training.loss().backward();
  training.optimizer.step();
  EXPECT_FALSE(at::equal(training.weights()[0], before[0]));
}

TEST(LossScale, APlainStepIsRefusedWhereItCouldApplyAnOverflow) {
  Training dynamic(placed({2, false, false}, "fp16"));
  dynamic.strategy.backward(dynamic.loss());
  EXPECT_THAT(error_of([&] { dynamic.optimizer.step(); }), HasSubstr("call strategy.step()"));
  Training fixed(placed({2, false, false}, "fp16").loss_scale(8));
  const auto before = fixed.weights();
  fixed.strategy.backward(fixed.loss(kInfinity));
  EXPECT_THAT(error_of([&] { fixed.optimizer.step(); }), HasSubstr("Call strategy.step()"));
  expect_same(fixed.weights(), before, "weight");
  fixed.optimizer.zero_grad();
  fixed.strategy.backward(fixed.loss());
  fixed.optimizer.step();
  EXPECT_FALSE(at::equal(fixed.weights()[0], before[0]));
}

TEST(LossScale, TwoLossesOfOneGraphKeepIt) {
  Training training(placed({2, false, false}, "fp16").loss_scale(8));
  const at::Tensor loss = training.loss();
  training.strategy.backward(loss, /*retain_graph=*/true);
  const auto once = training.model->blocks[0]->weight.grad().clone();
  training.strategy.backward(loss);
  EXPECT_TRUE(at::allclose(training.model->blocks[0]->weight.grad(), 2 * once));
}

// A loss that goes through the models of two strategies was multiplied once; both know by how much.
TEST(LossScale, OfAnotherStrategysBackwardIsUndoneToo) {
  Training scaled(placed({2, false, false}, "fp16").loss_scale(128));
  Training other(placed({1, false, false}, "fp32"));
  other.loss().backward();
  const auto expected = other.model->blocks[0]->weight.grad().clone();
  other.strategy.zero_grad();
  scaled.strategy.backward(scaled.loss() + other.loss());
  EXPECT_TRUE(at::allclose(other.model->blocks[0]->weight.grad(), expected, 1e-5, 1e-9));
}

TEST(LossScale, FlagsThatContradictEachOtherAreRefused) {
  const auto error = [](const StrategyOptions& options) {
    return error_of([&] { Training training(options); });
  };
  const auto fp16 = [] { return placed({0, false, false}, "fp16"); };
  EXPECT_THAT(error(fp16().initial_scale_power(2).min_loss_scale(8)), HasSubstr("min_loss_scale"));
  EXPECT_THAT(error(fp16().nonfinite_gradients(NonfiniteGradients::kApply)),
              HasSubstr("Set it to skip"));
  EXPECT_THAT(error(fp16().nonfinite_gradients(NonfiniteGradients::kError)),
              HasSubstr("loss_scale"));
  Training bf16(placed({0, false, false}, "bf16").loss_scale(8));
  EXPECT_THAT(error_of([&] { bf16.step(false); }), HasSubstr("loss_scale"))
      << "a flag without effect";
}

// At any precision, without clipping.
ZERO_RANK_BODY(one_rank_has_a_gradient_that_is_not_finite) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const Placement& at : kPlacements) {
      SCOPED_TRACE(name_of(at) + ", " + precision);
      Training training(placed(at, precision));
      ASSERT_TRUE(training.step(false).applied);
      int64_t steps_before = 0, steps_after = 0;
      const auto weights = training.weights();
      const auto state = training.optimizer_state(steps_before);
      const StepReport report = training.step(is_last_rank(training.strategy));
      EXPECT_FALSE(report.applied);
      EXPECT_EQ(report.skipped, 1);
      EXPECT_EQ(report.loss_scale, 1.0);
      EXPECT_FALSE(std::isfinite(report.gradient_norm));
      expect_same(training.weights(), weights, "weight");
      expect_same(training.optimizer_state(steps_after), state, "optimizer state");
      EXPECT_EQ(steps_after, steps_before);
      EXPECT_TRUE(training.step(false).applied);
      EXPECT_FALSE(at::equal(training.weights()[0], weights[0]));
    }
  }
}

TEST(NonfiniteGradients, OfOneRankMakeAllRanksSkipTogether) {
  on_test_ranks({1, 2, 3}, "one_rank_has_a_gradient_that_is_not_finite");
}

ZERO_RANK_BODY(the_policy_decides) {
  Training failing(placed({2, false, false}, "fp32").nonfinite_gradients("error"));
  const auto weights = failing.weights();
  EXPECT_THAT(error_of([&] { failing.step(is_last_rank(failing.strategy)); }),
              HasSubstr("nonfinite_gradients"));
  expect_same(failing.weights(), weights, "weight");
  EXPECT_TRUE(failing.step(false).applied);

  Training applying(placed({2, false, false}, "fp32").nonfinite_gradients("apply"));
  const StepReport report = applying.step(is_last_rank(applying.strategy));
  EXPECT_TRUE(report.applied);
  EXPECT_TRUE(std::isnan(report.gradient_norm)) << "nobody asked for it";
  EXPECT_FALSE(at::isfinite(applying.weights()[0]).all().item<bool>());
}

TEST(NonfiniteGradients, EndTheRunOrAreAppliedWhereTheFlagSaysSo) {
  on_test_ranks({1, 2}, "the_policy_decides");
}

TEST(NonfiniteGradients, TheNormIsReportedWithoutClipping) {
  Training training(placed({1, false, false}, "fp32"));
  training.strategy.backward(training.loss());
  double squares = 0;
  for (const auto& parameter : training.model->parameters()) {
    squares += parameter.grad().to(at::kDouble).square().sum().item<double>();
  }
  EXPECT_NEAR(training.strategy.step().gradient_norm / std::sqrt(squares), 1.0, 1e-6);
}

}  // namespace
}  // namespace zero::testing
