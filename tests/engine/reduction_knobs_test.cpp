// SPDX-License-Identifier: Apache-2.0
// The flags that say how gradients and updated weights go between ranks: each has an effect that can
// be counted, and the numbers are those of the default, or differ by the rounding that was asked for.
#include <gtest/gtest.h>

#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "engine/training.h"

namespace zero::testing {
namespace {

constexpr double kBf16Half = 1.0 / 256;  // relative: half a unit in the last place of bf16

StrategyOptions at_stage(int stage) {
  StrategyOptions options;
  options.stage(stage).device(test_device_name()).page_bytes(4096);
  if (stage == 3) options.parameter_budget(12 << 10);
  return options;
}

Run run_of(const StrategyOptions& options) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  Run run;
  run.options = options;
  run.steps = 3;
  run.accumulation = 2;
  run.clip = 0.5;
  return run;
}

void expect_same_numbers(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_TRUE(same_bits(a.gradients, b.gradients));
  EXPECT_TRUE(same_bits(a.parameters, b.parameters));
}

int64_t staging(const Outcome& outcome) {
  return outcome.report.booked[static_cast<int>(MemoryClass::kStaging)].device;
}

ZERO_RANK_BODY(bucket_sizes_and_overlap) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    const Outcome plain = train(run_of(at_stage(stage)));
    EXPECT_GT(plain.report.traffic.reductions, 0);
    EXPECT_EQ(plain.report.traffic.side_reductions, plain.report.traffic.reductions)
        << "one collective a page, beside the computation";
    for (const int64_t bucket : {64, 333, 100'000}) {
      for (const bool overlap : {true, false}) {
        SCOPED_TRACE(::testing::Message() << "bucket " << bucket << ", overlap " << overlap);
        const Outcome outcome =
            train(run_of(at_stage(stage).reduce_bucket_size(bucket).overlap_comm(overlap)));
        expect_same_numbers(outcome, plain);
        EXPECT_EQ(outcome.report.traffic.side_reductions,
                  overlap ? plain.report.traffic.side_reductions : 0);
        if (bucket < 900) {  // elements: the embedding alone has 740
          EXPECT_GT(outcome.report.traffic.reductions, plain.report.traffic.reductions);
          EXPECT_LE(staging(outcome), staging(plain) + bucket * 4);
        } else {
          EXPECT_EQ(outcome.report.traffic.reductions, plain.report.traffic.reductions);
          EXPECT_EQ(staging(outcome), staging(plain)) << "never more than the model needs";
        }
        EXPECT_EQ(outcome.report.traffic.reduced_bytes, plain.report.traffic.reduced_bytes);
      }
    }
  }
}
TEST(ReduceBucketSize, CutsReductionsAndChangesNoBit) {
  on_test_ranks({2}, "bucket_sizes_and_overlap", {{}, std::chrono::seconds(300)});
}

TEST(ReduceBucketSize, OfZeroIsRefusedAndALargeOneTakesNoMemory) {
  EXPECT_THAT(error_of([] { Strategy strategy(at_stage(2).reduce_bucket_size(0)); }),
              ::testing::HasSubstr("reduce_bucket_size"));
  EXPECT_THAT(error_of([] { Strategy strategy(at_stage(2).allgather_bucket_size(0)); }),
              ::testing::HasSubstr("allgather_bucket_size"));
  const Outcome plain = train(run_of(at_stage(2)));
  const Outcome large = train(run_of(
      at_stage(2).reduce_bucket_size("5e12").allgather_bucket_size("5e12").sub_group_size("1e15")));
  expect_same_numbers(large, plain);
  EXPECT_EQ(large.report.total_booked().device, plain.report.total_booked().device);
  EXPECT_EQ(large.report.total_booked().host, plain.report.total_booked().host);
}

