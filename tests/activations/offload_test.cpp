// SPDX-License-Identifier: Apache-2.0
// The activation flags move bytes and change no bit.
#include <gmock/gmock.h>

#include "activations/under_strategy.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kBlocks = 4;
constexpr int64_t kRows = 32;
constexpr int64_t kInputBytes = kRows * kWidth * 4;

TEST(ActivationOffload, EachFlagAndAllTogetherGiveTheBitsOfNone) {
  for (const int stage : {0, 3}) {
    const auto base = [stage] { return flags(stage); };
    const Trained expected = train_stack(base(), kBlocks, kRows, Regions::kNone);
    const auto expect_same = [&](StrategyOptions options, Regions regions, const char* what) {
      SCOPED_TRACE(std::string(what).append(" at stage ").append(std::to_string(stage)));
      const Trained got = train_stack(std::move(options), kBlocks, kRows, regions);
      EXPECT_EQ(difference(got.gradients, expected.gradients), "");
      EXPECT_EQ(got.losses, expected.losses);
    };
    expect_same(base(), Regions::kBlocks, "regions alone");
    expect_same(base(), Regions::kNested, "nested regions alone");
    expect_same(moving(stage), Regions::kNone, "saved activations on the host");
    expect_same(moving(stage), Regions::kBlocks, "arguments on the host");
    expect_same(moving(stage), Regions::kNested, "arguments of nested regions on the host");
    expect_same(moving(stage).activation_offload_ratio(0.5), Regions::kBlocks, "half of them");
    expect_same(moving(stage).activation_offload_ratio(0.5), Regions::kNone,
                "half of what is saved");
    expect_same(moving(stage).contiguous_memory_optimization(true).number_checkpoints(kBlocks),
                Regions::kBlocks, "one host buffer");
    expect_same(base()
                    .activation_offload_threshold(0)
                    .contiguous_memory_optimization(true)
                    .number_checkpoints(kBlocks),
                Regions::kBlocks, "one device buffer");
    expect_same(moving(stage)
                    .partition_activations(true)
                    .contiguous_memory_optimization(true)
                    .number_checkpoints(kBlocks)
                    .synchronize_checkpoint_boundary(true)
                    .profile_activations(true),
                Regions::kNested, "all");
  }
}

TEST(ActivationOffload, AccumulationAndFrozenBlocksAreThePlainOnes) {
  const auto train = [](StrategyOptions options, Regions regions) {
    return train_stack(std::move(options), kBlocks, kRows, regions,
                       {.micro_batches = 3, .frozen = 1});
  };
  const Trained expected = train(flags(3), Regions::kNone);
  for (const auto regions : {Regions::kNone, Regions::kBlocks}) {
    EXPECT_EQ(difference(train(moving(3), regions).gradients, expected.gradients), "");
  }
}

// G051
TEST(ActivationOffload, ArgumentsOfAllRegionsAreOnTheHostAfterForward) {
  constexpr int kMany = 24;
  Session session(moving(3), kMany);
  const at::Tensor loss = session.forward(kRows, Regions::kBlocks);
  const ActivationReport report = session.strategy.activation_report();
  EXPECT_EQ(report.regions, kMany);
  EXPECT_EQ(report.tensors_moved, kMany);
  EXPECT_EQ(report.bytes_moved, kMany * kInputBytes);
  const auto activations = [&] {
    return session.strategy.memory_report().booked[static_cast<int>(MemoryClass::kActivations)];
  };
  EXPECT_EQ(activations().host, kMany * kInputBytes);
  EXPECT_LE(activations().device, kInputBytes) << "only what is on its way";
  session.strategy.backward(loss);
  EXPECT_GE(session.strategy.activation_report().bytes_returned, (kMany - 1) * kInputBytes);
  EXPECT_EQ(activations().device, 0);
}

TEST(ActivationOffload, AModelWithoutRegionsMovesWhatOperatorsSave) {
  Session session(moving(3), kBlocks);
  session.step(kRows, Regions::kNone);
  const ActivationReport report = session.strategy.activation_report();
  EXPECT_EQ(report.regions, 0);
  // A block saves at least its input, two activations of twice the width, and dropout's mask.
  EXPECT_GE(report.bytes_moved, kBlocks * 5 * kInputBytes);
  EXPECT_LE(report.bytes_returned, report.bytes_moved);
  EXPECT_GT(report.tensors_kept, 0) << "weights stay";
}

TEST(ActivationOffload, HalfTheRatioMovesHalfTheBytes) {
  Session session(moving(0).activation_offload_ratio(0.5), kBlocks);
  session.step(kRows, Regions::kBlocks);
  const ActivationReport report = session.strategy.activation_report();
  EXPECT_EQ(report.bytes_moved, kBlocks / 2 * kInputBytes);
  EXPECT_EQ(report.tensors_kept, kBlocks / 2);
}

