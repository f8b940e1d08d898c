// SPDX-License-Identifier: Apache-2.0
// A rank that ends makes the others fail with advice what to look at; nobody waits for ever.
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

// Ends rank 0 once rank 1 has told it that it has joined.
std::shared_ptr<World> join_and_lose_rank_0() {
  const auto world = World::join(at::kCPU);
  world->gather().broadcast(torch::ones({1}), 1);
  if (world->rank() == 0) _exit(kEndedEarly);
  return world;
}

ZERO_RANK_BODY(all_gathers_without_rank_0) {
  const auto world = join_and_lose_rank_0();
  world->gather().all_gather(torch::zeros({8L * world->world_size()}), torch::zeros({8}));
}

ZERO_RANK_BODY(reduces_without_rank_0) {
  const auto world = join_and_lose_rank_0();
  world->reduce().reduce_scatter(torch::zeros({8}), torch::zeros({8L * world->world_size()}));
}

ZERO_RANK_BODY(agrees_without_rank_0) {
  const auto world = join_and_lose_rank_0();
  world->control().agree("the flags", "same");
}

ZERO_RANK_BODY(joins) { World::join(at::kCPU); }

void expect_others_to_fail(const std::string& body, int ranks, const std::string& call) {
  // Short, so that a hang shows as a failure of the ranks and not of the test's clock.
  const auto results = zero::testing::run_ranks(ranks, body, {{{"ZERO_TIMEOUT_SECONDS", "20"}}});
  EXPECT_EQ(results[0].exit_code, kEndedEarly) << results[0].output;
  for (int rank = 1; rank < ranks; ++rank) {
    const auto& result = results[rank];
    EXPECT_FALSE(result.stopped) << result.output;
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.output, AllOf(HasSubstr("zero: " + call),
                                     HasSubstr("failed on rank " + std::to_string(rank) + " of " +
                                               std::to_string(ranks)),
                                     HasSubstr("Another rank has probably ended")));
  }
}

TEST(LostRank, FailsAnAllGather) {
  expect_others_to_fail("all_gathers_without_rank_0", 2, "all_gather of 16 Float");
}

TEST(LostRank, FailsAReduction) {
  expect_others_to_fail("reduces_without_rank_0", 2, "reduce_scatter of 16 Float");
}

TEST(LostRank, FailsAnAgreement) {
  expect_others_to_fail("agrees_without_rank_0", 2, "all_gather of 512 Byte");
}

TEST(LostRank, FailsAllOthers) { expect_others_to_fail("all_gathers_without_rank_0", 4, ""); }

TEST(LostRank, ThatNeverCameIsReportedWithTheMeetingPlace) {
  // One process that was told of two.
  const auto results =
      zero::testing::run_ranks(1, "joins", {{{"WORLD_SIZE", "2"}, {"ZERO_TIMEOUT_SECONDS", "2"}}});
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_THAT(results[0].output,
              AllOf(HasSubstr("rank 0 of 2"), HasSubstr("could not join"), HasSubstr("127.0.0.1:"),
                    HasSubstr("timeout 2 s"), HasSubstr("Check that all 2 ranks were started")));
}

}  // namespace
