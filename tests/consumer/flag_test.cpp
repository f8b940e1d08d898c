// SPDX-License-Identifier: Apache-2.0
// The testing library from an install tree.
#include <gtest/gtest.h>
#include <zero/testing/recording_engine.h>

using ::testing::Not;
using zero::testing::Consulted;
using zero::testing::Forwards;

TEST(InstalledTesting, SeesWhatTheEngineReceivesAndReads) {
  zero::testing::RecordingEngine engine(zero::StrategyOptions().stage(2).device("cpu"));
  EXPECT_THAT(engine, Forwards("zero_optimization.stage", 2));
  EXPECT_THAT(engine, Not(Forwards("stage", 3)));
  EXPECT_THAT(engine, Not(Consulted("stage")));
  engine.train_one_step();
  EXPECT_THAT(engine, Consulted("stage"));
}
