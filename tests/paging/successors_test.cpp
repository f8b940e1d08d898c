// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/successors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void touch(Successors& successors, std::initializer_list<int> pages) {
  for (const int page : pages) successors.touch(page);
}

TEST(Successors, KnowNothingBeforeTheFirstRound) {
  Successors successors;
  touch(successors, {1, 2, 3});
  EXPECT_THAT(successors.expect(4), IsEmpty());
}

TEST(Successors, ExpectForwardAndBackwardOverTheSamePages) {
  Successors successors;
  for (int round = 0; round < 2; ++round) touch(successors, {1, 2, 3, 4, 3, 2, 1});
  touch(successors, {2, 3});
  EXPECT_THAT(successors.expect(3), ElementsAre(4, 3, 2)) << "going up";
  touch(successors, {4, 3});
  EXPECT_THAT(successors.expect(2), ElementsAre(2, 1)) << "going down";
}

TEST(Successors, TouchingTheSamePageAgainTellsNothing) {
  Successors successors;
  touch(successors, {1, 1, 2, 2, 3, 1, 2});
  EXPECT_THAT(successors.expect(1), ElementsAre(3));
}

TEST(Successors, TheLatestBranchWins) {
  Successors successors;
  touch(successors, {0, 1, 2, 0, 1, 5, 0, 1});
  EXPECT_THAT(successors.expect(1), ElementsAre(5));
}

}  // namespace
}  // namespace zero
