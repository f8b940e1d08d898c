// SPDX-License-Identifier: Apache-2.0
// The sum of squares depends on the values and their number alone; the clip coefficient is
// LibTorch's.
#include "plugin/optimizer/kernels/norm.h"

#include "tests/kernels/shard.h"

namespace zero::kernels::testing {
namespace {

constexpr int64_t kLengths[] = {0, 1, 255, 256, 257, 8191, 8192, 8193, 70'000, 1'000'003};

TEST(SumOfSquares, IsTheSameForEveryInstructionSetAndNumberOfThreads) {
  for (int64_t length : kLengths) {
    const auto values = random_floats(length, 17, 1e3f);
    ThreadPool one(1);
    const double expected = sum_of_squares_cpu(one, values.data(), length, Isa::kPortable);
    for (int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
        if (!supported(isa)) continue;
        EXPECT_EQ(sum_of_squares_cpu(pool, values.data(), length, isa), expected) << length;
      }
    }
  }
}

TEST(SumOfSquares, IsTheSumOfSquares) {
  ThreadPool pool(2);
  for (int64_t length : kLengths) {
    const auto values = random_floats(length, 19);
    long double expected = 0;
    for (float value : values) expected += static_cast<long double>(value) * value;
    const double actual = sum_of_squares_cpu(pool, values.data(), length);
    EXPECT_NEAR(actual, static_cast<double>(expected), 1e-13 * static_cast<double>(expected));
  }
}

TEST(SumOfSquares, DoesNotOverflowAndShowsWhatIsNotFinite) {
  ThreadPool pool(2);
  std::vector<float> values(20'000, 3e38f);
  EXPECT_TRUE(std::isfinite(sum_of_squares_cpu(pool, values.data(), 20'000)));
  values[19'999] = -INFINITY;
  EXPECT_EQ(sum_of_squares_cpu(pool, values.data(), 20'000), INFINITY);
  values[3] = NAN;
  EXPECT_TRUE(std::isnan(sum_of_squares_cpu(pool, values.data(), 20'000)));
}

TEST(ClipCoefficient, ScalesDownToTheMaximumAndNeverUp) {
  EXPECT_EQ(clip_coefficient(10.0, 1.0), static_cast<float>(1.0 / (10.0 + 1e-6)));
  EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0f);
  EXPECT_EQ(clip_coefficient(0.0, 1.0), 1.0f);
  EXPECT_EQ(clip_coefficient(INFINITY, 1.0), 0.0f);
  EXPECT_TRUE(std::isnan(clip_coefficient(NAN, 1.0)));
}

}  // namespace
}  // namespace zero::kernels::testing
