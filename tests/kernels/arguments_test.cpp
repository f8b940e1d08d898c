// SPDX-License-Identifier: Apache-2.0
// What an update cannot be done with is refused by name, before anything is written.
#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/kernels/shard.h"

namespace zero::kernels::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Arguments : public ::testing::Test {
 protected:
  void expect_refused(const Buffers& buffers, const Segment& segment, const std::string& words) {
    const auto before = shard.weights();
    EXPECT_THAT(
        [&] {
          update_cpu(best_isa(), pool, buffers, {&segment, 1}, 1.0f);
        },
        ThrowsMessage<std::invalid_argument>(HasSubstr(words)));
    EXPECT_EQ(shard.weights(), before);
  }

  ThreadPool pool{1};
  Shard shard{8, Form::kMaster, 1};
  Buffers buffers = shard.buffers();
  Segment adamw{0, 8, adam_scalars(Rule::kAdamW, 0.1, 0.9, 0.99, 1e-8, 0, true, 1), Rule::kAdamW};
  Segment sgd{0, 8, sgd_scalars(0.1, 0.9, 0, 0, false, true), Rule::kSgd};
  Segment adagrad{0, 8, adagrad_scalars(0.1, 0, 1e-8, 0, 1), Rule::kAdagrad};
  Segment rmsprop{0, 8, rmsprop_scalars(0.1, 0.9, 1e-8, 0, 0.9, true), Rule::kRmsprop};
};

TEST_F(Arguments, AMissingBufferIsNamed) {
  for (auto [member, name] :
       {std::pair{&Buffers::moment1, "moment1"}, std::pair{&Buffers::moment2, "moment2"},
        std::pair{&Buffers::moment3, "moment3"}}) {
    Buffers without = buffers;
    without.*member = nullptr;
    expect_refused(without, adamw, name);
  }
  Buffers without = buffers;
  without.gradient = nullptr;
  expect_refused(without, sgd, "gradient");
  without = buffers;
  without.moment1 = nullptr;
  expect_refused(without, sgd, "momentum");
  expect_refused(without, rmsprop, "momentum");
  without = buffers;
  without.moment2 = nullptr;
  expect_refused(without, adagrad, "moment2");
  without = buffers;
  without.moment3 = nullptr;
  expect_refused(without, rmsprop, "centered");
}

TEST_F(Arguments, TheWeightHasExactlyOneForm) {
  Buffers none = buffers;
  none.master = nullptr;
  expect_refused(none, sgd, "either as master, or as high and low");
  uint16_t high[8] = {};
  Buffers both = buffers;
  both.high = high;
  expect_refused(both, sgd, "either as master, or as high and low");
  none.high = high;
  expect_refused(none, sgd, "either as master, or as high and low");
}

TEST_F(Arguments, BuffersThatARuleDoesNotUseMayBeNull) {
  sgd.scalars = sgd_scalars(0.1, 0, 0, 0, false, true);
  const Buffers least{.master = shard.master.data(), .gradient = shard.gradient.data()};
  const float before = shard.master[0];
  update_cpu(best_isa(), pool, least, {&sgd, 1}, 1.0f);
  EXPECT_NE(shard.master[0], before);
}

TEST_F(Arguments, NegativeSegmentsAreRefused) {
  sgd.length = -1;
  expect_refused(buffers, sgd, "may be negative");
}

TEST(ScalarsOf, StepsCountFromOneAndSgdHasItsOwn) {
  EXPECT_THROW(adam_scalars(Rule::kAdam, 0.1, 0.9, 0.99, 1e-8, 0, false, 0), std::invalid_argument);
  EXPECT_THROW(adagrad_scalars(0.1, 0, 1e-8, 0, 0), std::invalid_argument);
  EXPECT_THROW(adam_scalars(Rule::kSgd, 0.1, 0.9, 0.99, 1e-8, 0, false, 1), std::invalid_argument);
}

}  // namespace
}  // namespace zero::kernels::testing
