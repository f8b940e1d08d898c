// SPDX-License-Identifier: Apache-2.0
// Ranks that do not do the same: what they can mean is right at every stage, and the rest ends on
// every rank with an error that says who stands where. Nobody waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "plugin/partition/control.h"
#include "zero/strategy.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kBlocks = 6;
constexpr int kSteps = 4;
constexpr double kRate = 1.0;

// What one rank computes in one step.
using Loss = std::function<at::Tensor(Blocks& model, const at::Tensor& x, int rank, int step)>;

StrategyOptions small_pages(int stage) {
  auto options = StrategyOptions().device(test_device_name()).stage(stage).page_bytes(kMiB);
  if (stage == 3) options.parameter_budget(3 * kMiB);
  return options;
}

struct Training {
  explicit Training(const StrategyOptions& options)
      : optimizer(model->parameters(), kRate), strategy(options) {
    strategy.setup(model, optimizer);
  }
  at::Tensor loss() { return model->loss(inputs(strategy.device())); }
  Blocks model{kBlocks};
  torch::optim::SGD optimizer;
  Strategy strategy;
};

std::vector<at::Tensor> values_of(const Blocks& model) {
  std::vector<at::Tensor> values;
  for (const auto& parameter : model->parameters())
    values.push_back(parameter.detach().cpu().clone());
  return values;
}

// All ranks' losses in one process, by LibTorch alone.
std::vector<at::Tensor> reference(const Loss& loss, int ranks, int steps = kSteps) {
  const at::AutoGradMode grad(true);
  Blocks model(kBlocks);
  model->to(test_device());
  torch::optim::SGD optimizer(model->parameters(), kRate);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    for (int rank = 0; rank < ranks; ++rank)
      (loss(model, inputs(test_device()), rank, step) / ranks).backward();
    optimizer.step();
  }
  return values_of(model);
}

void expect_close(const Blocks& model, const std::vector<at::Tensor>& expected) {
  const auto values = values_of(model);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::allclose(values[i], expected[i], 1e-5, 1e-7))
        << "block " << i << ", off by " << (values[i] - expected[i]).abs().max().item<float>();
}

void expect_training_as_alone(const Loss& loss) {
  const auto expected = reference(loss, std::atoi(std::getenv("WORLD_SIZE")));
  for (int stage = 0; stage <= 3; ++stage) {
    for (const bool plain_step : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", plain step " << plain_step);
      Training training(small_pages(stage));
      Strategy& strategy = training.strategy;
      for (int step = 0; step < kSteps; ++step) {
        training.optimizer.zero_grad();
        loss(training.model, inputs(strategy.device()), strategy.rank(), step).backward();
        plain_step ? static_cast<void>(training.optimizer.step())
                   : static_cast<void>(strategy.step());
      }
      expect_close(training.model, expected);
    }
  }
}

at::Tensor through(Blocks& model, at::Tensor x, const std::vector<int>& blocks) {
  for (const int block : blocks) x = torch::tanh(model->blocks[block](x));
  return x;
}

// Block 0, one expert of four, block 5.
ZERO_RANK_BODY(each_rank_routes_to_its_own_expert) {
  expect_training_as_alone([](Blocks& model, const at::Tensor& x, int rank, int step) {
    return through(model, x, {0, 1 + (rank + step) % 4, 5}).square().mean();
  });
}

ZERO_RANK_BODY(ranks_use_more_or_fewer_experts) {
  expect_training_as_alone([](Blocks& model, const at::Tensor& x, int rank, int step) {
    at::Tensor y = through(model, x, {0});
    at::Tensor sum = y;
    for (int expert = 1; expert <= (rank + step) % 4; ++expert)
      sum = sum + through(model, y, {expert});
    return through(model, sum, {5}).square().mean();
  });
}

ZERO_RANK_BODY(a_block_runs_once_here_and_three_times_there) {
  expect_training_as_alone([](Blocks& model, const at::Tensor& x, int rank, int /*step*/) {
    return through(model, x,
                   rank == 0 ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 1, 1, 1, 2})
        .square()
        .mean();
  });
}

ZERO_RANK_BODY(branches_are_ready_in_another_order) {
  expect_training_as_alone([](Blocks& model, const at::Tensor& x, int rank, int /*step*/) {
    const std::vector<std::vector<int>> branches{{1, 2}, {3, 4}};
    const at::Tensor y = through(model, x, {0});
    const at::Tensor first = through(model, y, branches[rank % 2]);
    const at::Tensor second = through(model, y, branches[1 - rank % 2]);
    return (first + second).square().mean();
  });
}

