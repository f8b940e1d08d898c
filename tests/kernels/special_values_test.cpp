// SPDX-License-Identifier: Apache-2.0
// Denormals, infinities and NaNs: the same in every kernel, whatever floating-point mode the caller
// is in.
#include <cfenv>

#include "plugin/optimizer/kernels/norm.h"
#include "tests/kernels/special_shard.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace zero::kernels::testing {
namespace {

void run(Isa isa, Shard& shard, const RuleCase& rule) {
  ThreadPool pool(1);
  for (int64_t step = 1; step <= 3; ++step) {
    const auto length = static_cast<int64_t>(shard.gradient.size());
    const Segment all{0, length, rule.scalars(step), rule.rule};
    update_cpu(isa, pool, shard.buffers(), {&all, 1}, 1.0f);
  }
}

class SpecialValues : public ::testing::TestWithParam<RuleCase> {};

TEST_P(SpecialValues, AreTheSameInEveryKernel) {
  for (Form form : {Form::kMaster, Form::kSplit}) {
    Shard expected = special_shard(form);
    run(Isa::kPortable, expected, GetParam());
    for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
      if (!supported(isa)) continue;
      Shard actual = special_shard(form);
      run(isa, actual, GetParam());
      expect_same_state(expected, actual);
    }
  }
}

TEST_P(SpecialValues, ANanGradientReachesTheWeightAndTheMaximum) {
  ThreadPool pool(1);
  Shard shard(33, Form::kSplit, 1);
  shard.gradient[20] = NAN;
  const Segment all{0, 33, GetParam().scalars(1), GetParam().rule};
  update_cpu(best_isa(), pool, shard.buffers(), {&all, 1}, 1.0f);
  for (size_t i = 0; i < 33; ++i) ASSERT_EQ(std::isnan(shard.weights()[i]), i == 20) << i;
  EXPECT_EQ(std::isnan(shard.moment3[20]), GetParam().amsgrad || GetParam().centered);
  EXPECT_EQ(shard.high[20], 0x7FC0);
}

INSTANTIATE_TEST_SUITE_P(Rules, SpecialValues, ::testing::ValuesIn(all_rules()), rule_name);

TEST(FloatMode, RoundingModeOfTheCallerIsIgnoredAndKept) {
  const RuleCase rule = all_rules().front();
  const Segment all{0, 1000, rule.scalars(1), rule.rule};
  Shard expected(1000, Form::kMaster, 2), actual(1000, Form::kMaster, 2);
  ThreadPool pool(1);
  update_cpu(best_isa(), pool, expected.buffers(), {&all, 1}, 0.3f);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  update_cpu(best_isa(), pool, actual.buffers(), {&all, 1}, 0.3f);
  const int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(mode, FE_UPWARD);
  expect_same_state(expected, actual);
}

#ifdef __x86_64__
TEST(FloatMode, FlushToZeroOfTheCallerIsIgnoredAndKept) {
  const RuleCase rule{.name = "Sgd", .rule = Rule::kSgd};
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (!supported(isa)) continue;
    Shard expected = special_shard(Form::kMaster), actual = special_shard(Form::kMaster);
    run(isa, expected, rule);
    const unsigned saved = _mm_getcsr();
    const unsigned flushing = saved | 0x8040u;
    _mm_setcsr(flushing);
    run(isa, actual, rule);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    expect_same_state(expected, actual);
    EXPECT_EQ(after & 0x8040u, 0x8040u);
  }
}

TEST(FloatMode, DenormalsCountInTheNormOfACallerThatFlushesThem) {
  const std::vector<float> values(10'000, 1e-40f);
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040u);
  ThreadPool pool(2);  // its worker inherits the mode
  const double sum = sum_of_squares_cpu(pool, values.data(), 10'000);
  _mm_setcsr(saved);
  EXPECT_NEAR(sum, 1e-76, 1e-80);
}
#endif

}  // namespace
}  // namespace zero::kernels::testing