TEST(ActivationOffload, ASteadyStepAllocatesNothing) {
  for (const auto regions : {Regions::kBlocks, Regions::kNone}) {
    Session session(moving(3), kBlocks);
    session.step(kRows, regions);
    session.step(kRows, regions);
    const int64_t after_two = session.strategy.activation_report().blocks_mapped;
    for (int step = 0; step < 4; ++step) session.step(kRows, regions);
    EXPECT_EQ(session.strategy.activation_report().blocks_mapped, after_two);
    EXPECT_GT(after_two, 0);
  }
}

// G049
TEST(ActivationOffload, TwoLengthsInTurnFindRoomInOneBuffer) {
  Session session(
      moving(3).partition_activations(true).contiguous_memory_optimization(true).number_checkpoints(
          kBlocks),
      kBlocks);
  const auto mapped = [&] { return session.strategy.activation_report().blocks_mapped; };
  session.step(kRows, Regions::kBlocks);
  EXPECT_EQ(mapped(), 1) << "one buffer for all";
  session.step(2 * kRows, Regions::kBlocks);
  const int64_t for_both = mapped();
  const auto activations =
      session.strategy.memory_report().booked[static_cast<int>(MemoryClass::kActivations)];
  for (const int64_t rows : {kRows, 2 * kRows, kRows, 2 * kRows}) {
    session.step(rows, Regions::kBlocks);
  }
  EXPECT_EQ(mapped(), for_both);
  EXPECT_EQ(
      session.strategy.memory_report().booked[static_cast<int>(MemoryClass::kActivations)].host,
      activations.host);
}

// G057
TEST(ActivationOffload, ExpandedTensorsAndViewsKeepStridesAndTakeNoMoreThanTheirStorage) {
  Session session(moving(0), 1);
  const at::Device device = session.strategy.device();
  const at::Tensor row = torch::rand({1, 1000}, device);
  const at::Tensor base = torch::rand({64, 128}, device);
  std::vector<std::vector<int64_t>> strides;
  const auto function = [&](const at::Tensor& x, const at::Tensor& wide, const at::Tensor& left,
                            const at::Tensor& turned, const at::Tensor& ids,
                            const at::Tensor& mask) {
    for (const auto& tensor : {wide, left, turned}) strides.push_back(tensor.strides().vec());
    TORCH_CHECK(ids.scalar_type() == at::kLong && mask.scalar_type() == at::kBool);
    const at::Tensor scale = wide.sum() + (left * turned.t()).sum() +
                             at::masked_select(base.index_select(0, ids), mask).sum();
    return (session.stack->blocks[0](x) * scale).tanh();
  };
  const at::Tensor ids = torch::arange(63, -1, -1, at::TensorOptions(at::kLong).device(device));
  const at::Tensor mask = base > 0.5;
  const auto forward = [&](auto call) {
    torch::manual_seed(4);
    return call(random_input(kRows).to(device), row.expand({4, 1000}), base.narrow(1, 0, 64),
                base.narrow(1, 64, 64).t(), ids, mask)
        .sum();
  };
  session.strategy.backward(forward(function));
  const auto expected = session.gradients();
  session.strategy.zero_grad();
  strides.clear();
  const ActivationReport before = session.strategy.activation_report();
  const at::Tensor loss =
      forward([&](auto... arguments) { return checkpoint(function, arguments...); });
  const ActivationReport report = session.strategy.activation_report();
  EXPECT_EQ(report.tensors_moved - before.tensors_moved, 6);
  EXPECT_EQ(report.bytes_moved - before.bytes_moved,
            kInputBytes + 1000 * 4 + 64 * 128 * 4 + 64 * 8 + 64 * 128);
  session.strategy.backward(loss);
  EXPECT_EQ(difference(session.gradients(), expected), "");
  ASSERT_EQ(strides.size(), 6U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(strides[i], strides[i + 3]) << i;
}

struct SavesOnTheHost : torch::autograd::Function<SavesOnTheHost> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& table) {
    context->save_for_backward({x, table});
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    TORCH_CHECK(saved[1].device().is_cpu(), "the table has left the host");
    return {gradients[0] * saved[1].sum().item<double>(), at::Tensor()};
  }
};

// G056
TEST(ActivationOffload, WhatWasOnTheHostStaysThere) {
  for (const bool region : {false, true}) {
    Session session(moving(0), 1);
    const at::Tensor table = torch::ones({64, 64});
    const auto function = [&](const at::Tensor& x, const at::Tensor& rows) {
      return session.stack->blocks[0](SavesOnTheHost::apply(x, rows));
    };
    const at::Tensor x = random_input(kRows).to(session.strategy.device()).requires_grad_();
    const at::Tensor y = region ? checkpoint(function, x, table) : function(x, table);
    session.strategy.backward(y.sum());
    EXPECT_TRUE(x.grad().defined());
  }
}

