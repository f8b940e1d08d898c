// SPDX-License-Identifier: Apache-2.0
// Dtypes that the precision flag must not touch: running statistics and the weights beside them,
// buffers, integer and fp64 parameters; inputs where the user asks; autocast's casts.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "engine/blocks.h"
#include "engine/device_ranks.h"

namespace zero::testing {
namespace {

struct ConvNetImpl : torch::nn::Module {
  ConvNetImpl() {
    torch::manual_seed(3);
    conv =
        register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    head = register_module("head", torch::nn::Linear(8, 2));
    frequencies = register_buffer("frequencies", torch::tensor({256.0F, 257.0F}));
  }
  at::Tensor forward(const at::Tensor& x) { return head(torch::relu(norm(conv(x))).mean({2, 3})); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};
  at::Tensor frequencies;
};
TORCH_MODULE(ConvNet);

at::Tensor images(int step) {
  torch::manual_seed(100 + step);
  return torch::randn({8, 3, 7, 7}) + 0.5;
}

StrategyOptions at_stage_3(const char* precision) {
  auto options = paged(3 * kMiB).precision(precision);
  if (std::string(precision) == "fp16") options.loss_scale(128);
  return options;
}

// G083, G084.
ZERO_RANK_BODY(batch_norm_trains) {
  constexpr int kSteps = 20;
  ConvNet plain;
  plain->to(test_device());
  torch::optim::SGD plain_optimizer(plain->parameters(), 0.05);
  for (int step = 0; step < kSteps; ++step) {
    plain_optimizer.zero_grad();
    plain(images(step).to(test_device())).square().mean().backward();
    plain_optimizer.step();
  }
  for (const char* precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    ConvNet model;
    torch::optim::SGD optimizer(model->parameters(), 0.05);
    Strategy strategy(at_stage_3(precision));
    strategy.setup(model, optimizer);
    EXPECT_EQ(model->norm->weight.scalar_type(), at::kFloat);
    EXPECT_NE(model->conv->weight.scalar_type(), at::kFloat);
    EXPECT_EQ(model->frequencies[1].item<float>(), 257.0F);
    for (int step = 0; step < kSteps; ++step) {
      const at::Tensor out = model(strategy.to_compute(images(step)));
      strategy.backward(out.to(at::kFloat).square().mean());
      EXPECT_TRUE(strategy.step().applied);
    }
    EXPECT_EQ(model->norm->running_mean.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(model->norm->running_mean, plain->norm->running_mean, 2e-2, 2e-2));
    EXPECT_TRUE(at::allclose(model->norm->running_var, plain->norm->running_var, 2e-2, 2e-2));
    EXPECT_EQ(model->norm->num_batches_tracked.scalar_type(), at::kLong);
    EXPECT_EQ(model->norm->num_batches_tracked.item<int64_t>(), kSteps);
  }
}

TEST(Dtypes, BatchNormTrainsIn16BitsWithFp32StatisticsAndBuffersKeepTheirs) {
  on_test_ranks({1, 2}, "batch_norm_trains");
}

TEST(Dtypes, InputsAreCastWhereTheUserAsks) {
  Strategy strategy(StrategyOptions().device(test_device_name()).precision("bf16"));
  const auto cast = [&](const at::Tensor& tensor) {
    const at::Tensor result = strategy.to_compute(tensor);
    EXPECT_EQ(result.device(), strategy.device());
    return result.scalar_type();
  };
  EXPECT_EQ(cast(torch::rand({2})), at::kBFloat16);
  EXPECT_EQ(cast(torch::rand({2}, at::kDouble)), at::kBFloat16);
  EXPECT_EQ(cast(torch::ones({2}, at::kLong)), at::kLong);
  EXPECT_EQ(cast(torch::ones({2}, at::kBool)), at::kBool);
  EXPECT_EQ(cast(torch::ones({2}, at::kComplexFloat)), at::kComplexFloat);
  EXPECT_THAT(error_of([&] { strategy.to_compute(at::Tensor()); }),
              ::testing::HasSubstr("undefined"));
}

struct MixedImpl : torch::nn::Module {
  MixedImpl() {
    torch::manual_seed(4);
    weight = register_parameter("weight", torch::rand({300}));
    quantized = register_parameter("quantized", torch::arange(-100, 100, at::kInt).to(at::kChar),
                                   /*requires_grad=*/false);
    exact = register_parameter("exact", torch::full({3}, 1.0 + 1e-12, at::kDouble), false);
    phase = register_parameter("phase", torch::ones({5}, at::kComplexFloat), false);
  }
  at::Tensor loss() {
    const at::Tensor scale =
        quantized.to(at::kFloat).sum() + exact.sum().to(at::kFloat) + at::real(phase).sum();
    return (weight.to(at::kFloat) * scale).square().mean();
  }
  at::Tensor weight, quantized, exact, phase;
};
TORCH_MODULE(Mixed);

// G098, G099.
ZERO_RANK_BODY(frozen_dtypes_are_kept) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    Mixed model, original;
    torch::optim::AdamW optimizer({model->weight}, 0.01);
    auto options = StrategyOptions().device(test_device_name()).stage(stage).precision("bf16");
    if (stage == 3) options.offload_parameters(true);
    Strategy strategy(options);
    strategy.setup(model, optimizer);
    const auto before = model->weight.clone();
    strategy.backward(model->loss());
    EXPECT_TRUE(strategy.step().applied);
    EXPECT_FALSE(at::equal(model->weight.clone(), before));
    EXPECT_EQ(model->weight.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::equal(model->quantized.clone().cpu(), original->quantized));
    EXPECT_TRUE(at::equal(model->exact.clone().cpu(), original->exact));
    EXPECT_TRUE(at::equal(model->phase.clone().cpu(), original->phase));
    EXPECT_EQ(optimizer.state().size(), 1U);
  }
}