ZERO_RANK_BODY(all_reduce_instead) {
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    const Outcome scattered = train(run_of(at_stage(stage)));
    const Outcome whole = train(run_of(at_stage(stage).reduce_scatter(false)));
    const Outcome pieces =
        train(run_of(at_stage(stage).reduce_scatter(false).reduce_bucket_size(100)));
    expect_same_numbers(whole, scattered);
    expect_same_numbers(pieces, scattered);
    EXPECT_EQ(whole.report.traffic.reduced_bytes, 2 * scattered.report.traffic.reduced_bytes);
    EXPECT_GT(pieces.report.traffic.reductions, whole.report.traffic.reductions);
  }
}
TEST(ReduceScatter, SwitchedOffTakesAllReduceAndTwiceTheTraffic) {
  on_test_ranks({2}, "all_reduce_instead", {{}, std::chrono::seconds(200)});
}

ZERO_RANK_BODY(gathers_of_updated_weights) {
  for (const int stage : {1, 2, 3}) {
    for (const char* precision : {"fp32", "bf16"}) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ' ' << precision);
      const auto options = [&] {
        // At stage 3 some pages stay whole and are completed in the same way.
        auto result = at_stage(stage).precision(precision);
        if (stage == 3) result.persistence_threshold(500);
        return result;
      };
      const Outcome gathered = train(run_of(options()));
      const Outcome pieces = train(run_of(options().allgather_bucket_size(90)));
      const Outcome broadcasts = train(run_of(options().allgather_partitions(false)));
      EXPECT_GT(gathered.report.traffic.weight_gathers, 0);
      EXPECT_GT(pieces.report.traffic.weight_gathers, gathered.report.traffic.weight_gathers);
      EXPECT_EQ(broadcasts.report.traffic.weight_gathers,
                2 * gathered.report.traffic.weight_gathers)
          << "one from each rank";
      EXPECT_EQ(pieces.report.traffic.gathered_bytes, gathered.report.traffic.gathered_bytes);
      EXPECT_EQ(broadcasts.report.traffic.gathered_bytes, gathered.report.traffic.gathered_bytes);
      expect_same_numbers(pieces, gathered);
      expect_same_numbers(broadcasts, gathered);
    }
  }
}
TEST(AllgatherBucketSize, CutsGathersAndBroadcastsCanReplaceThem) {
  on_test_ranks({2}, "gathers_of_updated_weights", {{}, std::chrono::seconds(200)});
}

// A model whose gradient is its input, so that what arrives is known exactly.
constexpr int64_t kNumel = 16384;
struct EchoImpl : torch::nn::Module {
  EchoImpl() { weight = register_parameter("weight", torch::zeros({kNumel})); }
  at::Tensor loss(const at::Tensor& x) { return (weight * x).sum(); }
  at::Tensor weight;
};
TORCH_MODULE(Echo);

at::Tensor input_of(int rank) {
  torch::manual_seed(100 + rank);
  return torch::randn({kNumel});
}

struct Echoed {
  at::Tensor gradient;  // what the engine made of all ranks' inputs
  StepReport step;
  TrafficCounters traffic;
};

Echoed echo(const StrategyOptions& options, const std::function<at::Tensor(int)>& input) {
  Echo model;
  torch::optim::SGD optimizer(model->parameters(), 1e-3);
  Strategy strategy(options);
  strategy.setup(*model, optimizer);
  strategy.backward(model->loss(input(strategy.rank()).to(strategy.device())));
  Echoed echoed;
  echoed.gradient = strategy.gradient(model->weight).cpu();
  echoed.step = strategy.step();
  echoed.traffic = strategy.memory_report().traffic;
  return echoed;
}

