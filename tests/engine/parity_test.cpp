// SPDX-License-Identifier: Apache-2.0
// Every stage, every offload, one and several ranks, fp32, bf16 and fp16, with and without accumulation
// and clipping: the numbers are those of LibTorch alone, and offload and kernels do not change a
// bit.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/device_ranks.h"
#include "engine/training.h"
#include "plugin/optimizer/kernels/update.h"

namespace zero::testing {
namespace {

enum class Offload { kNone, kOptimizer, kBoth };

constexpr double kOneRankTolerance = 1e-6;       // relative, fp32 parameters after 10 steps
constexpr double kSeveralRanksTolerance = 1e-5;  // sums are taken in another order
constexpr double kBf16Tolerance = 4e-3;          // half a unit in the last place of bf16, relative
constexpr double kFp16Tolerance = 5e-4;          // the same of fp16

at::ScalarType compute_type(Precision precision) {
  return precision == Precision::kFp32   ? at::kFloat
         : precision == Precision::kBf16 ? at::kBFloat16
                                         : at::kHalf;
}

StrategyOptions options_of(int stage, Offload offload, Precision precision) {
  StrategyOptions options;
  options.stage(stage).precision(precision).page_bytes(4096).device(test_device_name());
  if (offload != Offload::kNone) options.offload_optimizer(true);
  if (offload == Offload::kBoth) options.offload_parameters(true);
  if (stage == 3) options.parameter_budget(12 << 10).prefetch_pages(1);
  return options;
}

bool possible(int stage, Offload offload) {
  if (offload == Offload::kOptimizer) return stage >= 1;
  if (offload == Offload::kBoth) return stage == 3;
  return true;
}

int rank_of_process() {
  const char* rank = std::getenv("RANK");
  return rank != nullptr ? std::atoi(rank) : 0;
}

int ranks_of_process() {
  const char* size = std::getenv("WORLD_SIZE");
  return size != nullptr ? std::atoi(size) : 1;
}

class Cell {
 public:
  Cell(Precision precision, int accumulation, double clip, Rule rule, double loss_scale = 1.0)
      : precision_(precision) {
    // Bit for bit is promised for kernels that repeat themselves; CUDA's embedding backward need
    // not.
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    run_.accumulation = accumulation;
    run_.clip = clip;
    run_.rule = rule;
    run_.loss_scale = loss_scale;
    expected_ = train_plain(run_, compute_type(precision), rank_of_process(), ranks_of_process());
  }

  void check_all_stages() {
    for (const Loop loop : {Loop::kStrategy, Loop::kPlain}) {
      if (loop == Loop::kPlain && run_.loss_scale != 1.0) continue;  // refused
      for (int stage = 0; stage <= 3; ++stage) {
        Outcome first;
        for (const Offload offload : {Offload::kNone, Offload::kOptimizer, Offload::kBoth}) {
          if (!possible(stage, offload)) continue;
          SCOPED_TRACE(::testing::Message()
                       << "stage " << stage << ", offload " << static_cast<int>(offload)
                       << ", precision " << static_cast<int>(precision_) << ", loss scale "
                       << run_.loss_scale << ", accumulation " << run_.accumulation << ", clip "
                       << run_.clip << ", plain loop " << (loop == Loop::kPlain) << ", ranks "
                       << ranks_of_process());
          run_.loop = loop;
          run_.options = options_of(stage, offload, precision_);
          if (precision_ == Precision::kFp16) run_.options.loss_scale(run_.loss_scale);
          const Outcome outcome = train(run_);
          check(outcome);
          if (offload == Offload::kNone) first = outcome;
          // A plain step is LibTorch's own, whose kernels do not give the same bits on CPU and GPU.
          if (loop == Loop::kPlain && test_device().is_cuda()) continue;
          EXPECT_TRUE(same_bits(outcome.parameters, first.parameters))
              << "offload changed the parameters";
          EXPECT_EQ(outcome.losses, first.losses) << "offload changed the losses";
        }
      }
    }
  }

 private:
  void check(const Outcome& outcome) const {
    const bool one_rank = ranks_of_process() == 1;
    const bool narrow = precision_ != Precision::kFp32;
    ASSERT_EQ(outcome.losses.size(), expected_.losses.size());
    for (int micro = 0; micro < run_.accumulation; ++micro) {
      EXPECT_EQ(outcome.losses[micro], expected_.losses[micro]) << "loss of the first step";
    }
    for (size_t i = 0; i < outcome.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i], expected_.losses[i], narrow ? 2e-2 : 1e-5)
          << "micro-batch " << i;
    }
    if (one_rank) {
      EXPECT_TRUE(same_bits(outcome.gradients, expected_.gradients))
          << "gradients of the first step";
    } else {
      EXPECT_LT(distance(outcome.gradients, expected_.gradients), kSeveralRanksTolerance);
    }
    const double tolerance = precision_ == Precision::kBf16   ? kBf16Tolerance
                             : precision_ == Precision::kFp16 ? kFp16Tolerance
                             : one_rank                       ? kOneRankTolerance
                                                              : kSeveralRanksTolerance;
    EXPECT_LT(distance(outcome.parameters, expected_.parameters), tolerance);
    ASSERT_EQ(outcome.norms.size(), expected_.norms.size());
    for (size_t i = 0; i < outcome.norms.size(); ++i) {
      EXPECT_NEAR(outcome.norms[i] / expected_.norms[i], 1.0, narrow ? 2e-2 : 1e-4)
          << "norm of step " << i;
    }
  }

