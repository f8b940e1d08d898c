// SPDX-License-Identifier: Apache-2.0
// Clipping by norm and by value, through the strategy and through LibTorch's own functions: the
// numbers of the whole mean gradient on any number of ranks, or a refusal.
#include <limits>

#include "engine/optimizer_loops.h"

namespace zero::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ZERO_RANK_BODY(norms_and_values) {
  for (const double type : {2.0, 1.0, 3.0, kInfinity}) {
    SCOPED_TRACE(type);
    std::vector<double> expected;
    const auto run = [&](Bench& bench, bool by_strategy) {
      torch::optim::SGD optimizer(bench.model->parameters(), 0.1);
      bench.setup(optimizer);
      for (int i = 0; i < 3; ++i) {
        bench.loss(i).backward();
        const double norm =
            by_strategy && bench.strategy
                ? bench.strategy->clip_grad_norm_(0.05, type)
                : torch::nn::utils::clip_grad_norm_(bench.model->parameters(), 0.05, type);
        if (bench.plain()) {
          expected.push_back(norm);
        } else {
          EXPECT_NEAR(norm / expected[i], 1.0, 1e-5) << "step " << i;
        }
        bench.step(optimizer);
      }
    };
    for (const bool by_strategy : {true, false}) {
      expected.clear();
      expect_plain_numbers([&](Bench& bench) { run(bench, by_strategy); });
    }
  }
}

TEST(Clipping, EveryNormIsThatOfTheWholeModel) { on_test_ranks({1, 2}, "norms_and_values"); }

enum class By { kStrategy, kModel, kOptimizer };

ZERO_RANK_BODY(values_are_clipped) {
  for (const By by : {By::kStrategy, By::kModel, By::kOptimizer}) {
    SCOPED_TRACE(static_cast<int>(by));
    expect_plain_numbers([&](Bench& bench) {
      torch::optim::SGD optimizer(bench.model->parameters(), torch::optim::SGDOptions(5.0));
      bench.setup(optimizer);
      for (int i = 0; i < 3; ++i) {
        bench.loss(i).backward();
        if (by == By::kStrategy && bench.strategy) {
          bench.strategy->clip_grad_value_(0.01);
        } else if (by == By::kOptimizer) {
          torch::nn::utils::clip_grad_value_(optimizer.param_groups()[0].params(), 0.01);
        } else {
          torch::nn::utils::clip_grad_value_(bench.model->parameters(), 0.01);
        }
        bench.step(optimizer);
      }
    });
  }
}

TEST(Clipping, ValuesAreClippedThroughStrategyModelAndOptimizer) {
  on_test_ranks({1, 2}, "values_are_clipped");
}

// What stands in the optimizer's groups are this rank's shards.
ZERO_RANK_BODY(norm_over_the_optimizers_parameters) {
  for (const auto& options : every_stage()) {
    SCOPED_TRACE(text_of(options));
    Bench bench(options), plain(std::nullopt);
    torch::optim::SGD optimizer(bench.model->parameters(), 0.1);
    bench.setup(optimizer);
    bench.loss(0).backward();
    plain.loss(0).backward();
    const double expected = torch::nn::utils::clip_grad_norm_(plain.model->parameters(), 1e9);
    const auto& shards = optimizer.param_groups()[0].params();
    double norm = 0;
    const std::string error =
        error_of([&] { norm = torch::nn::utils::clip_grad_norm_(shards, 1e9); });
    if (options.stage() > 0 && test_world_size() > 1) {
      EXPECT_THAT(error, ::testing::HasSubstr("strategy.clip_grad_norm_()"));
      EXPECT_THAT(error_of([&] { (void)shards[0].norm(); }),
                  ::testing::HasSubstr("the model's parameter"));
    } else {
      EXPECT_EQ(error, "");
      EXPECT_NEAR(norm / expected, 1.0, 1e-5);
    }
  }
}

TEST(Clipping, ANormOverTheOptimizersShardsIsRightOrRefused) {
  on_test_ranks({1, 2}, "norm_over_the_optimizers_parameters");
}