TEST(Ranks, EachMayUseItsOwnExpert) { on_test_ranks({2, 4}, "each_rank_routes_to_its_own_expert"); }
TEST(Ranks, MayUseDifferentNumbersOfExperts) {
  on_test_ranks({2, 3}, "ranks_use_more_or_fewer_experts");
}
TEST(Ranks, MayCallABlockADifferentNumberOfTimes) {
  on_test_ranks({2}, "a_block_runs_once_here_and_three_times_there");
}
TEST(Ranks, GradientsMayBeReadyInAnotherOrder) {
  on_test_ranks({2, 3}, "branches_are_ready_in_another_order");
}

// One page holds all blocks: it is complete after one gradient by what the first backward told.
ZERO_RANK_BODY(a_page_gets_more_gradients_than_before) {
  const Loss loss = [](Blocks& model, const at::Tensor& x, int rank, int step) {
    const bool more = step % 2 == 1 && rank == 0;
    return through(model, x, more ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{3})
        .square()
        .mean();
  };
  for (const int stage : {2, 3}) {
    SCOPED_TRACE(stage);
    Training training(
        StrategyOptions().device(test_device_name()).stage(stage).page_bytes(kBlocks * kMiB));
    for (int step = 0; step < kSteps; ++step) {
      loss(training.model, inputs(training.strategy.device()), training.strategy.rank(), step)
          .backward();
      training.strategy.step();
    }
    expect_close(training.model, reference(loss, training.strategy.world_size()));
  }
}

TEST(Ranks, APageMayGetMoreGradientsOnOneOfThem) {
  on_test_ranks({2}, "a_page_gets_more_gradients_than_before");
}

ZERO_RANK_BODY(rank_0_does_more) {
  const Loss loss = [](Blocks& model, const at::Tensor& x, int, int) { return model->loss(x); };
  for (const bool offload : {false, true}) {
    SCOPED_TRACE(offload);
    Training training(
        StrategyOptions(small_pages(3)).offload_parameters(offload).offload_optimizer(offload));
    const at::Tensor x = inputs(training.strategy.device());
    for (int step = 0; step < kSteps; ++step) {
      training.loss().backward();
      training.strategy.step();
      if (training.strategy.rank() != 0) continue;
      const at::NoGradGuard no_grad;
      const auto now = reference(loss, 1, step + 1);
      EXPECT_TRUE(at::allclose(training.model->blocks[4]->weight.cpu(), now[4], 1e-5, 1e-7))
          << "a weight that it reads";
      for (int batch = 0; batch <= step; ++batch) training.model->forward(x);
      const GatheredParameters all(training.strategy);
      EXPECT_NE(training.model->blocks[2]->weight.data_ptr(), nullptr);
    }
    expect_close(training.model, reference(loss, 1));
  }
}

TEST(Ranks, OneMayReadEvaluateAndGatherAloneAtStage3) { on_test_ranks({2, 3}, "rank_0_does_more"); }

ZERO_RANK_BODY(rank_1_leaves_out_a_batch) {
  Training training(small_pages(3));
  for (int step = 0; step < kSteps; ++step) {
    if (training.strategy.rank() == 1 && step == 1) {
      EXPECT_THROW(
          {
            (void)through(training.model, inputs(training.strategy.device()), {0, 1, 2});
            throw std::runtime_error("a broken batch");
          },
          std::runtime_error);
    }
    training.loss().backward();
    training.strategy.step();
  }
  expect_close(
      training.model,
      reference([](Blocks& model, const at::Tensor& x, int, int) { return model->loss(x); }, 1));
}

TEST(Ranks, OneMayThrowInForwardAndTakeAnotherBatch) {
  on_test_ranks({2}, "rank_1_leaves_out_a_batch");
}

ZERO_RANK_BODY(rank_0_writes_alone) {
  Training training(small_pages(3));
  training.loss().backward();
  training.strategy.step();
  const std::string error = error_of([&] {
    const at::NoGradGuard no_grad;
    if (training.strategy.rank() == 0) training.model->blocks[2]->weight.mul_(0.5);
    const at::AutoGradMode grad(true);
    training.loss().backward();
  });
  EXPECT_THAT(error, AllOf(HasSubstr("rank 0: \"a write in place to page 2 ('block2.weight')"),
                           HasSubstr("rank 1: \"the reduction of page")));
}

TEST(Ranks, AWriteInPlaceOnOneAloneIsAnErrorOnAll) { on_test_ranks({2}, "rank_0_writes_alone"); }

