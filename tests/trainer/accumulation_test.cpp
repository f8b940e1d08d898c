// SPDX-License-Identifier: Apache-2.0
// Accumulation over micro-batches is one big batch.
#include <gtest/gtest.h>

#include <vector>

#include "tests/trainer/fake_target.h"

namespace zero {
namespace {

using testing::FakeTarget;

TEST(Accumulation, AStepTakesAsManyMicroBatchesAsTheConfigSays) {
  FakeTarget fake(/*accumulation_steps=*/3);
  int64_t drawn = 0;
  auto source = [&] { return static_cast<double>(++drawn); };
  const TrainSummary summary = fake.fit(TrainerOptions().steps(4), source);
  EXPECT_EQ(drawn, 12);
  EXPECT_EQ(fake.backward_losses.size(), 12U);
  EXPECT_EQ(fake.step_gradients.size(), 4U);
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.tokens, 120);
}

TEST(Accumulation, TheGradientIsTheMeanOverTheMicroBatches) {
  FakeTarget fake(/*accumulation_steps=*/4);
  std::vector<double> batches{1, 2, 3, 6, 2, 2, 2, 2};
  fake.fit(TrainerOptions().epochs(1), batches);
  ASSERT_EQ(fake.step_gradients.size(), 2U);
  EXPECT_DOUBLE_EQ(fake.step_gradients[0], 3.0);
  EXPECT_DOUBLE_EQ(fake.step_gradients[1], 2.0);
}

TEST(Accumulation, EachLossIsDividedBeforeItsBackward) {
  FakeTarget fake(/*accumulation_steps=*/2);
  std::vector<double> batches{8, 4};
  fake.fit(TrainerOptions().epochs(1), batches);
  EXPECT_EQ(fake.backward_losses, (std::vector<double>{4, 2}));
}

TEST(Accumulation, TheLoggedLossIsTheMeanOverTheMicroBatches) {
  FakeTarget fake(/*accumulation_steps=*/2);
  std::vector<double> batches{8, 4};
  const TrainSummary summary = fake.fit(TrainerOptions().epochs(1), batches);
  ASSERT_EQ(summary.log.size(), 1U);
  EXPECT_DOUBLE_EQ(summary.log[0].loss, 6.0);
}

TEST(Accumulation, ALossOfManyNumbersIsRefused) {
  FakeTarget fake;
  const NextMicroBatch next = [&] { return MicroBatch{fake.weight * torch::ones({3}), 0}; };
  EXPECT_THROW(
      run_loop(fake.target, TrainerOptions().steps(1), {}, next, true, fake.printed, false),
      c10::Error);
  EXPECT_TRUE(fake.backward_losses.empty());
}

}  // namespace
}  // namespace zero
