// SPDX-License-Identifier: Apache-2.0
// Do this project's flags reach the engine, and does the engine act on them? A flag that is lost on
// the way makes a run that is merely slow or out of memory; here it makes a test red.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <zero/testing/recording_engine.h>
#include <zero/trainer.h>

#include "my_trainer.h"

namespace {

using ::testing::Not;
using zero::testing::Consulted;
using zero::testing::Forwards;
using zero::testing::RecordingEngine;

// First question: what has the engine received? No training is needed to know.
TEST(MyFlags, OffloadMovesParametersAndOptimizer) {
  RecordingEngine engine(strategy_from({.zero = 3, .offload = true}));
  EXPECT_THAT(engine, Forwards("zero_optimization.stage", 3));
  EXPECT_THAT(engine, Forwards("offload_parameters", true));
  EXPECT_THAT(engine, Forwards("offload_optimizer", true));
}

// Second question: has the part that acts on a setting read it? A step tells.
TEST(MyFlags, TheEngineActsOnOffload) {
  RecordingEngine engine(strategy_from({.zero = 3, .offload = true}));
  EXPECT_THAT(engine, Not(Consulted("offload_parameters")));
  engine.train_one_step();
  EXPECT_THAT(engine, Consulted("offload_parameters"));
  EXPECT_THAT(engine, Consulted("offload_optimizer"));
}

// Some settings are read by the loop. Give the strategy to the loop under test, as in a real run.
TEST(MyFlags, TheLoopAccumulates) {
  RecordingEngine engine(strategy_from({.accumulate = 4}));
  torch::nn::Linear model(8, 4);
  torch::optim::AdamW optimizer(model->parameters());
  engine.strategy().setup(model, optimizer);
  const std::vector<at::Tensor> batches(4, torch::ones({2, 8}, engine.strategy().device()));
  zero::Trainer trainer(zero::TrainerOptions().progress(false));
  const auto summary = trainer.fit(engine.strategy(), batches, [&](const at::Tensor& batch) {
    return model->forward(batch).square().mean();
  });
  EXPECT_EQ(summary.steps, 1);
  EXPECT_THAT(engine, Forwards("gradient_accumulation_steps", 4));
  EXPECT_THAT(engine, Consulted("gradient_accumulation_steps"));
}

}  // namespace
