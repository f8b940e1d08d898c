// SPDX-License-Identifier: Apache-2.0
// The split form keeps every fp32 value, and its high half is the nearest bf16.
#include "tests/kernels/shard.h"

namespace zero::kernels::testing {
namespace {

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }
float high_value(SplitFloat parts) { return from_bits(static_cast<uint32_t>(parts.high) << 16); }

// Both signs, all 256 exponents, and mantissas around every point where rounding changes.
template <class Visit>
void for_each_pattern(Visit visit) {
  for (uint32_t sign : {0u, 0x80000000u}) {
    for (uint32_t exponent = 0; exponent < 256; ++exponent) {
      for (uint32_t upper = 0; upper < 128; ++upper) {
        for (uint32_t lower : {0u, 1u, 0x1234u, 0x7FFFu, 0x8000u, 0x8001u, 0xABCDu, 0xFFFFu}) {
          visit(sign | exponent << 23 | upper << 16 | lower);
        }
      }
    }
  }
}

TEST(SplitMaster, EveryValueThatIsNoNanJoinsToItsOwnBits) {
  for_each_pattern([](uint32_t bits) {
    if (std::isnan(from_bits(bits))) return;
    ASSERT_EQ(std::bit_cast<uint32_t>(join(split(from_bits(bits)))), bits) << std::hex << bits;
  });
}

TEST(SplitMaster, HighIsTheNearestBf16AndTiesGoAwayFromZero) {
  for_each_pattern([](uint32_t bits) {
    const float value = from_bits(bits);
    const double high = high_value(split(value));
    if (!std::isfinite(value) || !std::isfinite(high)) return;
    const double down = from_bits(bits & 0xFFFF0000u);
    const double up = from_bits((bits & 0xFFFF0000u) + 0x10000u);
    const double to_down = std::abs(value - down), to_up = std::abs(up - value);
    ASSERT_EQ(high, to_down < to_up ? down : up) << std::hex << bits;
  });
}

TEST(SplitMaster, ZerosKeepTheirSignAndInfinitiesStay) {
  for (float value : {0.0f, -0.0f, INFINITY, -INFINITY}) {
    const SplitFloat parts = split(value);
    EXPECT_EQ(std::bit_cast<uint32_t>(high_value(parts)), std::bit_cast<uint32_t>(value));
    EXPECT_EQ(parts.low, 0);
  }
}

TEST(SplitMaster, WhatNoBf16IsNearToHasAnInfiniteHighAndStillJoins) {
  const float largest = from_bits(0x7F7FFFFFu);
  EXPECT_EQ(high_value(split(largest)), INFINITY);
  EXPECT_EQ(join(split(largest)), largest);
  EXPECT_EQ(high_value(split(-largest)), -INFINITY);
  EXPECT_EQ(join(split(-largest)), -largest);
}

TEST(SplitMaster, EveryNanStaysANanInBothHalves) {
  for_each_pattern([](uint32_t bits) {
    if (!std::isnan(from_bits(bits))) return;
    ASSERT_TRUE(std::isnan(high_value(split(from_bits(bits))))) << std::hex << bits;
    ASSERT_EQ(std::bit_cast<uint32_t>(join(split(from_bits(bits)))), kQuietNan);
  });
}

class SplitForm : public ::testing::TestWithParam<RuleCase> {};

TEST_P(SplitForm, TrainsToTheBitsOfAnFp32Master) {
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (!supported(isa)) continue;
    ThreadPool pool(2);
    Shard whole(kShardLength, Form::kMaster, 5), halves(kShardLength, Form::kSplit, 5);
    ten_steps(isa, pool, whole, GetParam());
    ten_steps(isa, pool, halves, GetParam());
    EXPECT_EQ(first_difference(whole.weights(), halves.weights()), -1);
    EXPECT_EQ(first_difference(whole.moment1, halves.moment1), -1);
    EXPECT_EQ(first_difference(whole.moment2, halves.moment2), -1);
    for (size_t i = 0; i < halves.high.size(); ++i) {
      ASSERT_EQ(halves.high[i], split(whole.master[i]).high) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, SplitForm, ::testing::ValuesIn(all_rules()), rule_name);

}  // namespace
}  // namespace zero::kernels::testing
