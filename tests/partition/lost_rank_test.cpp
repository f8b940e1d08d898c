// SPDX-License-Identifier: Apache-2.0
// A rank that ends makes the others fail with its name's worth of advice; nobody waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include "plugin/partition/world.h"
#include "tests/support/ranks.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using zero::World;

constexpr int kEndedEarly = 3;

void end_early() { _exit(kEndedEarly); }

// Rank 0 ends once all have joined; the rest tries to go on.
ZERO_RANK_BODY(rank_0_ends_before_an_all_gather) {
  const auto world = World::join(at::kCPU);
  if (world->rank() == 0) end_early();
  world->gather().all_gather(torch::zeros({8L * world->world_size()}), torch::zeros({8}));
}

ZERO_RANK_BODY(last_rank_ends_before_a_reduction) {
  const auto world = World::join(at::kCPU);
  if (world->rank() == world->world_size() - 1) end_early();
  world->reduce().reduce_scatter(torch::zeros({8}), torch::zeros({8L * world->world_size()}));
}

ZERO_RANK_BODY(rank_0_ends_before_an_agreement) {
  const auto world = World::join(at::kCPU);
  if (world->rank() == 0) end_early();
  world->control().agree("the flags", "same");
}

ZERO_RANK_BODY(rank_1_stays_away) {
  // Reached only when joining ends, so rank 1 lives until the others have given up.
  const auto world = World::join(at::kCPU);
  if (world->rank() == 0) end_early();
}

void expect_others_to_fail(const std::string& body, int ranks, int lost, const std::string& call) {
  // Short, so that a hang shows as a failure of the ranks and not of the test's clock.
  const auto results = zero::testing::run_ranks(ranks, body, {{{"ZERO_TIMEOUT_SECONDS", "20"}}});
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& result = results[rank];
    EXPECT_FALSE(result.stopped) << result.output;
    if (rank == lost) {
      EXPECT_EQ(result.exit_code, kEndedEarly) << result.output;
      continue;
    }
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.output, AllOf(HasSubstr("zero: " + call),
                                     HasSubstr("failed on rank " + std::to_string(rank) + " of " +
                                               std::to_string(ranks)),
                                     HasSubstr("Another rank has probably ended")));
  }
}

TEST(LostRank, FailsAnAllGather) {
  expect_others_to_fail("rank_0_ends_before_an_all_gather", 3, 0, "all_gather");
}

TEST(LostRank, FailsAReduction) {
  expect_others_to_fail("last_rank_ends_before_a_reduction", 3, 2, "reduce_scatter");
}

TEST(LostRank, FailsAnAgreement) {
  expect_others_to_fail("rank_0_ends_before_an_agreement", 2, 0, "all_gather");
}

TEST(LostRank, ThatNeverCameIsReportedWithTheMeetingPlace) {
  // One process that was told of two.
  const auto results = zero::testing::run_ranks(
      1, "rank_1_stays_away", {{{"WORLD_SIZE", "2"}, {"ZERO_TIMEOUT_SECONDS", "2"}}});
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_NE(results[0].exit_code, kEndedEarly);
  EXPECT_THAT(results[0].output,
              AllOf(HasSubstr("rank 0 of 2"), HasSubstr("could not join"), HasSubstr("127.0.0.1:"),
                    HasSubstr("timeout 2 s"), HasSubstr("Check that all 2 ranks were started")));
}

}  // namespace
