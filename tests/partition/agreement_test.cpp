// SPDX-License-Identifier: Apache-2.0
// A difference between ranks is shown with its holders, and of long texts only the place that
// differs.
#include "plugin/partition/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Agreement, NamesTheHoldersOfEachValue) {
  EXPECT_EQ(describe_difference({"adamw", "sgd", "adamw", "lion"}),
            "  ranks 0 and 2: \"adamw\"\n  rank 1: \"sgd\"\n  rank 3: \"lion\"\n");
  EXPECT_EQ(describe_difference({"", "x"}), "  rank 0: \"\"\n  rank 1: \"x\"\n");
}

TEST(Agreement, ListsRanks) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({0, 2}), "ranks 0 and 2");
  EXPECT_EQ(name_ranks({0, 2, 3}), "ranks 0, 2 and 3");
}

TEST(Agreement, ShowsTheFirstDifferingLine) {
  EXPECT_EQ(describe_difference({"a: 1\nb: 2\nc: 3\n", "a: 1\nb: 5\nc: 4\n"}),
            "  rank 0: line 2: \"b: 2\"\n  rank 1: line 2: \"b: 5\"\n");
  EXPECT_EQ(describe_difference({"a\nb\n", "x\nb\n"}),
            "  rank 0: line 1: \"a\"\n  rank 1: line 1: \"x\"\n");
}

TEST(Agreement, SaysWhereAShorterTextEnds) {
  EXPECT_EQ(describe_difference({"a\nb\n", "a\nb\nc\n"}),
            "  rank 0: line 3: (ends before this line)\n  rank 1: line 3: \"c\"\n");
  EXPECT_EQ(describe_difference({"a\n", "a"}),
            "  rank 0: line 1: \"a\"\n  rank 1: line 1: \"a\" (ends here)\n");
}

TEST(Agreement, CutsLongLinesAroundTheDifference) {
  const std::string same(1000, '.');
  const std::string text = describe_difference({same + "left" + same, same + "right" + same, same});
  EXPECT_THAT(text, AllOf(HasSubstr("left"), HasSubstr("right"), HasSubstr("rank 2: \"... ")));
  EXPECT_LT(text.size(), 700u);
  EXPECT_THAT(describe_difference({std::string(500, 'a'), "b"}), Not(HasSubstr("\"... a")));
}

}  // namespace
}  // namespace zero
