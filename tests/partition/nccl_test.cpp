// SPDX-License-Identifier: Apache-2.0
// Collectives over NCCL: right values, ordered on the caller's stream, and a clean end of the
// process.
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "plugin/partition/world.h"
#include "tests/support/ranks.h"

namespace {

using zero::World;

at::TensorOptions on(const World& world, at::ScalarType dtype) {
  return at::TensorOptions(world.device()).dtype(dtype);
}

ZERO_RANK_BODY(collectives_match_arithmetic) {
  const auto world = World::join(at::kCUDA);
  const int64_t ranks = world->world_size();
  const int64_t rank = world->rank();
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kByte}) {
    for (const int64_t n : {1, 128, 4097, 1 << 20}) {
      auto whole = torch::zeros({ranks * n}, on(*world, dtype));
      auto part = whole.narrow(0, rank * n, n);
      part.fill_(rank + 1);
      world->gather().all_gather(whole, part);
      const auto want = torch::arange(1, ranks + 1, on(*world, at::kLong)).repeat_interleave(n);
      EXPECT_TRUE(torch::equal(whole, want.to(dtype))) << dtype << " " << n;
    }
  }
  auto gradient = torch::arange(ranks * 1000, on(*world, at::kFloat));
  auto shard = gradient.narrow(0, rank * 1000, 1000);
  const auto want_shard = shard * ranks;
  world->reduce().reduce_scatter(shard, gradient);
  EXPECT_TRUE(torch::equal(shard, want_shard));

  auto norm = torch::full({1}, 0.5, on(*world, at::kDouble));
  world->reduce().all_reduce(norm);
  EXPECT_EQ(norm.item<double>(), 0.5 * ranks);

  auto weight = torch::full({3, 3}, rank, on(*world, at::kBFloat16));
  world->gather().broadcast(weight, static_cast<int>(ranks) - 1);
  EXPECT_TRUE(torch::equal(weight, torch::full_like(weight, ranks - 1)));
  EXPECT_EQ(world->control().sum(1.0), static_cast<double>(ranks));
}

// Producer, collective and consumer follow each other on one side stream, without a wait of the
// host.
ZERO_RANK_BODY(work_is_ordered_on_the_current_stream) {
  const auto world = World::join(at::kCUDA);
  const int64_t ranks = world->world_size();
  const int64_t n = 1 << 22;
  const auto side = c10::cuda::getStreamFromPool(false, world->device().index());
  auto whole = torch::zeros({ranks * n}, on(*world, at::kFloat));
  auto result = torch::zeros({20}, on(*world, at::kDouble));
  c10::cuda::getCurrentCUDAStream(world->device().index()).synchronize();
  {
    const c10::cuda::CUDAStreamGuard guard(side);
    for (int64_t i = 0; i < 20; ++i) {
      auto part = whole.narrow(0, world->rank() * n, n);
      part.fill_(i);
      world->gather().all_gather(whole, part);
      result[i].copy_(whole.sum(at::kDouble));
    }
  }
  side.synchronize();
  const auto want = torch::arange(20, on(*world, at::kDouble)) * (ranks * n);
  EXPECT_TRUE(torch::equal(result, want));
}

// The last thing before the end is a collective that nobody waited for.
ZERO_RANK_BODY(process_ends_with_work_enqueued) {
  const auto world = World::join(at::kCUDA);
  auto big = torch::zeros({world->world_size() * (1L << 26)}, on(*world, at::kFloat));
  auto part = big.narrow(0, world->rank() * (1L << 26), 1L << 26);
  for (int i = 0; i < 10; ++i) world->gather().all_gather(big, part);
  world->reduce().reduce_scatter(part, big);
}

class Nccl : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const int devices = c10::cuda::device_count();
    if (devices < GetParam()) {
      GTEST_SKIP() << GetParam() << " ranks need as many GPUs; visible: " << devices;
    }
  }
};

TEST_P(Nccl, CollectivesMatchArithmetic) {
  zero::testing::on_ranks({GetParam()}, "collectives_match_arithmetic");
}

TEST_P(Nccl, WorkIsOrderedOnTheCurrentStream) {
  zero::testing::on_ranks({GetParam()}, "work_is_ordered_on_the_current_stream");
}

TEST_P(Nccl, ProcessesEndWithCodeZero) {
  zero::testing::on_ranks({GetParam()}, "process_ends_with_work_enqueued");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Nccl, ::testing::Values(1, 2));

}  // namespace
