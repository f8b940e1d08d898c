// SPDX-License-Identifier: Apache-2.0
// The flags that say where the optimizer lies, in which pieces it works and what is measured.
#include <gtest/gtest.h>

#include <chrono>

#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "engine/training.h"

namespace zero::testing {
namespace {

StrategyOptions offloaded(int stage = 3) {
  StrategyOptions options;
  options.stage(stage).device(test_device_name()).page_bytes(4096).offload_optimizer(true);
  if (stage == 3) options.parameter_budget(12 << 10).offload_parameters(true);
  return options;
}

Run run_of(const StrategyOptions& options, Rule rule = Rule::kAdamW) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  Run run;
  run.options = options;
  run.rule = rule;
  run.steps = 4;
  run.clip = 0.5;
  return run;
}

MemoryBytes booked(const Outcome& outcome, MemoryClass memory_class) {
  return outcome.report.booked[static_cast<int>(memory_class)];
}

void expect_same_numbers(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_TRUE(same_bits(a.parameters, b.parameters));
}

ZERO_RANK_BODY(update_pieces) {
  for (const Rule rule : {Rule::kAdamW, Rule::kAdam, Rule::kSgd}) {
    const Outcome whole = train(run_of(offloaded(), rule));
    const Outcome pieces = train(run_of(offloaded().sub_group_size(50), rule));
    const Outcome parameters = train(run_of(offloaded().sub_group_size(0), rule));
    expect_same_numbers(pieces, whole);
    expect_same_numbers(parameters, whole);
    EXPECT_GT(whole.last_step.update_calls, 0);
    // A rank's shards may hold one parameter a page.
    EXPECT_GE(parameters.last_step.update_calls, whole.last_step.update_calls);
    EXPECT_GT(pieces.last_step.update_calls, parameters.last_step.update_calls);
  }
}
TEST(SubGroupSize, CapsTheElementsOfAnUpdateCall) { on_test_ranks({1, 2}, "update_pieces"); }

ZERO_RANK_BODY(partial_offload) {
  for (const int stage : {1, 2, 3}) {
    for (const char* precision : {"fp32", "bf16"}) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ' ' << precision);
      const auto options = [&](double ratio) {
        return offloaded(stage).precision(precision).offload_optimizer_ratio(ratio);
      };
      const Outcome all = train(run_of(options(1.0)));
      const Outcome none = train(run_of(options(0.0)));
      const Outcome part = train(run_of(options(0.4)));
      const MemoryBytes everything = booked(all, MemoryClass::kMoments);
      EXPECT_EQ(everything.device, 0);
      EXPECT_EQ(booked(none, MemoryClass::kMoments).host, 0);
      EXPECT_EQ(booked(none, MemoryClass::kMoments).device, everything.host);
      const MemoryBytes split = booked(part, MemoryClass::kMoments);
      EXPECT_EQ(split.device + split.host, everything.host);
      EXPECT_GT(split.device, 0);
      EXPECT_GE(split.host, 0.4 * everything.host) << "at least as much as asked for";
      expect_same_numbers(part, all);
      expect_same_numbers(none, all);
    }
  }
}
TEST(OffloadOptimizerRatio, KeepsTheFirstLayersOnTheDevice) {
  on_test_ranks({1, 2}, "partial_offload", {{}, std::chrono::seconds(200)});
}

TEST(OffloadOptimizerRatio, ActsWithLibTorchsOwnLoopToo) {
  auto run = run_of(offloaded());
  run.loop = Loop::kPlain;
  const Outcome all = train(run);
  run.options.offload_optimizer_ratio(0.5);
  const Outcome half = train(run);
  if (test_device().is_cpu()) {  // LibTorch's kernels differ between CPU and GPU
    expect_same_numbers(half, all);
  } else {
    EXPECT_LT(distance(half.parameters, all.parameters), 1e-5);
  }
}

TEST(PinMemory, OfParametersAndOfTheOptimizerIsCountedApart) {
  const Outcome pinned = train(run_of(offloaded()));
  const Outcome pageable = train(
      run_of(offloaded().offload_parameters_pin_memory(false).offload_optimizer_pin_memory(false)));
  const Outcome parameters = train(run_of(offloaded().offload_optimizer_pin_memory(false)));
  const auto home = MemoryClass::kParameterHome;
  const auto moments = MemoryClass::kMoments;
  EXPECT_GT(booked(pinned, home).pinned, 0);
  EXPECT_EQ(booked(pinned, home).pinned, booked(pinned, home).host);
  EXPECT_EQ(booked(pinned, moments).pinned, booked(pinned, moments).host);
  EXPECT_EQ(pageable.report.total_booked().pinned, 0);
  EXPECT_EQ(pageable.report.total_booked().host, pinned.report.total_booked().host);
  EXPECT_EQ(booked(parameters, home).pinned, booked(parameters, home).host);
  EXPECT_EQ(booked(parameters, moments).pinned, 0);
  expect_same_numbers(pageable, pinned);
}

TEST(WallClockBreakdown, TimesThePhasesOfAStep) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome timed = train(run_of(offloaded().wall_clock_breakdown(true)));
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  const StepTimes& times = timed.last_step.times;
  EXPECT_GT(times.forward, 0);
  EXPECT_GT(times.backward, 0);
  EXPECT_GT(times.reduction, 0);
  EXPECT_GT(times.update, 0);
  EXPECT_LT(times.forward + times.backward + times.reduction + times.update, all.count());
  const Outcome plain = train(run_of(offloaded()));
  const StepTimes& none = plain.last_step.times;
  EXPECT_EQ(none.forward + none.backward + none.reduction + none.update, 0);
  expect_same_numbers(timed, plain);
}

TEST(GradientAccumulationDtype, OtherThanFp32IsRefusedByName) {
  EXPECT_THAT(error_of([] { train(run_of(offloaded().gradient_accumulation_dtype("bf16"))); }),
              ::testing::HasSubstr("gradient_accumulation_dtype (code)"));
  EXPECT_EQ(train(run_of(offloaded().gradient_accumulation_dtype("fp32"))).losses.size(), 4U);
}

}  // namespace
}  // namespace zero::testing