TEST(Dtypes, FrozenIntegerFp64AndComplexParametersKeepTheirs) {
  on_test_ranks({1, 2}, "frozen_dtypes_are_kept");
}

TEST(Dtypes, ATrainableFp64OrComplexParameterIsRefusedByName) {
  for (const bool complex : {false, true}) {
    Mixed model;
    at::Tensor& parameter = complex ? model->phase : model->exact;
    parameter.requires_grad_(true);
    torch::optim::SGD optimizer({model->weight, parameter}, 0.1);
    Strategy strategy(StrategyOptions().device(test_device_name()));
    EXPECT_THAT(error_of([&] { strategy.setup(model, optimizer); }),
                ::testing::HasSubstr(complex ? "'phase'" : "'exact'"));
  }
}

// Autocast as C++ programs write it: no guard, the cache cleared by hand.
class Autocast {
 public:
  explicit Autocast(bool clear) : clear_(clear) {
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0 && clear_) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
  }

 private:
  at::DeviceType device_ = test_device().type();
  bool clear_;
};

std::vector<at::Tensor> train_under_autocast(Strategy* strategy, bool clear, bool plain_step) {
  Blocks model(4);
  model->to(test_device());
  torch::optim::SGD optimizer(model->parameters(), 0.5);
  if (strategy != nullptr) strategy->setup(model, optimizer);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    at::Tensor loss;
    {
      const Autocast autocast(clear);
      const at::Tensor x = inputs(test_device());
      loss = (model->forward(x) + model->forward(x * 0.5)).to(at::kFloat).square().mean();
    }
    loss.backward();
    strategy == nullptr || plain_step ? void(optimizer.step()) : void(strategy->step());
  }
  std::vector<at::Tensor> weights;
  for (const auto& parameter : model->parameters())
    weights.push_back(parameter.detach().clone().cpu());
  return weights;
}

TEST(Dtypes, AutocastTrainsAsWithLibTorchAndNoCastOutlivesAStep) {
  const auto expected = train_under_autocast(nullptr, true, true);
  for (const bool plain_step : {false, true}) {
    for (const bool clear : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "plain step " << plain_step << ", cleared " << clear);
      Strategy strategy(paged(2 * kMiB));
      const auto weights = train_under_autocast(&strategy, clear, plain_step);
      for (size_t i = 0; i < weights.size(); ++i)
        EXPECT_TRUE(at::allclose(weights[i], expected[i], 1e-6, 1e-8)) << i;
    }
  }
}

}  // namespace
}  // namespace zero::testing