  Precision precision_;
  Run run_;
  Outcome expected_;
};

void check_cells(Precision precision, double loss_scale = 1.0) {
  for (const int accumulation : {1, 3}) {
    for (const double clip : {0.0, 0.5})
      Cell(precision, accumulation, clip, Rule::kAdamW, loss_scale).check_all_stages();
  }
}

ZERO_RANK_BODY(fp32_cells) { check_cells(Precision::kFp32); }
ZERO_RANK_BODY(bf16_cells) { check_cells(Precision::kBf16); }
ZERO_RANK_BODY(fp16_cells) {
  check_cells(Precision::kFp16, 128.0);
  Cell(Precision::kFp16, 2, 0.5, Rule::kAdamW).check_all_stages();  // unscaled: plain loops too
}
ZERO_RANK_BODY(other_rules) {
  Cell(Precision::kFp32, 1, 0.5, Rule::kAdam).check_all_stages();
  Cell(Precision::kFp32, 2, 0.0, Rule::kSgd).check_all_stages();
  Cell(Precision::kFp32, 1, 0.5, Rule::kAdagrad).check_all_stages();
  Cell(Precision::kFp32, 1, 0.0, Rule::kRmsprop).check_all_stages();
}

ZERO_RANK_BODY(kernels_give_the_same_bits) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    for (const Rule rule :
         {Rule::kAdamW, Rule::kAdam, Rule::kSgd, Rule::kAdagrad, Rule::kRmsprop}) {
      Run run;
      run.rule = rule;
      run.clip = 0.5;
      Outcome portable;
      for (const UpdateKernel kernel :
           {UpdateKernel::kPortable, UpdateKernel::kAvx2, UpdateKernel::kAvx512}) {
        if (kernel == UpdateKernel::kAvx2 && !kernels::supported(kernels::Isa::kAvx2)) continue;
        if (kernel == UpdateKernel::kAvx512 && !kernels::supported(kernels::Isa::kAvx512)) continue;
        for (const int threads : {1, 3}) {
          SCOPED_TRACE(::testing::Message() << "precision " << static_cast<int>(precision)
                                            << ", rule " << static_cast<int>(rule) << ", kernel "
                                            << static_cast<int>(kernel) << ", threads " << threads);
          run.options = options_of(3, Offload::kBoth, precision)
                            .update_kernel(kernel)
                            .update_threads(threads);
          if (precision == Precision::kFp16) run.options.loss_scale(256.0);
          const Outcome outcome = train(run);
          if (portable.parameters.empty()) portable = outcome;
          EXPECT_TRUE(same_bits(outcome.parameters, portable.parameters));
          EXPECT_EQ(outcome.norms, portable.norms);
        }
      }
    }
  }
}

const RankRun kLong{{}, std::chrono::seconds(300)};

TEST(Parity, Fp32OnOneRank) { on_test_ranks({1}, "fp32_cells", kLong); }
TEST(Parity, Fp32OnTwoRanks) { on_test_ranks({2}, "fp32_cells", kLong); }
TEST(Parity, Fp32OnFourRanks) { on_test_ranks({4}, "fp32_cells", kLong); }
TEST(Parity, Bf16OnOneRank) { on_test_ranks({1}, "bf16_cells", kLong); }
TEST(Parity, Bf16OnTwoRanks) { on_test_ranks({2}, "bf16_cells", kLong); }
TEST(Parity, Bf16OnFourRanks) { on_test_ranks({4}, "bf16_cells", kLong); }
TEST(Parity, Fp16OnOneRank) { on_test_ranks({1}, "fp16_cells", kLong); }
TEST(Parity, Fp16OnTwoRanks) { on_test_ranks({2}, "fp16_cells", kLong); }
TEST(Parity, Fp16OnFourRanks) { on_test_ranks({4}, "fp16_cells", kLong); }
TEST(Parity, CpuKernelsAndThreadsDoNotChangeABit) {
  on_test_ranks({1, 2}, "kernels_give_the_same_bits", kLong);
}
TEST(Parity, OtherRules) { on_test_ranks({1, 2}, "other_rules", kLong); }

}  // namespace
}  // namespace zero::testing
