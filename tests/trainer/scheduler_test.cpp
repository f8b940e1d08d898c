// SPDX-License-Identifier: Apache-2.0
// A schedule moves with optimizer steps, not with micro-batches.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/trainer/fake_target.h"

namespace zero {
namespace {

using testing::FakeTarget;

struct Schedule {
  torch::Tensor parameter = torch::zeros({1});
  torch::optim::SGD optimizer{{parameter}, torch::optim::SGDOptions(1.0)};
  torch::optim::StepLR scheduler{optimizer, /*step_size=*/1, /*gamma=*/0.5};

  TrainerCallbacks callbacks() {
    TrainerCallbacks callbacks;
    callbacks.schedulers.push_back(&scheduler);
    return callbacks;
  }
  // LibTorch's StepLR leaves the rate alone in its first step().
  int steps() const {
    return 1 - static_cast<int>(std::log2(optimizer.param_groups()[0].options().get_lr()));
  }
};

TEST(TrainerSchedule, IsSteppedOnceAnOptimizerStep) {
  FakeTarget fake(/*accumulation_steps=*/4);
  Schedule schedule;
  std::vector<double> batches(16, 1.0);
  const TrainSummary summary = fake.fit(TrainerOptions().epochs(1), batches, schedule.callbacks());
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(schedule.steps(), 4);
}

TEST(TrainerSchedule, ASkippedStepLeavesItAlone) {
  FakeTarget fake;
  Schedule schedule;
  std::vector<double> batches{1, 2, 3};
  fake.fit(TrainerOptions().epochs(1), batches, schedule.callbacks());
  fake.applied = false;
  const TrainSummary summary = fake.fit(TrainerOptions().epochs(1), batches, schedule.callbacks());
  EXPECT_EQ(summary.skipped_steps, 3);
  EXPECT_EQ(schedule.steps(), 3);
}

}  // namespace
}  // namespace zero