ZERO_RANK_BODY(wire_types) {
  const int ranks = std::atoi(std::getenv("WORLD_SIZE"));
  const auto sum_of = [&](at::ScalarType wire) {
    at::Tensor sum = torch::zeros({kNumel});
    for (int rank = 0; rank < ranks; ++rank) sum += input_of(rank).to(wire).to(at::kFloat);
    return sum;
  };
  for (int stage = 0; stage <= 3; ++stage) {
    for (const bool scatter : {true, false}) {
      if (!scatter && stage == 0) continue;
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", scatter " << scatter);
      const auto options = [&] {
        auto result = at_stage(stage).reduce_bucket_size(10'000);  // less than the parameter
        if (stage > 0) result.reduce_scatter(scatter);
        return stage == 3 ? result.parameter_budget(1 << 20) : result;
      };
      const Echoed fp32 = echo(options(), input_of);
      EXPECT_LT((fp32.gradient - sum_of(at::kFloat) / ranks).abs().max().item<float>(), 1e-6);
      for (const auto& [flag, wire] :
           {std::pair(NumberType::kBf16, at::kBFloat16), std::pair(NumberType::kFp16, at::kHalf)}) {
        const Echoed narrow = echo(options().communication_data_type(flag), input_of);
        at::Tensor expected = sum_of(wire) * (1.0 / ranks);
        // An all-reduce sends the mean in the same type, too.
        if (stage == 0 || !scatter) expected = expected.to(wire).to(at::kFloat);
        EXPECT_TRUE(at::equal(narrow.gradient, expected)) << wire;
        EXPECT_FALSE(at::equal(narrow.gradient, fp32.gradient)) << wire;
        EXPECT_EQ(narrow.gradient.scalar_type(), at::kFloat);
        EXPECT_NEAR(static_cast<double>(narrow.traffic.reduced_bytes) / fp32.traffic.reduced_bytes,
                    0.5, 0.001);
      }
    }
  }
}
TEST(CommunicationDataType, IsWhatGoesOverTheWireAndSumsAreInFp32) {
  on_test_ranks({2, 3}, "wire_types", {{}, std::chrono::seconds(200)});
}

ZERO_RANK_BODY(training_over_a_narrow_wire) {
  for (const int stage : {0, 1, 2, 3}) {
    const Outcome fp32 = train(run_of(at_stage(stage)));
    const Outcome bf16 =
        train(run_of(at_stage(stage).communication_data_type("bf16").reduce_bucket_size(200)));
    EXPECT_LT(distance(bf16.gradients, fp32.gradients), kBf16Half);
    EXPECT_GT(distance(bf16.gradients, fp32.gradients), 0);
    EXPECT_NEAR(bf16.losses.back(), fp32.losses.back(), 1e-2);
    expect_same_numbers(
        bf16, train(run_of(at_stage(stage).communication_data_type("bf16").overlap_comm(false))));
  }
}
TEST(CommunicationDataType, OfBf16Trains) {
  on_test_ranks({2}, "training_over_a_narrow_wire", {{}, std::chrono::seconds(200)});
}

// 98304 is too large for fp16, its half and its quarter are not.
at::Tensor large_input(int) { return torch::full({kNumel}, 98304.0f); }

ZERO_RANK_BODY(order_of_division) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    const auto options = [&] {
      auto result = at_stage(stage).communication_data_type("fp16").gradient_clipping(1e12);
      return stage == 3 ? result.parameter_budget(1 << 20) : result;
    };
    const Echoed after = echo(options(), large_input);
    EXPECT_FALSE(after.step.applied) << "it overflows on the wire, and is not applied";
    // At stage 0 the mean itself travels.
    const float mean = stage == 0 ? std::numeric_limits<float>::infinity() : 98304.0f;
    for (const auto& scaled :
         {options().prescale_gradients(true), options().gradient_predivide_factor(4)}) {
      const Echoed before = echo(scaled, large_input);
      EXPECT_EQ(before.step.applied, stage > 0);
      EXPECT_EQ(before.gradient.max().item<float>(), mean);
    }
  }
  // In fp32 the order changes rounding at most; by powers of two, nothing.
  const Echoed plain = echo(at_stage(2), input_of);
  EXPECT_TRUE(
      at::equal(echo(at_stage(2).prescale_gradients(true), input_of).gradient, plain.gradient));
  EXPECT_TRUE(
      at::equal(echo(at_stage(2).gradient_predivide_factor(2), input_of).gradient, plain.gradient));
  const Echoed third = echo(at_stage(2).gradient_predivide_factor(3), input_of);
  EXPECT_FALSE(at::equal(third.gradient, plain.gradient));
  EXPECT_LT((third.gradient - plain.gradient).abs().max().item<float>(), 1e-6);
  EXPECT_THAT(error_of([] {
                echo(at_stage(2).prescale_gradients(true).gradient_predivide_factor(2), input_of);
              }),
              ::testing::HasSubstr("Keep one of them"));
}
TEST(PrescaleGradients, DividesBeforeTheWire) { on_test_ranks({2}, "order_of_division"); }

}  // namespace
}  // namespace zero::testing
