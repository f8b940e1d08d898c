// SPDX-License-Identifier: Apache-2.0
// Where the data ends: epochs, steps that cross their border, and data that is too short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/trainer/fake_target.h"

namespace zero {
namespace {

using testing::FakeTarget;
using ::testing::HasSubstr;

TEST(Epochs, EachEpochDrawsTheRangeAgain) {
  FakeTarget fake;
  std::vector<double> batches{1, 2, 3};
  const TrainSummary summary = fake.fit(TrainerOptions().epochs(2), batches);
  EXPECT_EQ(summary.steps, 6);
  EXPECT_EQ(fake.step_gradients, (std::vector<double>{1, 2, 3, 1, 2, 3}));
}

TEST(Epochs, StepsWinOverEpochsAndDrawTheRangeAsOftenAsNeeded) {
  FakeTarget fake;
  std::vector<double> batches{1, 2, 3};
  EXPECT_EQ(fake.fit(TrainerOptions().epochs(1).steps(7), batches).steps, 7);
  EXPECT_EQ(fake.step_gradients.back(), 1.0);
}

TEST(Epochs, AStepMayReachIntoTheNextEpoch) {
  FakeTarget fake(/*accumulation_steps=*/2);
  std::vector<double> batches{1, 2, 3};
  const TrainSummary summary = fake.fit(TrainerOptions().epochs(2), batches);
  EXPECT_EQ(fake.step_gradients, (std::vector<double>{1.5, 2.0, 2.5}));
  EXPECT_EQ(summary.unused_micro_batches, 0);
}

TEST(Epochs, ALastStepThatIsNotFullIsLeftOutAndTold) {
  FakeTarget fake(/*accumulation_steps=*/2);
  std::vector<double> batches{1, 3, 100};
  const TrainSummary summary = fake.fit(TrainerOptions().epochs(1), batches);
  EXPECT_EQ(summary.steps, 1);
  EXPECT_EQ(summary.unused_micro_batches, 1);
  EXPECT_EQ(summary.tokens, 20);
  EXPECT_DOUBLE_EQ(summary.log.back().loss, 2.0);
  EXPECT_EQ(fake.gradients_forgotten, 1);
  EXPECT_FALSE(fake.weight.grad().defined());
  EXPECT_THAT(fake.printed.str(), HasSubstr("1 micro-batches are part of no update"));
}

TEST(Epochs, DataForLessThanOneStepIsAnError) {
  FakeTarget fake(/*accumulation_steps=*/4);
  std::vector<double> batches{1, 2};
  try {
    fake.fit(TrainerOptions().epochs(1), batches);
    FAIL() << "expected an error";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("A step takes 4 micro-batches, the source gave 2"));
  }
}

TEST(Epochs, AnEmptySourceIsAnErrorInsteadOfAnEndlessSearch) {
  FakeTarget fake;
  std::vector<double> batches;
  EXPECT_THROW(fake.fit(TrainerOptions().steps(3), batches), c10::Error);
}

TEST(Epochs, AFunctionHasNoEndSoStepsMustBeGiven) {
  FakeTarget fake;
  auto source = [] { return 1.0; };
  EXPECT_THROW(fake.fit(TrainerOptions().epochs(3), source), c10::Error);
  EXPECT_TRUE(fake.backward_losses.empty());
}

TEST(Epochs, NegativeCountsAreRefused) {
  FakeTarget fake;
  std::vector<double> batches{1};
  EXPECT_THROW(fake.fit(TrainerOptions().steps(-1), batches), c10::Error);
  EXPECT_THROW(fake.fit(TrainerOptions().log_every(-1), batches), c10::Error);
  EXPECT_THROW(fake.fit(TrainerOptions().epochs(0), batches), c10::Error);
}

}  // namespace
}  // namespace zero
