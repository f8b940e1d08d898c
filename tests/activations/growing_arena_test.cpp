// SPDX-License-Identifier: Apache-2.0
// The arena keeps what a step needed, and does not pile up what it needs no more.
#include "plugin/memory/growing_arena.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/device.h"

namespace zero::testing {
namespace {

constexpr int64_t kKiB = 1024;

struct Fixture {
  Ledger ledger;
  Buffers buffers{ledger, test_device()};
  int settled = 0;
  GrowingArena arena{buffers, MemoryClass::kActivations, Place::kHost, [this] { ++settled; }};
  int64_t booked() const {
    return ledger.report().booked[static_cast<int>(MemoryClass::kActivations)].host;
  }
  // Takes all, then gives all back.
  void round(const std::vector<int64_t>& sizes) {
    std::vector<GrowingArena::Range> ranges;
    for (const int64_t size : sizes) ranges.push_back(arena.take(size));
    for (const auto& range : ranges) arena.give(range);
  }
};

TEST(GrowingArena, TheSecondRoundFindsWhatTheFirstOneLeft) {
  Fixture fixture;
  fixture.round({64 * kKiB, 100 * kKiB, 64 * kKiB});
  EXPECT_EQ(fixture.arena.blocks_mapped(), 3);
  EXPECT_EQ(fixture.booked(), 228 * kKiB);
  for (int i = 0; i < 3; ++i) fixture.round({64 * kKiB, 64 * kKiB, 100 * kKiB});
  EXPECT_EQ(fixture.arena.blocks_mapped(), 3);
}

TEST(GrowingArena, GrowingSizesDoNotPileUp) {
  Fixture fixture;
  for (int64_t size = 64 * kKiB; size <= 256 * kKiB; size += kKiB) fixture.round({size, size});
  EXPECT_LE(fixture.booked(), 3 * 256 * kKiB);
  EXPECT_GT(fixture.settled, 0);
}

TEST(GrowingArena, RangesThatLiveAreNeverGivenAway) {
  Fixture fixture;
  const auto first = fixture.arena.take(64 * kKiB);
  first.bytes.fill_(7);
  for (int64_t size = 64 * kKiB; size <= 512 * kKiB; size *= 2) {
    const auto range = fixture.arena.take(size);
    range.bytes.fill_(9);
    fixture.arena.give(range);
  }
  EXPECT_EQ(first.bytes.min().item<int>(), 7);
  EXPECT_EQ(first.bytes.max().item<int>(), 7);
}

TEST(GrowingArena, ABlockHoldsSeveralRanges) {
  Fixture fixture;
  fixture.arena.set_block_bytes(4 * 64 * kKiB);
  fixture.round({64 * kKiB, 64 * kKiB, 64 * kKiB, 64 * kKiB});
  EXPECT_EQ(fixture.arena.blocks_mapped(), 1);
}

}  // namespace
}  // namespace zero::testing
