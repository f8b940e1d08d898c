// SPDX-License-Identifier: Apache-2.0
// Forward and backward of one model may run on several threads at once: pages come and go under all
// of them, and the results are those of one thread.
#include <gtest/gtest.h>

#include <array>
#include <exception>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "engine/blocks.h"

namespace zero::testing {
namespace {

constexpr int kRounds = 50;
constexpr int kFewRounds = 10;  // where each starts its threads anew, and LibTorch a team for each

StrategyOptions one_page_for_each_of(int threads) { return paged(threads * kMiB); }

StrategyOptions whole_pages(int stage) {
  return StrategyOptions().device(test_device_name()).stage(stage).page_bytes(kMiB);
}

// Runs work(0) ... work(threads - 1), each on its own thread, all let go together. An exception of
// one comes out here. (Plain threads: the thread sanitizer says nothing about what std::async
// runs.)
void at_once(int threads, const std::function<void(int)>& work) {
  std::latch start(threads);
  std::vector<std::exception_ptr> errors(threads);
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&start, &errors, &work, i] {
      start.arrive_and_wait();
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (auto& one : all) one.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

at::Tensor evaluate(Blocks& model, const at::Tensor& x) {
  const at::NoGradGuard no_grad;  // counts for the calling thread
  return model->forward(x).cpu();
}

TEST(Threads, ForwardOnSeveralThreadsPagesAndGivesWhatOneThreadGives) {
  constexpr int kThreads = 4;
  Blocks model(8);  // 8 MiB
  Strategy strategy(one_page_for_each_of(kThreads));
  strategy.setup(*model);
  const at::Tensor x = inputs(strategy.device());
  std::vector<at::Tensor> xs, expected;
  for (int i = 0; i < kThreads; ++i) {
    xs.push_back(x * (i + 1));
    expected.push_back(evaluate(model, xs.back()));
  }
  std::vector<int> wrong(kThreads, 0);
  at_once(kThreads, [&](int i) {
    for (int round = 0; round < kRounds; ++round)
      wrong[i] += !at::equal(evaluate(model, xs[i]), expected[i]);
  });
  EXPECT_THAT(wrong, ::testing::Each(0)) << "of " << kRounds << " rounds on each thread";
  EXPECT_LE(strategy.memory_report().peak_live_parameter_bytes, kThreads * kMiB);
}

// The gradient of each block, summed over xs, from LibTorch alone.
std::vector<at::Tensor> plain_gradients(const std::vector<at::Tensor>& xs, int blocks) {
  Blocks model(blocks);
  model->to(test_device());
  for (const auto& x : xs) model->loss(x).backward();
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : model->parameters()) gradients.push_back(parameter.grad().cpu());
  return gradients;
}

TEST(Threads, BackwardOnTwoThreadsLeavesTheSumOfBoth) {
  constexpr int kThreads = 2;
  constexpr int kBlocks = 4;
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    Blocks model(kBlocks);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Strategy strategy(stage == 3 ? one_page_for_each_of(kThreads) : whole_pages(stage));
    strategy.setup(*model, optimizer);
    const at::Tensor x = inputs(strategy.device());
    const std::vector<at::Tensor> xs{x, x * -3};
    const auto expected = plain_gradients(xs, kBlocks);
    const auto parameters = model->parameters();
    for (int round = 0; round < kFewRounds; ++round) {
      at_once(kThreads, [&](int i) { model->loss(xs[i]).backward(); });
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(parameters[i].grad().defined()) << "round " << round << ", block " << i;
        ASSERT_TRUE(at::allclose(strategy.gradient(parameters[i]).cpu(), expected[i], 1e-5, 1e-9))
            << "round " << round << ", block " << i;
      }
      strategy.zero_grad();
    }
  }
}

// optimizer.step() leaves pages stale; the first operator that touches one makes it new, whichever
// thread runs it.
TEST(Threads, ThePlainOptimizersStepIsSeenByAllThreads) {
  constexpr int kThreads = 4;
  for (const int stage : {1, 3}) {
    SCOPED_TRACE(stage);
    Blocks model(4);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Strategy strategy(stage == 3 ? one_page_for_each_of(kThreads) : whole_pages(stage));
    strategy.setup(*model, optimizer);
    const at::Tensor x = inputs(strategy.device());
    at::Tensor before = evaluate(model, x);
    for (int round = 0; round < kFewRounds; ++round) {
      model->loss(x).backward();
      optimizer.step();
      optimizer.zero_grad();
      std::vector<at::Tensor> seen(kThreads);
      at_once(kThreads, [&](int i) { seen[i] = evaluate(model, x); });
      const at::Tensor expected = evaluate(model, x);
      ASSERT_FALSE(at::equal(expected, before)) << "round " << round;
      for (int i = 0; i < kThreads; ++i)
        ASSERT_TRUE(at::equal(seen[i], expected)) << "round " << round;
      before = expected;
    }
  }
}

// Trains the model under a strategy of its own and returns its values.
std::vector<at::Tensor> train(Blocks& model, int stage, const at::Tensor& x) {
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(stage == 3 ? one_page_for_each_of(2) : whole_pages(stage));
  strategy.setup(*model, optimizer);
  for (int step = 0; step < kFewRounds; ++step) {
    for (int micro = 0; micro < 2; ++micro) model->loss(x).backward();
    if (step % 2 == 0) {
      strategy.step();
    } else {
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  std::vector<at::Tensor> values;
  for (const auto& parameter : model->parameters()) values.push_back(parameter.clone().cpu());
  return values;
}

TEST(Threads, TwoStrategiesOnTwoThreadsTrainAsEachAlone) {
  constexpr int kThreads = 2;
  const std::array<int, kThreads> stages{2, 3};
  std::vector<at::Tensor> xs;
  std::vector<std::vector<at::Tensor>> alone, together(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    Blocks model(2);
    xs.push_back(inputs(test_device()) * (i + 1));
    alone.push_back(train(model, stages[i], xs[i]));
  }
  for (int round = 0; round < kFewRounds; ++round) {
    std::vector<Blocks> models;  // made here: their first values come from one generator
    for (int i = 0; i < kThreads; ++i) models.emplace_back(2);
    at_once(kThreads, [&](int i) { together[i] = train(models[i], stages[i], xs[i]); });
    for (int i = 0; i < kThreads; ++i) {
      for (size_t k = 0; k < alone[i].size(); ++k) {
        ASSERT_TRUE(at::equal(together[i][k], alone[i][k]))
            << "round " << round << ", stage " << stages[i] << ", block " << k;
      }
    }
  }
}

}  // namespace
}  // namespace zero::testing