// One batch of 8 or 4 times 2, whatever the stage and the ranks: one number.
ZERO_RANK_BODY(the_reported_norm) {
  const auto norm = [](const StrategyOptions& options, int micro_batches) {
    Bench bench(StrategyOptions(options).gradient_clipping(1e9));
    torch::optim::SGD optimizer(bench.model->parameters(), 0.0);
    bench.setup(optimizer);
    torch::manual_seed(9);
    const at::Tensor all = torch::randn({8, 7});
    const at::Tensor mine = all.chunk(test_world_size())[test_rank()].to(test_device());
    for (const auto& part : mine.chunk(micro_batches))
      (bench.model(part).square().mean() / micro_batches).backward();
    return bench.strategy->step().gradient_norm;
  };
  torch::manual_seed(9);
  const at::Tensor all = torch::randn({8, 7});
  Bench plain(std::nullopt);
  plain.model(all.to(test_device())).square().mean().backward();
  const double expected = torch::nn::utils::clip_grad_norm_(plain.model->parameters(), 1e9);
  for (const auto& options : every_stage()) {
    SCOPED_TRACE(text_of(options));
    EXPECT_NEAR(norm(options, 1) / expected, 1.0, 1e-5);
    EXPECT_NEAR(norm(options, 4) / expected, 1.0, 1e-5);
  }
}

TEST(Clipping, TheReportedNormIsOneNumberForStagesRanksAndAccumulation) {
  on_test_ranks({1, 2}, "the_reported_norm");
}

// Clipping is by the factor, at every stage (G077): SGD's change is in proportion.
ZERO_RANK_BODY(the_change_shrinks_by_the_factor) {
  for (const auto& options : every_stage()) {
    SCOPED_TRACE(text_of(options));
    const auto change = [&](double clip, double& coefficient) {
      Bench bench(clip > 0 ? StrategyOptions(options).gradient_clipping(clip) : options);
      torch::optim::SGD optimizer(bench.model->parameters(), 1.0);
      bench.setup(optimizer);
      const Values before = values_of(*bench.model);
      bench.loss(0).backward();
      coefficient = bench.strategy->step().clip_coefficient;
      double squares = 0;
      for (const auto& [name, value] : values_of(*bench.model))
        squares += (value - before.at(name)).to(at::kDouble).square().sum().item<double>();
      return std::sqrt(squares);
    };
    double coefficient = 0, none = 0;
    const double clipped = change(0.1, coefficient);
    EXPECT_NEAR(clipped / change(0, none), coefficient, 1e-4);
    EXPECT_LT(coefficient, 0.9);
  }
}

TEST(Clipping, TheWeightsChangeByTheFactorLess) {
  on_test_ranks({1, 2}, "the_change_shrinks_by_the_factor");
}

TEST(Clipping, AGradientThatTheUserClearedIsNoPartOfTheNorm) {
  Bench bench(StrategyOptions().device(test_device_name()).stage(2).page_bytes(4096));
  torch::optim::SGD optimizer(bench.model->parameters(), 0.1);
  bench.setup(optimizer);
  bench.loss(0).backward();
  const double all = bench.strategy->clip_grad_norm_(1e9);
  bench.model->body->weight.mutable_grad().reset();
  const double rest = bench.strategy->clip_grad_norm_(1e9);
  double squares = 0;
  for (const auto& parameter : bench.model->parameters()) {
    if (parameter.grad().defined()) squares += parameter.grad().square().sum().item<double>();
  }
  EXPECT_LT(rest, all);
  EXPECT_NEAR(rest, std::sqrt(squares), 1e-6);
}

TEST(Clipping, NormsThatAreNoneAreRefused) {
  Bench bench(StrategyOptions().device(test_device_name()).stage(1));
  torch::optim::SGD optimizer(bench.model->parameters(), 0.1);
  bench.setup(optimizer);
  EXPECT_THAT(error_of([&] { bench.strategy->clip_grad_norm_(1.0, 0.0); }),
              ::testing::HasSubstr("p above 0"));
  EXPECT_THAT(error_of([&] { bench.strategy->clip_grad_value_(-1.0); }),
              ::testing::HasSubstr("at least 0"));
}

}  // namespace
}  // namespace zero::testing
