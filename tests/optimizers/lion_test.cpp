// SPDX-License-Identifier: Apache-2.0
#include "zero/lion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <string>

namespace {

using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

at::Tensor parameter(std::vector<double> values) {
  return torch::tensor(values, torch::kFloat64).requires_grad_(true);
}

double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }

// The rule for one number, written out.
struct OneNumber {
  double p, m = 0.0;
  void step(double g, double lr, double beta1, double beta2, double decay) {
    p = p * (1.0 - lr * decay) - lr * sign(beta1 * m + (1.0 - beta1) * g);
    m = beta2 * m + (1.0 - beta2) * g;
  }
};

TEST(Lion, FollowsTheRuleNumberByNumber) {
  at::Tensor p = parameter({1.0, -2.0, 0.5});
  zero::Lion optimizer({p}, zero::LionOptions(0.1).betas({0.8, 0.95}).weight_decay(0.3));
  std::vector<OneNumber> expected = {{1.0}, {-2.0}, {0.5}};
  const double gradients[4][3] = {{1.0, -3.0, 0.0}, {-0.1, 4.0, 2.0}, {0.0, 0.0, -1.0}, {5, -5, 5}};
  for (const auto& g : gradients) {
    p.mutable_grad() = torch::tensor({g[0], g[1], g[2]}, torch::kFloat64);
    optimizer.step();
    for (size_t i = 0; i < 3; ++i) {
      expected[i].step(g[i], 0.1, 0.8, 0.95, 0.3);
      EXPECT_NEAR(p[static_cast<int64_t>(i)].item<double>(), expected[i].p, 1e-14);
    }
  }
}

TEST(Lion, LeavesParametersWithoutGradientAlone) {
  at::Tensor used = parameter({1.0}), unused = parameter({1.0});
  zero::Lion optimizer({used, unused}, zero::LionOptions(0.1).weight_decay(0.5));
  used.mutable_grad() = torch::ones({1}, torch::kFloat64);
  optimizer.step();
  EXPECT_NE(used.item<double>(), 1.0);
  EXPECT_EQ(unused.item<double>(), 1.0);
  EXPECT_EQ(optimizer.state().size(), 1u);
}

TEST(Lion, EachGroupHasItsOwnOptions) {
  at::Tensor slow = parameter({1.0}), fast = parameter({1.0});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>{slow}, std::make_unique<zero::LionOptions>(0.01));
  groups.emplace_back(std::vector<at::Tensor>{fast});
  zero::Lion optimizer(groups, zero::LionOptions(0.5));
  for (at::Tensor* p : {&slow, &fast}) p->mutable_grad() = torch::ones({1}, torch::kFloat64);
  optimizer.step();
  EXPECT_DOUBLE_EQ(slow.item<double>(), 0.99);
  EXPECT_DOUBLE_EQ(fast.item<double>(), 0.5);
}

TEST(Lion, SchedulersSetItsRate) {
  at::Tensor p = parameter({1.0});
  zero::Lion optimizer({p}, zero::LionOptions(0.5));
  torch::optim::StepLR scheduler(optimizer, 1, 0.1);
  scheduler.step();
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.05);
}

TEST(Lion, SavedStateContinuesWithTheSameNumbers) {
  const auto train = [](zero::Lion& optimizer, at::Tensor& p, int from, int to) {
    for (int step = from; step < to; ++step) {
      p.mutable_grad() =
          torch::tensor({std::sin(step * 1.7), std::cos(step * 0.9)}, torch::kFloat64);
      optimizer.step();
    }
  };
  at::Tensor straight = parameter({1.0, 2.0});
  zero::Lion whole({straight}, zero::LionOptions(0.1).weight_decay(0.2));
  train(whole, straight, 0, 20);

  at::Tensor first = parameter({1.0, 2.0});
  zero::Lion before({first}, zero::LionOptions(0.1).weight_decay(0.2));
  train(before, first, 0, 7);
  std::stringstream saved;
  torch::save(before, saved);
  at::Tensor second = first.detach().clone().requires_grad_(true);
  zero::Lion after({second}, zero::LionOptions(9.0));
  torch::load(after, saved);
  train(after, second, 7, 20);
  EXPECT_TRUE(torch::equal(straight, second)) << straight << second;
}

TEST(Lion, RefusesOptionsThatCannotBeRight) {
  const at::Tensor p = parameter({1.0});
  EXPECT_THAT(error_of([&] { zero::Lion({p}, zero::LionOptions(-1.0)); }), HasSubstr("lr is -1"));
  EXPECT_THAT(error_of([&] { zero::Lion({p}, zero::LionOptions(std::nan(""))); }),
              HasSubstr("lr is nan"));
  EXPECT_THAT(error_of([&] {
                zero::Lion({p}, zero::LionOptions().betas({0.9, 1.0}));
              }),
              HasSubstr("betas are 0.9 and 1"));
  EXPECT_THAT(error_of([&] { zero::Lion({p}, zero::LionOptions().weight_decay(-0.1)); }),
              HasSubstr("weight_decay is -0.1"));
}

TEST(Lion, RefusesASparseGradient) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  zero::Lion optimizer(embedding->parameters());
  embedding(torch::tensor({1, 3})).sum().backward();
  EXPECT_THAT(error_of([&] { optimizer.step(); }), HasSubstr("is sparse"));
}

}  // namespace
