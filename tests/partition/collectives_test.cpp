// SPDX-License-Identifier: Apache-2.0
// Collectives over Gloo give on every rank what the same arithmetic gives in one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "plugin/partition/world.h"
#include "tests/support/ranks.h"

namespace {

using zero::World;

// What rank r brings: values that bf16 holds exactly and that tell ranks and positions apart.
at::Tensor brings(int rank, int64_t n, at::ScalarType dtype) {
  return (torch::arange(n, torch::kFloat).remainder(64) + 64 * rank).to(dtype);
}

std::vector<int64_t> sizes() { return {1, 3, 8, 127, 1000, 65537}; }

at::Tensor everyone(int world_size, int64_t n, at::ScalarType dtype) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < world_size; ++rank) parts.push_back(brings(rank, n, dtype));
  return torch::cat(parts);
}

ZERO_RANK_BODY(all_gather_collects_parts_in_rank_order) {
  const auto world = World::join(at::kCPU);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong}) {
    for (const int64_t n : sizes()) {
      const auto want = everyone(world->world_size(), n, dtype);
      const auto mine = brings(world->rank(), n, dtype);
      auto out = torch::zeros_like(want);
      world->gather().all_gather(out, mine);
      EXPECT_TRUE(torch::equal(out, want)) << dtype << " " << n;

      auto in_place = torch::zeros_like(want);
      auto part = in_place.narrow(0, world->rank() * n, n);
      part.copy_(mine);
      world->gather().all_gather(in_place, part);
      EXPECT_TRUE(torch::equal(in_place, want)) << "in place " << dtype << " " << n;
    }
  }
}

ZERO_RANK_BODY(reduce_scatter_sums_in_rank_order) {
  const auto world = World::join(at::kCPU);
  const int ranks = world->world_size();
  for (const int64_t n : sizes()) {
    std::vector<at::Tensor> wholes;
    for (int rank = 0; rank < ranks; ++rank) {
      torch::manual_seed(100 + rank);
      wholes.push_back(torch::randn({ranks * n}));
    }
    auto sum = wholes[0].clone();
    for (int rank = 1; rank < ranks; ++rank) sum.add_(wholes[rank]);
    const auto want = sum.narrow(0, world->rank() * n, n);

    const auto in = wholes[world->rank()].clone();
    auto out = torch::zeros({n});
    world->reduce().reduce_scatter(out, in);
    EXPECT_TRUE(torch::equal(out, want)) << n;
    EXPECT_TRUE(torch::equal(in, wholes[world->rank()])) << "the input is kept";

    auto in_place = in.clone();
    auto part = in_place.narrow(0, world->rank() * n, n);
    world->reduce().reduce_scatter(part, in_place);
    EXPECT_TRUE(torch::equal(part, want)) << "in place " << n;
    part.copy_(in.narrow(0, world->rank() * n, n));
    EXPECT_TRUE(torch::equal(in_place, in)) << "the other parts are kept";
  }
}

ZERO_RANK_BODY(all_reduce_has_the_same_bits_as_reduce_scatter) {
  const auto world = World::join(at::kCPU);
  const int ranks = world->world_size();
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const int64_t n : sizes()) {
      at::Tensor want;
      for (int rank = 0; rank < ranks; ++rank) {
        torch::manual_seed(7 + rank);
        const auto theirs = torch::randn({n}, dtype);
        want = rank == 0 ? theirs.clone() : want.add_(theirs);
      }
      torch::manual_seed(7 + world->rank());
      auto t = torch::randn({n}, dtype);
      world->reduce().all_reduce(t);
      EXPECT_TRUE(torch::equal(t, want)) << dtype << " " << n;
    }
  }
  auto matrix = torch::full({3, 5}, 1.0f);
  world->reduce().all_reduce(matrix);
  EXPECT_TRUE(torch::equal(matrix, torch::full({3, 5}, static_cast<float>(ranks))));
}

ZERO_RANK_BODY(broadcast_copies_the_root) {
  const auto world = World::join(at::kCPU);
  for (int root = 0; root < world->world_size(); ++root) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kBool}) {
      auto t = brings(world->rank() == root ? 1 : 0, 35, dtype).view({5, 7});
      world->gather().broadcast(t, root);
      EXPECT_TRUE(torch::equal(t, brings(1, 35, dtype).view({5, 7}))) << dtype << " " << root;
    }
  }
}

ZERO_RANK_BODY(a_parameter_can_be_sent) {
  const auto world = World::join(at::kCPU);
  auto weight = torch::full({4, 4}, static_cast<float>(world->rank()), torch::requires_grad());
  world->gather().broadcast(weight, 0);
  EXPECT_TRUE(torch::equal(weight, torch::zeros({4, 4})));
  EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
}

ZERO_RANK_BODY(unfit_tensors_are_refused_before_anything_is_sent) {
  const auto world = World::join(at::kCPU);
  auto& link = world->gather();
  const int64_t ranks = world->world_size();
  const auto whole = torch::zeros({ranks * 4});
  EXPECT_THROW(link.all_gather(whole, torch::zeros({5})), c10::Error);
  EXPECT_THROW(link.all_gather(whole, torch::zeros({4}, at::kHalf)), c10::Error);
  EXPECT_THROW(link.all_gather(torch::zeros({4, ranks}).t(), torch::zeros({4})), c10::Error);
  EXPECT_THROW(link.reduce_scatter(torch::zeros({4}, at::kHalf), whole.to(at::kHalf)), c10::Error);
  EXPECT_THROW(link.all_reduce(torch::zeros({4}, at::kLong)), c10::Error);
  EXPECT_THROW(link.broadcast(whole, static_cast<int>(ranks)), c10::Error);
  const auto shifted = whole.narrow(0, (world->rank() * 4 + 1) % (ranks * 4 - 4), 4);
  EXPECT_THROW(link.all_gather(whole, shifted), c10::Error);
  // The link still works.
  link.all_gather(whole, torch::ones({4}));
  EXPECT_TRUE(torch::equal(whole, torch::ones({ranks * 4})));
}

TEST(Collectives, AllGatherCollectsPartsInRankOrder) {
  zero::testing::on_ranks({1, 2, 3, 4}, "all_gather_collects_parts_in_rank_order");
}

TEST(Collectives, ReduceScatterSumsInRankOrder) {
  zero::testing::on_ranks({1, 2, 3, 4}, "reduce_scatter_sums_in_rank_order");
}

TEST(Collectives, AllReduceHasTheSameBitsAsReduceScatter) {
  zero::testing::on_ranks({1, 2, 3}, "all_reduce_has_the_same_bits_as_reduce_scatter");
}

TEST(Collectives, BroadcastCopiesTheRoot) {
  zero::testing::on_ranks({1, 3}, "broadcast_copies_the_root");
}

TEST(Collectives, AParameterCanBeSent) {
  zero::testing::on_ranks({1, 2}, "a_parameter_can_be_sent");
}

TEST(Collectives, UnfitTensorsAreRefusedBeforeAnythingIsSent) {
  zero::testing::on_ranks({2}, "unfit_tensors_are_refused_before_anything_is_sent");
}

}  // namespace
