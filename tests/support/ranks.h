// SPDX-License-Identifier: Apache-2.0
// Tests on several ranks. A test names a body; the body runs in N processes, each of them this
// executable again with the variables a launcher sets. (A fork without exec would inherit
// LibTorch's locks without its threads.)
//
//   ZERO_RANK_BODY(all_ranks_see_the_sum) { EXPECT_EQ(sum_over_ranks(1), world_size()); }
//   TEST(Sum, CountsTheRanks) { zero::testing::on_ranks({1, 2, 4}, "all_ranks_see_the_sum"); }
//
// gtest's assertions count inside a body: a rank with a failure fails the test, with that rank's
// output. Starting LibTorch costs about a second a rank, so one body should check much. An
// executable with bodies links zero_test_support after zero_test(...): that brings main().
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace zero::testing {

struct RankRun {
  std::map<std::string, std::string> environment;  // on top of this process's
  std::chrono::seconds limit =
      std::chrono::seconds(60);  // then the ranks are killed and the test fails
};

struct RankResult {
  int exit_code = 0;     // 128 + signal if a signal ended it
  bool stopped = false;  // killed: over the limit, or long after another rank had failed
  std::string output;    // stdout and stderr
};

// Runs the body on each number of ranks in turn and fails the current test unless every rank
// passes.
void on_ranks(const std::vector<int>& counts, const std::string& body, const RankRun& run = {});

// Runs the body once and returns what became of the ranks, in rank order: for ranks that are meant
// to fail.
std::vector<RankResult> run_ranks(int ranks, const std::string& body, const RankRun& run = {});

using RankBody = void (*)();

struct RankBodyRegistration {
  RankBodyRegistration(const char* name, RankBody body);
};

// In main: if this process is a rank, runs its body as a gtest test and nothing else. Call before
// InitGoogleTest.
void select_rank_body();

}  // namespace zero::testing

#define ZERO_RANK_BODY(name)                                                           \
  static void name();                                                                  \
  static const ::zero::testing::RankBodyRegistration name##_registration(#name, name); \
  static void name()
