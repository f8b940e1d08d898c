// SPDX-License-Identifier: Apache-2.0
// Who is told what, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/trainer/fake_target.h"

namespace zero {
namespace {

using ::testing::ElementsAre;
using testing::FakeTarget;
using ::testing::HasSubstr;

std::vector<int64_t> logged_steps(const TrainSummary& summary) {
  std::vector<int64_t> steps;
  for (const auto& info : summary.log) steps.push_back(info.step);
  return steps;
}

double one() { return 1.0; }

TEST(Logging, TheFirstEveryNthAndTheLastStepAreLogged) {
  FakeTarget fake;
  EXPECT_THAT(logged_steps(fake.fit(TrainerOptions().steps(9).log_every(4), one)),
              ElementsAre(1, 4, 8, 9));
}

TEST(Logging, MemoryIsAskedForOnLoggedStepsOnly) {
  FakeTarget fake;
  fake.fit(TrainerOptions().steps(9).log_every(4), one);
  EXPECT_EQ(fake.reports, 4);
}

TEST(Logging, LogEveryZeroLogsNothing) {
  FakeTarget fake;
  EXPECT_TRUE(fake.fit(TrainerOptions().steps(5).log_every(0), one).log.empty());
  EXPECT_EQ(fake.printed.str(), "");
}

TEST(Logging, CallbacksGetEveryStepsBeginAndTheLoggedSteps) {
  FakeTarget fake;
  std::vector<int64_t> begun;
  std::vector<double> norms;
  TrainerCallbacks callbacks;
  callbacks.on_step_begin.push_back([&](int64_t step) {
    EXPECT_EQ(fake.step_gradients.size(), static_cast<size_t>(step - 1));
    begun.push_back(step);
  });
  callbacks.on_log.push_back([&](const StepInfo& info) { norms.push_back(info.gradient_norm); });
  double batch = 0.0;
  auto source = [&] { return batch += 1.0; };
  fake.fit(TrainerOptions().steps(4).log_every(2), source, callbacks);
  EXPECT_THAT(begun, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(norms, ElementsAre(1.0, 2.0, 4.0));
}

TEST(Logging, TokensPerSecondCountAllRanks) {
  FakeTarget one_rank, four_ranks;
  four_ranks.target.world_size = 4;
  const auto options = TrainerOptions().steps(1);
  const StepInfo single = one_rank.fit(options, one).log.at(0);
  const StepInfo many = four_ranks.fit(options, one).log.at(0);
  EXPECT_NEAR(single.tokens_per_s * single.seconds, 10.0, 1e-6);
  EXPECT_NEAR(many.tokens_per_s * many.seconds, 40.0, 1e-6);
}

TEST(Logging, OnlyRankZeroPrintsButEveryRankGetsItsCallbacks) {
  FakeTarget fake;
  fake.target.rank = 1;
  int64_t calls = 0;
  TrainerCallbacks callbacks;
  callbacks.on_log.push_back([&](const StepInfo&) { ++calls; });
  fake.fit(TrainerOptions().steps(2).log_every(1), one, callbacks);
  EXPECT_EQ(fake.printed.str(), "");
  EXPECT_EQ(calls, 2);
}

TEST(Logging, ProgressCanBeSwitchedOff) {
  FakeTarget fake;
  fake.fit(TrainerOptions().steps(2).log_every(1).progress(false), one);
  EXPECT_EQ(fake.printed.str(), "");
}

TEST(Logging, AnUpdateThatWasLeftOutIsCountedAndTold) {
  FakeTarget fake;
  fake.applied = false;
  EXPECT_EQ(fake.fit(TrainerOptions().steps(2), one).skipped_steps, 2);
  EXPECT_THAT(fake.printed.str(),
              HasSubstr("step 2  gradients were not finite: the update was left out"));
}

}  // namespace
}  // namespace zero
