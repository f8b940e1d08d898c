// SPDX-License-Identifier: Apache-2.0
// Validation runs without gradients in eval mode, and leaves the model as it found it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/trainer/fake_target.h"

namespace zero {
namespace {

using ::testing::ElementsAre;
using testing::FakeTarget;

double one() { return 1.0; }

// A model with a module that its owner keeps in eval mode.
struct PartlyFrozen : torch::nn::Module {
  PartlyFrozen() { frozen->eval(); }
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout());
  torch::nn::BatchNorm1d frozen = register_module("frozen", torch::nn::BatchNorm1d(2));
};

struct ValidationMode : ::testing::Test {
  void expect_own_modes() {
    EXPECT_TRUE(model.is_training());
    EXPECT_TRUE(model.dropout->is_training());
    EXPECT_FALSE(model.frozen->is_training());
    EXPECT_TRUE(torch::GradMode::is_enabled());
  }

  PartlyFrozen model;
  FakeTarget fake;
  TrainerCallbacks callbacks;
};

TEST_F(ValidationMode, TheModelIsInEvalModeAndNothingIsDifferentiated) {
  callbacks.validated_model = &model;
  callbacks.held_out_loss = [&] {
    EXPECT_FALSE(model.is_training());
    EXPECT_FALSE(model.dropout->is_training());
    EXPECT_FALSE(torch::GradMode::is_enabled());
    return 1.0;
  };
  EXPECT_FALSE(fake.fit(TrainerOptions().steps(1), one, callbacks).validations.empty());
}

TEST_F(ValidationMode, EveryModuleGetsItsOwnModeBack) {
  callbacks.validated_model = &model;
  callbacks.held_out_loss = [] { return 1.0; };
  callbacks.on_step_begin.push_back([&](int64_t) { expect_own_modes(); });
  callbacks.on_validation.push_back([&](const ValidationInfo&) { expect_own_modes(); });
  fake.fit(TrainerOptions().steps(2).validate_every(1), one, callbacks);
  expect_own_modes();
}

TEST_F(ValidationMode, AnExceptionPassesThroughAndTheModesComeBack) {
  callbacks.validated_model = &model;
  callbacks.held_out_loss = []() -> double { throw std::runtime_error("no more data"); };
  EXPECT_THROW(fake.fit(TrainerOptions().steps(2), one, callbacks), std::runtime_error);
  expect_own_modes();
}

TEST_F(ValidationMode, ValidationFramesTheRunAndRepeatsInIt) {
  callbacks.validated_model = &model;
  callbacks.held_out_loss = [&] { return static_cast<double>(fake.step_gradients.size()); };
  const auto summary = fake.fit(TrainerOptions().steps(5).validate_every(2), one, callbacks);
  std::vector<int64_t> steps;
  for (const auto& info : summary.validations) {
    steps.push_back(info.step);
    EXPECT_DOUBLE_EQ(info.loss, static_cast<double>(info.step));
  }
  EXPECT_THAT(steps, ElementsAre(0, 2, 4, 5));
}

TEST_F(ValidationMode, ALastStepThatWasJustValidatedIsNotValidatedAgain) {
  callbacks.validated_model = &model;
  callbacks.held_out_loss = [] { return 1.0; };
  const auto summary = fake.fit(TrainerOptions().steps(4).validate_every(2), one, callbacks);
  EXPECT_EQ(summary.validations.size(), 3U);
}

}  // namespace
}  // namespace zero
