// SPDX-License-Identifier: Apache-2.0
#include "plugin/memory/slot_arena.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace zero {
namespace {

TEST(SlotArena, HandsOutDisjointRangesWithinItsCapacity) {
  SlotArena arena(100);
  EXPECT_EQ(arena.take(40), 0);
  EXPECT_EQ(arena.take(60), 40);
  EXPECT_EQ(arena.take(1), std::nullopt);
  EXPECT_EQ(arena.used(), 100);
}

TEST(SlotArena, AnArenaWithoutRoomHandsOutNothing) {
  EXPECT_EQ(SlotArena(0).take(1), std::nullopt);
}

TEST(SlotArena, NeighboursThatAreFreeBecomeOneRange) {
  SlotArena arena(90);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(arena.take(30));
  arena.give(0);
  arena.give(60);
  EXPECT_EQ(arena.take(60), std::nullopt) << "60 bytes are free, but not in one piece";
  arena.give(30);
  EXPECT_EQ(arena.take(90), 0);
}

TEST(SlotArena, GivingBackTwiceIsRefused) {
  SlotArena arena(10);
  const auto slot = arena.take(10);
  arena.give(*slot);
  EXPECT_ANY_THROW(arena.give(*slot));
}

TEST(SlotArena, NeverOverlapsAndLosesNothingOverManyRandomSteps) {
  std::mt19937 random(1);
  SlotArena arena(1000);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (int step = 0; step < 5000; ++step) {
    const int64_t bytes = 1 + static_cast<int64_t>(random() % 200);
    if (const auto slot = arena.take(bytes)) {
      for (const auto& [offset, size] : taken) {
        ASSERT_TRUE(*slot + bytes <= offset || offset + size <= *slot);
      }
      ASSERT_LE(*slot + bytes, arena.capacity());
      taken.emplace_back(*slot, bytes);
    } else if (!taken.empty()) {
      const size_t victim = random() % taken.size();
      arena.give(taken[victim].first);
      taken.erase(taken.begin() + static_cast<int64_t>(victim));
    }
  }
  for (const auto& slot : taken) arena.give(slot.first);
  EXPECT_EQ(arena.used(), 0);
  EXPECT_EQ(arena.take(1000), 0);
}

}  // namespace
}  // namespace zero
