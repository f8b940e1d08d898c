// SPDX-License-Identifier: Apache-2.0
// Ten steps of the kernels are ten steps of torch::optim, to 1e-6.
#include <torch/torch.h>

#include "plugin/optimizer/kernels/norm.h"
#include "tests/kernels/shard.h"

namespace zero::kernels::testing {
namespace {

constexpr int64_t kLength = 4099;

std::unique_ptr<torch::optim::Optimizer> torch_optimizer(const RuleCase& rule,
                                                         const at::Tensor& weight) {
  using torch::optim::SGDOptions;
  const std::vector<at::Tensor> weights{weight};
  const auto adam_like = [&](auto options) {
    return options.betas({rule.kBeta1, rule.kBeta2})
        .eps(rule.kEps)
        .weight_decay(rule.weight_decay)
        .amsgrad(rule.amsgrad);
  };
  switch (rule.rule) {
    case Rule::kAdam:
      return std::make_unique<torch::optim::Adam>(weights,
                                                  adam_like(torch::optim::AdamOptions(rule.kLr)));
    case Rule::kAdamW:
      return std::make_unique<torch::optim::AdamW>(weights,
                                                   adam_like(torch::optim::AdamWOptions(rule.kLr)));
    case Rule::kAdagrad:
      return std::make_unique<torch::optim::Adagrad>(weights, torch::optim::AdagradOptions(rule.kLr)
                                                                  .lr_decay(rule.lr_decay)
                                                                  .eps(rule.kEps)
                                                                  .weight_decay(rule.weight_decay));
    case Rule::kRmsprop:
      return std::make_unique<torch::optim::RMSprop>(weights, torch::optim::RMSpropOptions(rule.kLr)
                                                                  .alpha(rule.kAlpha)
                                                                  .eps(rule.kEps)
                                                                  .weight_decay(rule.weight_decay)
                                                                  .momentum(rule.momentum)
                                                                  .centered(rule.centered));
    case Rule::kSgd:
      break;
  }
  return std::make_unique<torch::optim::SGD>(weights, SGDOptions(rule.kLr)
                                                          .momentum(rule.momentum)
                                                          .dampening(rule.dampening)
                                                          .weight_decay(rule.weight_decay)
                                                          .nesterov(rule.nesterov));
}

class TorchParity : public ::testing::TestWithParam<RuleCase> {};

TEST_P(TorchParity, TenStepsAgree) {
  const RuleCase& rule = GetParam();
  ThreadPool pool(2);
  Shard shard(kLength, Form::kMaster, 23);
  auto weight = torch::tensor(shard.master).set_requires_grad(true);
  const auto optimizer = torch_optimizer(rule, weight);
  for (int64_t step = 1; step <= 10; ++step) {
    shard.gradient = random_floats(kLength, static_cast<uint32_t>(step));
    weight.mutable_grad() = torch::tensor(shard.gradient);
    optimizer->step();
    const Segment all{0, kLength, rule.scalars(step), rule.rule};
    update_cpu(best_isa(), pool, shard.buffers(), {&all, 1}, 1.0f);
  }
  const auto expected = weight.detach().to(torch::kFloat64);
  const auto actual = torch::tensor(shard.master).to(torch::kFloat64);
  const auto error = (actual - expected).abs() / expected.abs().clamp_min(1.0);
  EXPECT_LE(error.max().item<double>(), 1e-6);
  EXPECT_GT((actual - torch::tensor(random_floats(kLength, 23))).abs().mean().item<double>(), 1e-3)
      << "nothing was trained";
}

INSTANTIATE_TEST_SUITE_P(Rules, TorchParity, ::testing::ValuesIn(all_rules()), rule_name);

TEST(TorchClip, NormAndCoefficientAreThoseOfClipGradNorm) {
  ThreadPool pool(2);
  for (double max_norm : {0.5, 1e6}) {
    const auto values = random_floats(kLength, 29);
    auto weight = torch::zeros(kLength).set_requires_grad(true);
    weight.mutable_grad() = torch::tensor(values);
    const double expected = torch::nn::utils::clip_grad_norm_(weight, max_norm);
    const double norm = std::sqrt(sum_of_squares_cpu(pool, values.data(), kLength));
    EXPECT_NEAR(norm, expected, 1e-6 * expected);
    const auto clipped = torch::tensor(values) * clip_coefficient(norm, max_norm);
    EXPECT_TRUE(torch::allclose(clipped, weight.grad(), 1e-6, 0.0));
  }
}

}  // namespace
}  // namespace zero::kernels::testing
