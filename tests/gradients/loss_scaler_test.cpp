// SPDX-License-Identifier: Apache-2.0
// The loss scale over steps that overflow and steps that do not.
#include "plugin/gradients/loss_scaler.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace zero {
namespace {

// The scale after each step; 'o' is a step that overflows, '.' one that does not.
std::vector<double> scales(LossScaler scaler, const std::string& steps) {
  std::vector<double> after;
  for (const char step : steps) {
    scaler.update(step == 'o');
    after.push_back(scaler.scale());
  }
  return after;
}

using Scales = std::vector<double>;

TEST(LossScaler, HalvesAtEachOverflowWithoutHysteresis) {
  EXPECT_EQ(scales(LossScaler({.initial_power = 16, .hysteresis = 1}), "oooooooooo"),
            (Scales{32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64}));
}

TEST(LossScaler, TheHysteresisForgivesTheFirstOverflows) {
  EXPECT_EQ(scales(LossScaler({.initial_power = 4, .hysteresis = 3}), "oooo"),
            (Scales{16, 16, 8, 4}));
}

TEST(LossScaler, OneCleanStepStartsAConsecutiveHysteresisAnew) {
  const DynamicLossScale options{
      .initial_power = 4, .hysteresis = 2, .consecutive_hysteresis = true};
  EXPECT_EQ(scales(LossScaler(options), "o.o.oo"), (Scales{16, 16, 16, 16, 16, 8}));
}

TEST(LossScaler, OnlyAFullWindowStartsAnyOtherHysteresisAnew) {
  EXPECT_EQ(scales(LossScaler({.initial_power = 4, .window = 2, .hysteresis = 2}), "o.o..oo"),
            (Scales{16, 16, 8, 8, 16, 16, 8}));
}

TEST(LossScaler, DoublesAfterEachWindowWithoutOverflow) {
  EXPECT_EQ(scales(LossScaler({.initial_power = 3, .window = 3, .hysteresis = 1}), "......o...."),
            (Scales{8, 8, 16, 16, 16, 32, 16, 16, 16, 32, 32}));
}

TEST(LossScaler, StopsAtTheMinimum) {
  EXPECT_EQ(scales(LossScaler({.initial_power = 2, .hysteresis = 1, .min_scale = 1.5}), "ooo"),
            (Scales{2, 1.5, 1.5}));
  EXPECT_EQ(scales(LossScaler({.initial_power = 1, .hysteresis = 1, .min_scale = 0.25}), "oooo"),
            (Scales{1, 0.5, 0.25, 0.25}));
}

TEST(LossScaler, DoesNotGrowOutOfTheNumbersThatFp32Holds) {
  EXPECT_EQ(scales(LossScaler({.initial_power = 125, .window = 1}), "..."),
            (Scales{0x1p126, 0x1p126, 0x1p126}));
}

TEST(LossScaler, AStaticScaleStays) {
  EXPECT_EQ(scales(LossScaler(128.0), "oo.o"), (Scales{128, 128, 128, 128}));
  EXPECT_FALSE(LossScaler(128.0).dynamic());
  EXPECT_EQ(LossScaler().scale(), 1.0);
}

TEST(LossScaler, CountsOverflowsAndThoseInARow) {
  LossScaler scaler;
  for (const bool overflow : {true, true, false, true}) scaler.update(overflow);
  EXPECT_EQ(scaler.overflows(), 3);
  EXPECT_EQ(scaler.consecutive_overflows(), 1);
}

TEST(LossScaler, RefusesScalesThatAreNoneAndAMinimumAboveTheStart) {
  for (const double scale : {0.0, -1.0, 0x1p127}) {
    EXPECT_THROW(LossScaler{scale}, std::invalid_argument) << scale;
  }
  EXPECT_THROW(LossScaler({.min_scale = 0}), std::invalid_argument);
  EXPECT_THROW(LossScaler({.initial_power = 2, .min_scale = 8}), std::invalid_argument);
}

}  // namespace
}  // namespace zero
