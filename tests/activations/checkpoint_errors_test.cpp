// SPDX-License-Identifier: Apache-2.0
// A region that cannot run again as it did says so, with its name; no wrong gradient is returned.
#include <gmock/gmock.h>

#include "activations/networks.h"
#include "zero/checkpoint.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CheckpointOptions named(const char* name = "block 7") { return CheckpointOptions().name(name); }

at::Tensor input() { return random_input().requires_grad_(); }

template <class Function>
std::string backward_error(const Function& function, const CheckpointOptions& options = named()) {
  return error_of([&] { checkpoint(options, function, input()).sum().backward(); });
}

TEST(CheckpointErrors, AnotherNumberOfSavedTensors) {
  int runs = 0;
  const auto fewer = [&](at::Tensor x) { return ++runs == 1 ? x.tanh().tanh().exp() : x.tanh(); };
  EXPECT_THAT(backward_error(fewer),
              AllOf(HasSubstr("'block 7' saved 3 tensors"), HasSubstr("but 1 in its second")));
}

TEST(CheckpointErrors, AnotherShape) {
  int runs = 0;
  const auto narrower = [&](at::Tensor x) { return x.narrow(0, 0, 8 - runs++).tanh(); };
  EXPECT_THAT(backward_error(narrower),
              AllOf(HasSubstr("'block 7'"), HasSubstr("[8, 64]"), HasSubstr("[7, 64]")));
}

TEST(CheckpointErrors, AnotherOperatorWithTheSameShapes) {
  int runs = 0;
  const auto other = [&](at::Tensor x) { return ++runs == 1 ? x.tanh() : x.sigmoid(); };
  EXPECT_THAT(backward_error(other),
              AllOf(HasSubstr("TanhBackward"), HasSubstr("SigmoidBackward")));
}

TEST(CheckpointErrors, OtherValuesAreFoundOnRequest) {
  double factor = 1.0;
  const auto drifting = [&](at::Tensor x) { return (x * factor++).tanh(); };
  EXPECT_EQ(backward_error(drifting), "") << "values are compared on request only";
  EXPECT_THAT(backward_error(drifting, named().check_determinism(true)),
              HasSubstr("other values in the second run"));
  const auto with_nan = [](at::Tensor x) { return (x * NAN).tanh(); };
  EXPECT_EQ(backward_error(with_nan, named().check_determinism(true)), "");
}

TEST(CheckpointErrors, DropoutWithoutItsRandomState) {
  const auto dropout = [](at::Tensor x) { return torch::dropout(x, 0.5, true).tanh(); };
  EXPECT_EQ(backward_error(dropout, named().check_determinism(true)), "");
  EXPECT_THAT(backward_error(dropout, named().check_determinism(true).preserve_rng(false)),
              HasSubstr("other values in the second run"));
}

TEST(CheckpointErrors, AnArgumentChangedInside) {
  const auto function = [](at::Tensor x) {
    at::Tensor y = x.tanh();
    x.add_(1);
    return y;
  };
  EXPECT_THAT(error_of([&] { checkpoint(named(), function, input() * 2); }),
              AllOf(HasSubstr("'block 7'"), HasSubstr("changed in place by the region itself")));
}

TEST(CheckpointErrors, AnArgumentChangedBeforeBackward) {
  const at::Tensor x = input() * 2;
  const at::Tensor y = checkpoint(
      named(), [](at::Tensor h) { return h.tanh(); }, x);
  x.add_(1);
  EXPECT_THAT(error_of([&] { y.sum().backward(); }),
              AllOf(HasSubstr("'block 7'"), HasSubstr("between forward and backward")));
}

TEST(CheckpointErrors, AParameterChangedBeforeBackward) {
  torch::nn::Linear layer(kWidth, kWidth);
  layer->to(test_device());
  const at::Tensor y = checkpoint(named(), layer, input());
  {
    const at::NoGradGuard no_grad;
    layer->weight.add_(1);
  }
  EXPECT_THAT(error_of([&] { y.sum().backward(); }),
              AllOf(HasSubstr("'block 7'"), HasSubstr("parameter that it uses was changed")));
}

TEST(CheckpointErrors, NoTensorReturned) {
  const auto nothing = [](const at::Tensor& x) { (void)x.tanh(); };
  const auto number = [](const at::Tensor& x) { return x.sum().item<double>(); };
  const auto undefined = [](const at::Tensor&) { return at::Tensor(); };
  const auto none = [](const at::Tensor&) { return std::optional<at::Tensor>(); };
  const auto expect = [](const auto& function) {
    EXPECT_THAT(error_of([&] { checkpoint(named(), function, input()); }),
                HasSubstr("'block 7' returned no tensor"));
  };
  expect(nothing);
  expect(number);
  expect(undefined);
  expect(none);
}

TEST(CheckpointErrors, WithoutANameTheFunctionsTypeIsTold) {
  const auto swapped = [runs = std::make_shared<int>(0)](at::Tensor x) {
    return ++*runs == 1 ? x.tanh() : x.exp();
  };
  EXPECT_THAT(backward_error(swapped, CheckpointOptions()),
              HasSubstr("WithoutANameTheFunctionsTypeIsTold"));
}

}  // namespace
}  // namespace zero::testing
