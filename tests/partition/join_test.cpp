// SPDX-License-Identifier: Apache-2.0
// Joining: one world per process and device, clear refusals, and a process that ends with code 0
// afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "plugin/partition/world.h"
#include "tests/support/ranks.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using zero::World;

ZERO_RANK_BODY(joining_twice_gives_the_same_world) {
  const auto world = World::join(at::kCPU);
  EXPECT_EQ(World::join(at::kCPU), world);
  EXPECT_EQ(std::to_string(world->rank()), std::getenv("RANK"));
  EXPECT_EQ(std::to_string(world->world_size()), std::getenv("WORLD_SIZE"));
  EXPECT_EQ(std::to_string(world->local_rank()), std::getenv("LOCAL_RANK"));
  EXPECT_EQ(world->device(), at::Device(at::kCPU));
  EXPECT_NE(&world->gather(), &world->reduce());
}

ZERO_RANK_BODY(join_and_end) { World::join(at::kCPU); }

// A world that outlives main, as one held by a global strategy does.
std::shared_ptr<World> held_by_a_global;
ZERO_RANK_BODY(a_global_holds_the_world) {
  held_by_a_global = World::join(at::kCPU);
  held_by_a_global->control().barrier("held");
}

ZERO_RANK_BODY(ranks_leave_at_different_times) {
  const auto world = World::join(at::kCPU);
  world->control().barrier("start");
  // Rank 0, which holds the meeting place, may leave before the others.
  if (world->rank() == 0) return;
  torch::randn({512, 512}).mm(torch::randn({512, 512}));
}

ZERO_RANK_BODY(collectives_of_two_communicators_mix) {
  const auto world = World::join(at::kCPU);
  const int64_t ranks = world->world_size();
  for (int i = 0; i < 50; ++i) {
    auto whole = torch::zeros({ranks * 4});
    world->gather().all_gather(whole, torch::full({4}, static_cast<float>(i)));
    auto part = torch::zeros({4});
    world->reduce().reduce_scatter(part, whole);
    ASSERT_TRUE(torch::equal(part, torch::full({4}, static_cast<float>(i * ranks))));
    ASSERT_EQ(world->control().sum(1.0), static_cast<double>(ranks));
  }
}

TEST(Join, OneProcessNeedsNoVariables) {
  const auto world = World::join(at::kCPU);
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->world_size(), 1);
  const auto in = torch::arange(4.0f);
  const auto out = torch::zeros({4});
  world->gather().all_gather(out, in);
  EXPECT_TRUE(torch::equal(out, in));
}

TEST(Join, TwiceGivesTheSameWorld) {
  zero::testing::on_ranks({1, 2}, "joining_twice_gives_the_same_world");
}

TEST(Join, ProcessesEndWithCodeZero) {
  for (const char* body :
       {"join_and_end", "a_global_holds_the_world", "ranks_leave_at_different_times"}) {
    zero::testing::on_ranks({2, 3}, body);
  }
}

ZERO_RANK_BODY(a_missing_device_is_everyones_error) {
  std::string text = "nothing was thrown";
  try {
    World::join(at::kCUDA);
  } catch (const c10::Error& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("ranks"));
  for (const auto& theirs : World::join(at::kCPU)->control().all_gather_text(text)) {
    EXPECT_EQ(theirs, text);
  }
}

TEST(Join, AMissingDeviceIsEveryonesError) {
  zero::testing::on_ranks({2}, "a_missing_device_is_everyones_error",
                          {{{"CUDA_VISIBLE_DEVICES", ""}}});
}

TEST(Join, CommunicatorsDoNotMixTheirData) {
  zero::testing::on_ranks({3}, "collectives_of_two_communicators_mix");
}

TEST(Join, MissingVariableIsNamed) {
  const auto results = zero::testing::run_ranks(1, "join_and_end", {{{"RANK", ""}}});
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_THAT(results[0].output, HasSubstr("RANK is not set"));
}

TEST(Join, WrongTimeoutIsNamed) {
  const auto results =
      zero::testing::run_ranks(1, "join_and_end", {{{"ZERO_TIMEOUT_SECONDS", "never"}}});
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_THAT(results[0].output, HasSubstr("ZERO_TIMEOUT_SECONDS is 'never'"));
}

TEST(Join, ATakenPortIsNamed) {
  c10d::TCPStoreOptions taken;
  taken.port = 0;
  taken.isServer = true;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", taken);
  const auto port = std::to_string(store->getPort());
  const auto results = zero::testing::run_ranks(
      1, "join_and_end",
      {{{"WORLD_SIZE", "2"}, {"MASTER_PORT", port}, {"ZERO_TIMEOUT_SECONDS", "5"}}});
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_THAT(results[0].output,
              AllOf(HasSubstr("127.0.0.1:" + port), HasSubstr("MASTER_PORT is free")));
}

TEST(Join, TorchrunsAgentMayHoldTheMeetingPlace) {
  c10d::TCPStoreOptions agent;
  agent.port = 0;
  agent.isServer = true;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", agent);
  for (const char* attempt : {"0", "1"}) {  // the keys of the first are still there in the second
    zero::testing::on_ranks({2}, "joining_twice_gives_the_same_world",
                            {{{"MASTER_PORT", std::to_string(store->getPort())},
                              {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                              {"TORCHELASTIC_RESTART_COUNT", attempt}}});
  }
}

}  // namespace