TEST(ActivationOffload, RetainedGraphsBringTheirTensorsBackAgain) {
  for (const auto regions : {Regions::kBlocks, Regions::kNone}) {
    Session session(moving(3), kBlocks), plain(flags(3), kBlocks);
    const at::Tensor loss = session.forward(kRows, regions);
    const at::Tensor expected = plain.forward(kRows, Regions::kNone);
    for (const at::Tensor& one : {loss, expected}) {
      one.backward({}, /*retain_graph=*/true);
      one.backward();
    }
    EXPECT_EQ(difference(session.gradients(), plain.gradients()), "");
  }
}

TEST(ActivationOffload, AGraphMayOutliveItsStrategy) {
  const auto function = [](const at::Tensor& h) { return h.tanh().square(); };
  at::Tensor x = random_input(kRows), y;
  {
    Session session(moving(0), 1);
    x = x.to(session.strategy.device()).requires_grad_();
    y = checkpoint(function, x * 3);
  }
  y.sum().backward();
  const at::Tensor got = x.grad().clone();
  x.mutable_grad().reset();
  function(x * 3).sum().backward();
  EXPECT_TRUE(at::equal(got, x.grad()));
}

TEST(ActivationOffload, ASavedTensorChangedInPlaceIsRefused) {
  Session session(moving(0), 1);
  const at::Tensor x = random_input(kRows).to(session.strategy.device()).requires_grad_();
  const at::Tensor h = x * 2;
  const at::Tensor y = h.tanh() + h.square();
  h.add_(1);
  EXPECT_THAT(error_of([&] { y.sum().backward(); }), HasSubstr("changed in place"));
}

TEST(ActivationFlags, WithoutEffectTheyEndTheFirstStep) {
  const auto first_step = [](StrategyOptions options, Regions regions) {
    Session session(std::move(options), 1);
    return error_of([&] { session.step(kRows, regions); });
  };
  EXPECT_THAT(first_step(moving(0).activation_offload_threshold("1GiB"), Regions::kNone),
              AllOf(HasSubstr("cpu_checkpointing = true (code)"), HasSubstr("no zero::checkpoint"),
                    HasSubstr("activation_offload_threshold is 1073741824")));
  EXPECT_THAT(first_step(moving(0).activation_offload_threshold("1GiB"), Regions::kBlocks),
              AllOf(HasSubstr("none of the regions' arguments was moved"),
                    HasSubstr("as arguments, not by capture")));
  EXPECT_THAT(first_step(flags(0).profile_activations(true), Regions::kNone),
              AllOf(HasSubstr("profile_activations = true (code)"), HasSubstr("and none has run")));
  EXPECT_THAT(first_step(moving(0).contiguous_memory_optimization(true).number_checkpoints(4),
                         Regions::kNone),
              HasSubstr("contiguous_memory_optimization = true (code)"));
  EXPECT_THAT(first_step(flags(0).number_checkpoints(4), Regions::kBlocks),
              HasSubstr("number_checkpoints"));
  EXPECT_EQ(first_step(moving(0), Regions::kNone), "");
}

TEST(ActivationFlags, OneStrategyAtATimeHasThem) {
  Session first(moving(0), 1);
  EXPECT_THAT(error_of([] { Session second(moving(0), 1); }),
              HasSubstr("another strategy has some already"));
  Session without(flags(0), 1);
  first.strategy.teardown();
  Session after(moving(0), 1);
  after.step(kRows, Regions::kBlocks);
}

TEST(ActivationFlags, ContiguousMemoryNeedsItsNumber) {
  EXPECT_THAT(error_of([] { Session session(moving(0).contiguous_memory_optimization(true), 1); }),
              HasSubstr("number_checkpoints"));
}

TEST(ActivationReports, ProfileTellsTimesByRegion) {
  Session session(moving(0).profile_activations(true), 2);
  session.step(kRows, Regions::kBlocks);
  session.step(kRows, Regions::kBlocks);
  const ActivationReport report = session.strategy.activation_report();
  ASSERT_EQ(report.by_name.size(), 2U);
  EXPECT_EQ(report.by_name[0].name, "block 0");
  for (const RegionReport& region : report.by_name) {
    EXPECT_EQ(region.runs, 2);
    EXPECT_EQ(region.runs_again, 2);
    EXPECT_GT(region.seconds, 0.0);
    EXPECT_GT(region.seconds_again, 0.0);
  }
  EXPECT_THAT(report.table(), AllOf(HasSubstr("block 1"), HasSubstr("regions")));
}

}  // namespace
}  // namespace zero::testing
