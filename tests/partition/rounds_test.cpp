// SPDX-License-Identifier: Apache-2.0
// Ranks that ask for different things gather them together, in one order; those that halt at
// different places are all told who is where.
#include "plugin/partition/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <set>
#include <thread>

#include "plugin/partition/world.h"
#include "tests/support/ranks.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using zero::Rounds;
using zero::World;

template <class Error>
std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Writes down what is gathered, and gathers it.
class Items final : public Rounds::Member {
 public:
  explicit Items(World& world) : world_(world), rounds_(*world.rounds()) {
    id = rounds_.enlist(*this);
  }

  void gather(int item, const Rounds::Lock&) override {
    at::Tensor all = at::zeros({world_.world_size()}, at::kInt);
    world_.gather().all_gather(all, at::full({1}, item, at::kInt));
    EXPECT_TRUE(at::equal(all, at::full({world_.world_size()}, item, at::kInt)));
    here.insert(item);
    order += std::to_string(item) + ' ';
  }
  std::string name_of(int item) const override { return "item " + std::to_string(item); }

  void need(int item) {
    const Rounds::Lock lock(rounds_.mutex());
    here.erase(item);
    rounds_.ask(id, item, lock);
    while (here.count(item) == 0) rounds_.hear(id, lock);
    rounds_.catch_up(lock);
  }
  void meet(const char* place, int item = -1) {
    const Rounds::Lock lock(rounds_.mutex());
    rounds_.meet(id, place, item, lock);
  }

  int id = 0;
  std::string order;
  std::set<int> here;

 private:
  World& world_;
  Rounds& rounds_;
};

ZERO_RANK_BODY(asks_differ) {
  const auto world = World::join(at::kCPU);
  Items items(*world);
  for (int item : {7, 8, 9}) items.need(item);
  EXPECT_EQ(items.order, "7 8 9 ") << "asked for by all: gathered once";
  items.meet("a place");
  EXPECT_FALSE(world->rounds()->diverged());
  // Rank r asks for r + 1 items, others for other ones.
  for (int i = 0; i <= world->rank(); ++i) items.need(10 * world->rank() + i);
  items.meet("another place");
  EXPECT_TRUE(world->rounds()->diverged());
  for (int rank = 0; rank < world->world_size(); ++rank) {
    for (int i = 0; i <= rank; ++i) EXPECT_EQ(items.here.count(10 * rank + i), 1u);
  }
  for (const auto& order : world->control().all_gather_text(items.order))
    EXPECT_EQ(order, items.order);
}

ZERO_RANK_BODY(places_differ) {
  const auto world = World::join(at::kCPU);
  Items items(*world);
  const auto text = text_of<zero::RankMismatch>([&] {
    if (world->rank() == 0) {
      items.meet("the end");
    } else {
      items.need(5);
      items.meet("a write to ", 3);
    }
  });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 0: \"the end\""), HasSubstr("\"a write to item 3\"")));
  items.meet("the same place");  // nothing is broken
  EXPECT_EQ(items.order, "5 ");
}

ZERO_RANK_BODY(rank_1_deserts) {
  const auto world = World::join(at::kCPU);
  Items items(*world);
  items.need(1);
  if (world->rank() == 1) {
    world->rounds()->desert(items.id);
  } else {
    EXPECT_THAT(text_of<c10::Error>([&] { items.need(2); }),
                HasSubstr("rank 1 ended its strategy"));
    EXPECT_THAT(text_of<c10::Error>([&] { items.need(3); }),
                HasSubstr("rank 1 ended its strategy"));
    world->rounds()->desert(items.id);
  }
  Items others(*world);  // all may begin anew
  others.need(4);
  others.meet("the end");
  EXPECT_EQ(others.order, "4 ");
  EXPECT_EQ(items.order, "1 ");
}

// Longer than a wait that is written on the board.
ZERO_RANK_BODY(rank_1_comes_late) {
  const auto world = World::join(at::kCPU);
  Items items(*world);
  if (world->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  items.need(1);
  world->control().barrier("late, too");
  EXPECT_EQ(items.order, "1 ");
}

TEST(Rounds, WhatSomebodyAsksForIsGatheredByAllInOneOrder) {
  zero::testing::on_ranks({2, 3, 4}, "asks_differ");
}
TEST(Rounds, DifferentPlacesAreAnErrorOnAllAndBreakNothing) {
  zero::testing::on_ranks({2, 3}, "places_differ");
}
TEST(Rounds, ADeserterIsNamedAndAllMayBeginAnew) {
  zero::testing::on_ranks({2, 3}, "rank_1_deserts");
}
TEST(Rounds, ALateRankIsWaitedFor) { zero::testing::on_ranks({2}, "rank_1_comes_late"); }

}  // namespace
