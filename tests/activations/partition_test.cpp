// SPDX-License-Identifier: Apache-2.0
// Ranks of a model-parallel group keep a part each of what they all hold.
#include <gmock/gmock.h>

#include "activations/under_strategy.h"
#include "engine/device_ranks.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kBlocks = 4;
constexpr int64_t kRows = 33;  // does not divide
constexpr int64_t kInputBytes = kRows * kWidth * 4;

StrategyOptions partitioned(StrategyOptions options, int group) {
  return options.partition_activations(true)
      .model_parallel_size(group)
      .activation_offload_threshold(0);
}

ZERO_RANK_BODY(partitioned_gradients_are_the_plain_ones) {
  const int group = std::stoi(std::getenv("WORLD_SIZE"));
  for (const int stage : {0, 3}) {
    const Trained expected = train_stack(flags(stage), kBlocks, kRows, Regions::kNone);
    const auto expect_same = [&](const StrategyOptions& options, Regions regions) {
      const Trained got = train_stack(options, kBlocks, kRows, regions);
      EXPECT_EQ(difference(got.gradients, expected.gradients), "") << stage;
    };
    expect_same(partitioned(flags(stage), group), Regions::kBlocks);
    expect_same(partitioned(flags(stage), group), Regions::kNested);
    expect_same(partitioned(moving(stage), group), Regions::kBlocks);
    // G049
    expect_same(partitioned(moving(stage), group)
                    .contiguous_memory_optimization(true)
                    .number_checkpoints(kBlocks),
                Regions::kBlocks);
  }
}

TEST(PartitionedActivations, GradientsAreThePlainOnes) {
  on_test_ranks({2, 3}, "partitioned_gradients_are_the_plain_ones");
}

// G050
ZERO_RANK_BODY(each_rank_keeps_its_part) {
  const int group = std::stoi(std::getenv("WORLD_SIZE"));
  for (const bool to_host : {false, true}) {
    Session session(partitioned(to_host ? moving(0) : flags(0), group), kBlocks);
    const at::Tensor loss = session.forward(kRows, Regions::kBlocks);
    const auto booked =
        session.strategy.memory_report().booked[static_cast<int>(MemoryClass::kActivations)];
    const int64_t home = to_host ? booked.host : booked.device;
    const int64_t padding = kBlocks * 64;
    EXPECT_GE(home, kBlocks * kInputBytes / group);
    EXPECT_LE(home, kBlocks * kInputBytes / group + padding);
    session.strategy.backward(loss);
    session.strategy.step();
  }
}

TEST(PartitionedActivations, MemoryFallsByTheSizeOfTheGroup) {
  on_test_ranks({2, 4}, "each_rank_keeps_its_part");
}

// G046
ZERO_RANK_BODY(other_arguments_pass_through) {
  Session session(partitioned(moving(0), 2), 1);
  const at::Device device = session.strategy.device();
  const auto block = [&](const at::Tensor& x, const std::optional<at::Tensor>& none, bool negate,
                         int times, const at::Tensor& ids) {
    TORCH_CHECK(!none && ids.scalar_type() == at::kLong);
    return session.stack->blocks[0](x.index_select(0, ids)) * times * (negate ? -1 : 1);
  };
  const auto forward = [&](auto call) {
    torch::manual_seed(2);
    const at::Tensor ids =
        torch::arange(kRows, at::TensorOptions(at::kLong).device(device)).flip(0);
    return call(random_input(kRows).to(device), std::nullopt, true, 3, ids).square().mean();
  };
  session.strategy.backward(forward(block));
  const auto expected = session.gradients();
  session.strategy.zero_grad();
  const int64_t before = session.strategy.activation_report().tensors_moved;
  session.strategy.backward(
      forward([&](auto... arguments) { return checkpoint(block, arguments...); }));
  EXPECT_EQ(difference(session.gradients(), expected), "");
  EXPECT_EQ(session.strategy.activation_report().tensors_moved - before, 2);
}

TEST(PartitionedActivations, NumbersNoneAndIdsPassThrough) {
  on_test_ranks({2}, "other_arguments_pass_through");
}

ZERO_RANK_BODY(ranks_with_other_batches_are_refused) {
  Session session(partitioned(flags(0), 2), kBlocks);
  const std::string error =
      error_of([&] { session.forward(kRows, Regions::kBlocks, /*seed=*/session.strategy.rank()); });
  EXPECT_THAT(error, AllOf(HasSubstr("hold different values"), HasSubstr("same batches")));
}

TEST(PartitionedActivations, RanksWithOtherBatchesAreRefused) {
  on_test_ranks({2}, "ranks_with_other_batches_are_refused");
}

ZERO_RANK_BODY(groups_are_parts_of_the_world) {
  EXPECT_THAT(error_of([] { Session session(partitioned(flags(0), 3), 1); }),
              HasSubstr("cannot be divided into groups of 3"));
  // Two groups of two, with batches of their own.
  Session session(partitioned(moving(0), 2), kBlocks), plain(flags(0), kBlocks);
  const int64_t seed = session.strategy.rank() / 2;
  session.strategy.backward(session.forward(kRows, Regions::kBlocks, seed));
  plain.strategy.backward(plain.forward(kRows, Regions::kNone, seed));
  EXPECT_EQ(difference(session.gradients(), plain.gradients()), "");
}

TEST(PartitionedActivations, GroupsArePartsOfTheWorld) {
  on_test_ranks({4}, "groups_are_parts_of_the_world");
}

TEST(PartitionedActivations, AGroupOfOneIsToldAndTrains) {
  const c10::WarningUtils::WarnAlways also_again(true);
  ::testing::internal::CaptureStderr();
  Session session(flags(0).partition_activations(true), 1);
  session.step(kRows, Regions::kBlocks);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("model_parallel_size is 1"));
}

}  // namespace
}  // namespace zero::testing
