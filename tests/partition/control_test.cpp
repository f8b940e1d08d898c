// SPDX-License-Identifier: Apache-2.0
// What one rank brings, all ranks know; where ranks differ, all of them say so in the same words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>

#include "plugin/partition/world.h"
#include "tests/support/ranks.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
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

// Every rank's text, compared through the link itself: it must still work after the error.
void expect_same_everywhere(zero::Control& control, const std::string& text) {
  for (const auto& theirs : control.all_gather_text(text)) EXPECT_EQ(theirs, text);
}

ZERO_RANK_BODY(texts_of_any_length_arrive) {
  const auto world = World::join(at::kCPU);
  auto& control = world->control();
  // Around the size of the first round, and uneven between ranks.
  for (const size_t length : {0, 1, 200, 231, 232, 233, 248, 249, 5000, 1 << 20}) {
    const auto of = [&](int rank) {
      std::string text(length == 0 ? 0 : length + rank, static_cast<char>('a' + rank));
      if (!text.empty()) text.back() = '\0';
      return text;
    };
    const auto all = control.all_gather_text(of(world->rank()));
    ASSERT_EQ(all.size(), static_cast<size_t>(world->world_size()));
    for (int rank = 0; rank < world->world_size(); ++rank) EXPECT_EQ(all[rank], of(rank));
  }
}

ZERO_RANK_BODY(flags_and_numbers_are_combined) {
  const auto world = World::join(at::kCPU);
  auto& control = world->control();
  const int ranks = world->world_size();
  const int rank = world->rank();
  std::vector<uint8_t> flags(ranks + 1, 0);
  flags[rank] = 2;
  std::vector<uint8_t> want(ranks, 1);
  want.push_back(0);
  EXPECT_EQ(control.any(flags), want);
  EXPECT_TRUE(control.any({}).empty());

  double sum = 0;
  for (int r = 0; r < ranks; ++r) sum += 0.1 * (r + 1);
  EXPECT_EQ(control.sum(0.1 * (rank + 1)), sum);
  EXPECT_EQ(control.max(-1.0 - rank), -1.0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(control.max(rank == 0 ? nan : 1.0)));
  EXPECT_TRUE(std::isnan(control.max(rank == ranks - 1 ? nan : 1.0)));
  control.barrier("end of the numbers");
}

ZERO_RANK_BODY(a_disagreement_reads_the_same_everywhere) {
  const auto world = World::join(at::kCPU);
  auto& control = world->control();
  control.agree("the seed", "17");
  const std::string mine = world->rank() == 1 ? "stage: 3\nlr: 2\n" : "stage: 3\nlr: 1\n";
  const auto text = text_of<zero::RankMismatch>([&] { control.agree("the flags", mine); });
  EXPECT_THAT(text, AllOf(HasSubstr("the flags"), HasSubstr("rank 1: line 2: \"lr: 2\""),
                          HasSubstr("same program")));
  expect_same_everywhere(control, text);
}

ZERO_RANK_BODY(ranks_in_different_calls_are_named) {
  const auto world = World::join(at::kCPU);
  auto& control = world->control();
  const auto text = text_of<zero::RankMismatch>([&] {
    if (world->rank() == 0) {
      control.barrier("saving");
    } else {
      control.sum(1.0);
    }
  });
  EXPECT_THAT(text, AllOf(HasSubstr("different places"), HasSubstr("rank 0: \"barrier 'saving'\""),
                          HasSubstr("\"sum\"")));
  expect_same_everywhere(control, text);
  const auto flags =
      text_of<zero::RankMismatch>([&] { control.any(std::vector<uint8_t>(world->rank() + 1)); });
  EXPECT_THAT(flags, HasSubstr("any of 1 flags"));
}

ZERO_RANK_BODY(one_ranks_error_is_everyones) {
  const auto world = World::join(at::kCPU);
  auto& control = world->control();
  const int last = world->world_size() - 1;
  control.raise_together(std::nullopt);
  const auto raise = [&](const std::optional<std::string>& mine) {
    return text_of<c10::Error>([&] { control.raise_together(mine); });
  };
  const auto one =
      raise(world->rank() == last ? std::optional<std::string>("disk full") : std::nullopt);
  EXPECT_THAT(one, AllOf(HasSubstr("rank " + std::to_string(last)), HasSubstr("disk full")));
  expect_same_everywhere(control, one);

  const auto all = raise("rank " + std::to_string(world->rank()) + " is out of memory");
  for (int rank = 0; rank <= last; ++rank) {
    EXPECT_THAT(all, HasSubstr("rank " + std::to_string(rank) + " is out of memory"));
  }
  expect_same_everywhere(control, all);
  EXPECT_NE(raise(""), "nothing was thrown") << "an error without words";
}

TEST(Control, OneRankNeedsNobody) {
  auto& control = World::join(at::kCPU)->control();
  EXPECT_EQ(control.all_gather_text("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(control.any({0, 3}), (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(control.sum(2.5), 2.5);
  EXPECT_EQ(control.max(-2.5), -2.5);
  control.barrier("alone");
  control.agree("anything", "x");
  EXPECT_EQ(text_of<c10::Error>([&] { control.raise_together("disk full"); }), "disk full");
}

TEST(Control, TextsOfAnyLengthArrive) {
  zero::testing::on_ranks({2, 3}, "texts_of_any_length_arrive");
}

TEST(Control, FlagsAndNumbersAreCombined) {
  zero::testing::on_ranks({2, 4}, "flags_and_numbers_are_combined");
}

TEST(Control, ADisagreementReadsTheSameEverywhere) {
  zero::testing::on_ranks({2, 4}, "a_disagreement_reads_the_same_everywhere");
}

TEST(Control, RanksInDifferentCallsAreNamed) {
  zero::testing::on_ranks({2, 3}, "ranks_in_different_calls_are_named");
}

TEST(Control, OneRanksErrorIsEveryones) {
  zero::testing::on_ranks({2, 3}, "one_ranks_error_is_everyones");
}

}  // namespace
