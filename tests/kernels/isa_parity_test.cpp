// SPDX-License-Identifier: Apache-2.0
// Every instruction set, number of threads and cut into segments gives the portable kernel's bits.
#include "tests/kernels/shard.h"

namespace zero::kernels::testing {
namespace {

class IsaParity : public ::testing::TestWithParam<RuleCase> {};

void expect_portable_bits(Isa isa, const RuleCase& rule, Form form) {
  if (!supported(isa)) GTEST_SKIP() << "this processor does not have it";
  ThreadPool one(1), three(3);
  Shard expected(kShardLength, form, 7), actual(kShardLength, form, 7);
  ten_steps(Isa::kPortable, one, expected, rule);
  ten_steps(isa, three, actual, rule);
  expect_same_state(expected, actual);
}

TEST_P(IsaParity, Avx2OnMaster) { expect_portable_bits(Isa::kAvx2, GetParam(), Form::kMaster); }
TEST_P(IsaParity, Avx2OnSplit) { expect_portable_bits(Isa::kAvx2, GetParam(), Form::kSplit); }
TEST_P(IsaParity, Avx512OnMaster) { expect_portable_bits(Isa::kAvx512, GetParam(), Form::kMaster); }
TEST_P(IsaParity, Avx512OnSplit) { expect_portable_bits(Isa::kAvx512, GetParam(), Form::kSplit); }

TEST_P(IsaParity, OneSegmentOrManyGiveTheSameBits) {
  ThreadPool pool(2);
  const int64_t length = 1003;
  Shard whole(length, Form::kMaster, 3), pieces(length, Form::kMaster, 3);
  const Scalars scalars = GetParam().scalars(1);
  std::vector<Segment> segments;
  for (int64_t begin = 0; begin < length; begin += 59) {
    segments.push_back({begin, std::min<int64_t>(59, length - begin), scalars, GetParam().rule});
  }
  const Segment all{0, length, scalars, GetParam().rule};
  update_cpu(best_isa(), pool, whole.buffers(), {&all, 1}, 1.0f);
  update_cpu(best_isa(), pool, pieces.buffers(), segments, 1.0f);
  expect_same_state(whole, pieces);
}

INSTANTIATE_TEST_SUITE_P(Rules, IsaParity, ::testing::ValuesIn(all_rules()), rule_name);

TEST(Isa, TheBestIsSupportedAndThePortableAlways) {
  EXPECT_TRUE(supported(best_isa()));
  EXPECT_TRUE(supported(Isa::kPortable));
}

}  // namespace
}  // namespace zero::kernels::testing