ZERO_RANK_BODY(rank_1_has_fewer_batches) {
  Training training(small_pages(3));
  const int batches = training.strategy.rank() == 1 ? 3 : 4;
  const std::string error = error_of([&] {
    for (int step = 0; step < batches; ++step) {
      training.loss().backward();
      training.strategy.step();
    }
    training.strategy.teardown();
  });
  EXPECT_THAT(error,
              AllOf(HasSubstr("rank 0: \"the reduction of page"), HasSubstr("rank 1: \"teardown()"),
                    HasSubstr("different numbers of batches")));
}

TEST(Ranks, WithFewerBatchesEndWithAnErrorOnAll) { on_test_ranks({2}, "rank_1_has_fewer_batches"); }

// Below stage 3 the others find out when they wait for it.
ZERO_RANK_BODY(rank_1_ends_early) {
  Training training(small_pages(2));
  const int batches = training.strategy.rank() == 1 ? 2 : 3;
  for (int step = 0; step < batches; ++step) {
    training.loss().backward();
    training.strategy.step();
  }
}

ZERO_RANK_BODY(rank_1_throws_in_forward) {
  Training training(small_pages(3));
  training.loss().backward();
  training.strategy.step();
  if (training.strategy.rank() == 1) {
    (void)through(training.model, inputs(training.strategy.device()), {0, 1});
    throw std::runtime_error("a broken batch");
  }
  training.loss().backward();
}

ZERO_RANK_BODY(rank_1_dies_in_forward) {
  Training training(small_pages(3));
  training.loss().backward();
  training.strategy.step();
  if (training.strategy.rank() == 1) {
    (void)through(training.model, inputs(training.strategy.device()), {0, 1});
    _exit(3);
  }
  training.loss().backward();
}

// What rank 0 prints when rank 1 goes its own way.
std::string output_of_rank_0(const std::string& body, const char* timeout) {
  RankRun run;
  run.environment["ZERO_TIMEOUT_SECONDS"] = timeout;
  run.environment["ZERO_SHARE_GPUS"] = test_device().is_cuda() ? "1" : "0";
  const auto results = run_ranks(2, body, run);
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_FALSE(results[0].stopped) << "rank 0 waited for ever";
  return results[0].output;
}

TEST(Ranks, ThatEndEarlyAreNamedByTheOthers) {
  EXPECT_THAT(
      output_of_rank_0("rank_1_ends_early", "20"),
      AllOf(HasSubstr("in the reduction of page"), HasSubstr("after 2 updates"),
            HasSubstr("failed on rank 0 of 2"), HasSubstr("rank 1 has left: its process ends")));
}

TEST(Ranks, AnExceptionOfOneInForwardEndsTheOthers) {
  EXPECT_THAT(output_of_rank_0("rank_1_throws_in_forward", "20"),
              HasSubstr("rank 1 ended its strategy because of an exception"));
}

TEST(Ranks, ADeathOfOneInForwardEndsTheOthers) {
  EXPECT_THAT(output_of_rank_0("rank_1_dies_in_forward", "20"),
              AllOf(HasSubstr("zero: waiting for the other ranks in the fetch of page"),
                    HasSubstr("after 1 update"), HasSubstr("failed on rank 0 of 2")));
}

// Two ranks that wait for each other in different collectives, until the time is over.
ZERO_RANK_BODY(ranks_wait_at_different_collectives) {
  Training training(small_pages(2));
  training.loss().backward();
  training.strategy.step();
  const std::string error = error_of([&] {
    if (training.strategy.rank() == 1) {
      training.strategy.clip_grad_norm_(1.0);
    } else {
      training.loss().backward();
    }
  });
  EXPECT_THAT(error, AllOf(HasSubstr("Another rank has probably ended, or made other calls"),
                           HasSubstr("ZERO_TIMEOUT_SECONDS")));
  // Rank 0 holds the board; when it ends first, rank 1 cannot read it any more.
  if (training.strategy.rank() == 0) {
    EXPECT_THAT(error, HasSubstr("in the reduction of page"));
    EXPECT_THAT(error, ContainsRegex("rank 1 [a-z ]*: all_gather of .* on communicator 'control'"));
  }
}

TEST(Ranks, ThatWaitForEachOtherSayWhereWhenTheTimeIsOver) {
  RankRun run;
  run.environment["ZERO_TIMEOUT_SECONDS"] = "3";
  on_test_ranks({2}, "ranks_wait_at_different_collectives", run);
}

}  // namespace
}  // namespace zero::testing
