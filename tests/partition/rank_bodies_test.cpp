// SPDX-License-Identifier: Apache-2.0
// The helper for tests on ranks: a body's failure is the test's failure, with the rank's own words.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/support/ranks.h"

namespace zero::testing {
namespace {

using ::testing::HasSubstr;

bool is_rank(const char* rank) { return std::string(std::getenv("RANK")) == rank; }

ZERO_RANK_BODY(passes) {}
ZERO_RANK_BODY(expects_wrongly_on_rank_1) { EXPECT_FALSE(is_rank("1")) << "said by the rank"; }
ZERO_RANK_BODY(throws) { throw std::runtime_error("thrown by the rank"); }
ZERO_RANK_BODY(exits_with_rank_1) {
  if (is_rank("1")) _exit(9);
}
ZERO_RANK_BODY(is_killed) { raise(SIGKILL); }
ZERO_RANK_BODY(never_ends) {
  while (true) pause();
}

TEST(RankBodies, PassOnEachCount) { on_ranks({1, 2, 4}, "passes"); }

TEST(RankBodies, FailedExpectationsFailTheTest) {
  EXPECT_NONFATAL_FAILURE(on_ranks({2}, "expects_wrongly_on_rank_1"), "said by the rank");
  EXPECT_NONFATAL_FAILURE(on_ranks({2}, "expects_wrongly_on_rank_1"), "rank 1 of 2 failed");
}

TEST(RankBodies, ExceptionsFailTheTest) {
  EXPECT_NONFATAL_FAILURE(on_ranks({1}, "throws"), "thrown by the rank");
}

TEST(RankBodies, ExitCodesAndSignalsFailTheTest) {
  EXPECT_NONFATAL_FAILURE(on_ranks({2}, "exits_with_rank_1"), "exit code 9");
  EXPECT_NONFATAL_FAILURE(on_ranks({1}, "is_killed"), "exit code 137");
}

TEST(RankBodies, OverTheLimitIsStopped) {
  RankRun run;
  run.limit = std::chrono::seconds(1);
  EXPECT_NONFATAL_FAILURE(on_ranks({1}, "never_ends", run), "was stopped");
}

TEST(RankBodies, ResultsAreInRankOrder) {
  const auto results = run_ranks(3, "exits_with_rank_1");
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].exit_code, 0);
  EXPECT_EQ(results[1].exit_code, 9);
  EXPECT_EQ(results[2].exit_code, 0);
}

TEST(RankBodies, AnUnknownBodyIsAnError) {
  EXPECT_THROW(on_ranks({1}, "misspelt"), std::logic_error);
}

}  // namespace
}  // namespace zero::testing
