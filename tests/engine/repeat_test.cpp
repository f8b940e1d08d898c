// SPDX-License-Identifier: Apache-2.0
// What a run must not depend on: how often it is repeated, how long it is, into which pages its
// parameters are cut, and how a batch is split.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>

#include "engine/device_ranks.h"
#include "engine/training.h"

namespace zero::testing {
namespace {

using ::testing::HasSubstr;

StrategyOptions all_offloaded() {
  return StrategyOptions()
      .device(test_device_name())
      .stage(3)
      .offload_parameters(true)
      .offload_optimizer(true)
      .page_bytes(4096)
      .parameter_budget(64 << 10);
}

ZERO_RANK_BODY(the_same_run_twice) {
  for (const int stage : {2, 3}) {
    SCOPED_TRACE(stage);
    Run run;
    run.options = all_offloaded();
    if (stage == 2)
      run.options = StrategyOptions()
                        .device(test_device_name())
                        .stage(2)
                        .offload_optimizer(true)
                        .page_bytes(4096);
    run.steps = 50;
    run.clip = 0.5;
    const Outcome first = train(run);
    const Outcome second = train(run);
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.norms, second.norms);
    EXPECT_TRUE(same_bits(first.parameters, second.parameters));
  }
}

TEST(Repeat, FiftyStepsTwiceGiveTheSameBits) { on_test_ranks({2}, "the_same_run_twice"); }

// The whole model has some 12 KiB.
ZERO_RANK_BODY(pages_of_any_size) {
  for (int stage = 1; stage <= 3; ++stage) {
    Outcome first;
    int64_t booked = 0;
    for (const int64_t page_bytes :
         {int64_t{1} << 12, int64_t{1} << 14, int64_t{1} << 20, int64_t{1} << 29}) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", pages of " << page_bytes);
      Run run;
      run.options =
          StrategyOptions().device(test_device_name()).stage(stage).page_bytes(page_bytes);
      run.steps = 20;
      run.accumulation = 2;
      const Outcome outcome = train(run);
      if (first.parameters.empty()) first = outcome;
      EXPECT_EQ(outcome.losses, first.losses);
      EXPECT_TRUE(same_bits(outcome.parameters, first.parameters));
      TinyModel model;
      const auto optimizer = make_optimizer(run.rule, *model);
      Strategy strategy(run.options);
      strategy.setup(*model, *optimizer);
      model->loss(batch(0, 0, strategy.rank()).to(strategy.device())).backward();
      booked = strategy.memory_report().total_booked().device;
      EXPECT_LT(booked, 1 << 20) << "memory does not grow to the size that a page may have";
    }
  }
}

TEST(Repeat, PagesOfAnySizeGiveTheSameBits) { on_test_ranks({1, 2}, "pages_of_any_size"); }

ZERO_RANK_BODY(splits_of_a_batch) {
  torch::manual_seed(9);
  const at::Tensor x = torch::rand({16, 12});
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<at::Tensor> ends;
    for (const int parts : {1, 4, 16}) {
      torch::manual_seed(4);
      torch::nn::Sequential model(torch::nn::Linear(12, 20), torch::nn::Tanh(),
                                  torch::nn::Linear(20, 3));
      torch::optim::SGD optimizer(model->parameters(), 0.5);
      auto options = StrategyOptions().device(test_device_name()).stage(stage).page_bytes(4096);
      if (stage > 0) options.offload_optimizer(true);
      Strategy strategy(options);
      strategy.setup(model, optimizer);
      const at::Tensor before = model->forward(x.to(strategy.device())).cpu();
      for (int step = 0; step < 10; ++step) {
        optimizer.zero_grad();
        for (const at::Tensor& part : x.chunk(parts)) {
          (model->forward(part.to(strategy.device())).square().mean() / parts).backward();
          if (step == 0) {
            const at::Tensor logits = model->forward(x.to(strategy.device())).cpu();
            EXPECT_TRUE(at::equal(logits, before)) << "a micro-batch changes no weight";
          }
        }
        optimizer.step();
      }
      ends.push_back(model->forward(x.to(strategy.device())).detach().cpu());
      EXPECT_FALSE(at::allclose(ends.back(), before));
      EXPECT_TRUE(at::allclose(ends.back(), ends.front(), 1e-4, 1e-6))
          << "stage " << stage << ", " << parts << " parts";
    }
  }
}

