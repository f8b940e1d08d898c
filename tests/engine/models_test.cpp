// SPDX-License-Identifier: Apache-2.0
// Models as people write them, trained under stage 3 with offload and tiny pages: losses and
// parameters are those of LibTorch alone.
#include <gtest/gtest.h>

#include <functional>

#include "engine/blocks.h"

namespace zero::testing {
namespace {

using Loss = std::function<at::Tensor()>;

// Trains `make()` four steps with LibTorch and under the strategy; the update rule is the same on
// both sides.
template <class Make>
void expect_same_training(const Make& make,
                          StrategyOptions options = StrategyOptions()
                                                        .device(test_device_name())
                                                        .stage(3)
                                                        .offload_parameters(true)
                                                        .offload_optimizer(true)
                                                        .page_bytes(4096)
                                                        .parameter_budget(256 << 10)) {
  std::vector<std::vector<double>> losses;
  std::vector<std::vector<at::Tensor>> parameters;
  for (const bool paged : {false, true}) {
    torch::manual_seed(3);
    auto [model, loss] = make();
    model->to(test_device());
    // No Adam here: it makes whole steps out of gradients that are zero but for rounding (a bias
    // before BatchNorm).
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    std::optional<Strategy> strategy;
    if (paged) {
      strategy.emplace(options);
      strategy->setup(*model, optimizer);
    }
    auto& recorded = losses.emplace_back();
    for (int step = 0; step < 4; ++step) {
      torch::manual_seed(100 + step);
      optimizer.zero_grad();
      const at::Tensor value = loss();
      recorded.push_back(value.template item<double>());
      value.backward();
      paged ? static_cast<void>(strategy->step()) : static_cast<void>(optimizer.step());
    }
    at::NoGradGuard no_grad;
    auto& final = parameters.emplace_back();
    for (const auto& parameter : model->parameters()) final.push_back(parameter.clone());
  }
  EXPECT_EQ(losses[0].front(), losses[1].front());
  for (size_t i = 0; i < losses[0].size(); ++i)
    EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5) << "step " << i;
  ASSERT_EQ(parameters[0].size(), parameters[1].size());
  for (size_t i = 0; i < parameters[0].size(); ++i) {
    EXPECT_TRUE(at::allclose(parameters[0][i], parameters[1][i], 1e-5, 1e-6)) << "parameter " << i;
  }
}

struct Recurrent : torch::nn::Module {
  Recurrent() {
    embedding = register_module("embedding", torch::nn::Embedding(30, 16));
    lstm = register_module(
        "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(16, 16).num_layers(2).batch_first(true)));
    attention = register_module(
        "attention", torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(16, 4)));
    head = register_module("head", torch::nn::Linear(16, 30));
  }
  at::Tensor loss() {
    const at::Tensor ids = torch::randint(0, 30, {4, 6}, at::kLong).to(test_device());
    at::Tensor x = std::get<0>(lstm(embedding(ids)));
    const at::Tensor y = x.transpose(0, 1);
    x = x + std::get<0>(attention(y, y, y)).transpose(0, 1);
    return torch::nn::functional::cross_entropy(head(x).reshape({-1, 30}), ids.reshape(-1));
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::MultiheadAttention attention{nullptr};
  torch::nn::Linear head{nullptr};
};

struct Convolutional : torch::nn::Module {
  Convolutional() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    head = register_module("head", torch::nn::Linear(8, 5));
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor loss() {
    const at::Tensor x = torch::rand({2, 3, 6, 6}).to(test_device());
    return head(torch::relu(norm(conv(x))).mean({2, 3})).square().mean();
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};
};

// Weights used by another module, tied by rebinding, inside the loss, and many times in one
// forward.
struct Entangled : torch::nn::Module {
  Entangled() {
    first = register_module("first", torch::nn::Linear(12, 12));
    second = register_module("second", torch::nn::Linear(12, 12));
    tied = register_module("tied", torch::nn::Linear(12, 12));
    tied->weight = first->weight;
  }
  at::Tensor loss() {
    at::Tensor x = torch::rand({3, 12}).to(test_device());
    for (int i = 0; i < 5; ++i) x = torch::tanh(first(x));
    x = torch::linear(second(x), first->weight.t());
    if (x.sum().item<float>() > 0) x = tied(x);
    return x.square().mean() + 1e-3 * second->weight.square().sum();
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, tied{nullptr};
};

template <class Model>
auto maker() {
  return [] {
    auto model = std::make_shared<Model>();
    return std::make_pair(model, Loss([model] { return model->loss(); }));
  };
}

TEST(Models, RecurrentAndAttention) { expect_same_training(maker<Recurrent>()); }
TEST(Models, ConvolutionInChannelsLastWithBatchNorm) {
  expect_same_training(maker<Convolutional>());
}
TEST(Models, WeightsUsedAnywhere) { expect_same_training(maker<Entangled>()); }

TEST(Models, TwoForwardsBeforeOneBackwardAndTwoBackwardsForOneForward) {
  expect_same_training([] {
    auto model = std::make_shared<Entangled>();
    return std::make_pair(model, Loss([model] {
                            const at::Tensor first = model->loss();
                            const at::Tensor second = model->loss();
                            first.backward({}, /*retain_graph=*/true);
                            return first + second;
                          }));
  });
}

TEST(Models, MovingAveragesAndNoiseInPlaceAreKept) {
  expect_same_training([] {
    auto model = std::make_shared<Entangled>();
    return std::make_pair(model, Loss([model] {
                            {
                              at::NoGradGuard no_grad;
                              for (auto& parameter : model->parameters())
                                parameter.mul_(0.99).add_(1e-3);
                              model->second->bias.data().clamp_(-0.1, 0.1);
                            }
                            return model->loss();
                          }));
  });
}

TEST(Models, BuffersKeepTheirDtypeUnderBf16) {
  struct Model : torch::nn::Module {
    Model() {
      weight = register_parameter("weight", torch::rand({4}));
      frequencies = register_buffer("frequencies", torch::tensor({256.0f, 257.0f}));
      counter = register_buffer("counter", torch::zeros({}, at::kLong));
    }
    at::Tensor weight, frequencies, counter;
  };
  auto model = std::make_shared<Model>();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device(test_device_name()).stage(2).precision("bf16"));
  strategy.setup(*model, optimizer);
  EXPECT_EQ(model->weight.dtype(), at::kBFloat16);
  EXPECT_EQ(model->frequencies.dtype(), at::kFloat);
  EXPECT_EQ(model->frequencies[1].item<float>(), 257.0f);
  EXPECT_EQ(model->counter.dtype(), at::kLong);
}

TEST(Models, AFrozenIntegerParameterKeepsItsDtypeAndHasNoState) {
  struct Model : torch::nn::Module {
    Model() {
      weight = register_parameter("weight", torch::rand({6, 6}));
      table = register_parameter("table", torch::arange(12, at::kChar).view({3, 4}),
                                 /*requires_grad=*/false);
      wide = register_parameter("wide", torch::rand({3}, at::kDouble), /*requires_grad=*/false);
    }
    at::Tensor weight, table, wide;
  };
  auto model = std::make_shared<Model>();
  torch::optim::AdamW optimizer({model->weight}, 0.1);
  Strategy strategy(StrategyOptions()
                        .device(test_device_name())
                        .stage(3)
                        .offload_parameters(true)
                        .precision("bf16"));
  strategy.setup(*model, optimizer);
  EXPECT_TRUE(at::equal(model->table.cpu(), torch::arange(12, at::kChar).view({3, 4})));
  EXPECT_EQ(model->wide.dtype(), at::kDouble);
  const auto moments = strategy.memory_report().booked[static_cast<int>(MemoryClass::kMoments)];
  EXPECT_EQ(moments.device, 2 * 128 * 4)
      << "36 weights, padded to a shard of 256 bytes of bf16, two moments";
}

TEST(Models, AZeroElementParameterKeepsItsShape) {
  auto model = torch::nn::Linear(torch::nn::LinearOptions(8, 0).bias(false));
  auto other = torch::nn::Linear(4, 4);
  auto both = torch::nn::Sequential(other, model);
  torch::optim::SGD optimizer(both->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device(test_device_name()).stage(3).offload_parameters(true));
  strategy.setup(*both, optimizer);
  other(torch::rand({2, 4}).to(test_device())).sum().backward();
  strategy.step();
  EXPECT_EQ(model->weight.sizes(), (std::vector<int64_t>{0, 8}));
}

}  // namespace
}  // namespace zero::testing