TEST(Repeat, ABatchMaySplitIntoMicroBatches) { on_test_ranks({1, 2}, "splits_of_a_batch"); }

torch::nn::Sequential small_model() {
  torch::nn::Sequential model;
  for (int layer = 0; layer < 8; ++layer) {
    model->push_back(torch::nn::Linear(64, 64));
    model->push_back(torch::nn::Tanh());
  }
  return model;
}

void expect_flat_memory(int steps) {
  constexpr int kWarm = 200;
  // A leak of one page in ten steps would be more.
  constexpr int64_t kBound = 3 << 20;
  auto model = small_model();
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  Strategy strategy(StrategyOptions(all_offloaded()).page_bytes(16 << 10));
  strategy.setup(model, optimizer);
  const at::Tensor x = torch::rand({4, 64}).to(strategy.device());
  MemoryReport warm;
  for (int step = 0; step < steps; ++step) {
    if (step == kWarm) warm = strategy.memory_report();
    optimizer.zero_grad();
    model->forward(x).square().mean().backward();
    if (step % 2 == 0) {
      strategy.step();
    } else {
      torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
      optimizer.step();
    }
    const at::NoGradGuard no_grad;
    model->eval();
    model->forward(x);
    model->train();
  }
  const MemoryReport end = strategy.memory_report();
  EXPECT_LE(end.process_rss - warm.process_rss, kBound);
  for (int i = 0; i < kMemoryClasses; ++i) {
    EXPECT_EQ(end.booked[i].host, warm.booked[i].host) << name_of(static_cast<MemoryClass>(i));
    EXPECT_EQ(end.booked[i].device, warm.booked[i].device) << name_of(static_cast<MemoryClass>(i));
  }
}

ZERO_RANK_BODY(two_thousand_steps) { expect_flat_memory(2000); }
ZERO_RANK_BODY(several_hundred_steps) { expect_flat_memory(600); }

TEST(Repeat, TwoThousandStepsOfTrainingAndEvaluationTakeNoMoreMemory) {
  RankRun run;
  run.limit = std::chrono::seconds(240);
  on_test_ranks({1}, "two_thousand_steps", run);
  on_test_ranks({2}, "several_hundred_steps", run);  // each fault is a message there
}

// While a model is set up, its old storages go page by page: no second copy of everything.
ZERO_RANK_BODY(setup_at_its_peak) {
  constexpr int64_t kLayer = 8 << 20;
  constexpr int kLayers = 8;
  torch::nn::Sequential model;
  for (int layer = 0; layer < kLayers; ++layer)
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(1024, 2048).bias(false)));
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  Strategy strategy(
      StrategyOptions(all_offloaded()).page_bytes(kLayer).parameter_budget(2 * kLayer));
  (void)strategy.device();  // what joining and the device take is not the model's
  const int64_t before = strategy.memory_report().process_rss - kLayers * kLayer;
  strategy.setup(model, optimizer);
  const MemoryReport report = strategy.memory_report();
  const MemoryBytes booked = report.total_booked();
  const int64_t added = report.process_peak_rss - before;
  EXPECT_LE(added, booked.host + (test_device().is_cpu() ? booked.device : 0) + kLayers * kLayer +
                       3 * kLayer)
      << "what is booked, the model itself, and a few pages";
}

TEST(Repeat, SetupNeedsNoSecondCopyOfTheModel) {
  if (test_device().is_cuda()) GTEST_SKIP() << "what the driver maps is not the model's";
  on_test_ranks({1}, "setup_at_its_peak");
}

ZERO_RANK_BODY(stage_3_alone) {
  auto model = small_model();
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  Strategy strategy(all_offloaded());
  strategy.setup(model, optimizer);
  model->forward(torch::rand({4, 64}).to(strategy.device())).sum().backward();
  strategy.step();
  const auto booked = strategy.memory_report().booked;
  EXPECT_GT(booked[static_cast<int>(MemoryClass::kParameterHome)].host, 0) << "offload acts";
  EXPECT_EQ(booked[static_cast<int>(MemoryClass::kParameterHome)].device, 0);
}

TEST(Repeat, OneProcessAtStage3IsToldThatNothingIsSharded) {
  const auto results = run_ranks(1, "stage_3_alone");
  EXPECT_EQ(results[0].exit_code, 0) << results[0].output;
  EXPECT_THAT(results[0].output, HasSubstr("stage 3 shards nothing here"));
}

}  // namespace
}  // namespace zero::testing
