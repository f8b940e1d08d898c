// SPDX-License-Identifier: Apache-2.0
// Modules of many kinds: trained as with LibTorch alone.
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <sstream>

#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "engine/loops.h"

namespace zero::testing {
namespace {

namespace nn = torch::nn;

struct LossModule : nn::Module {
  virtual at::Tensor loss(at::Device device) = 0;
};

// The last of eight layers shares weight and bias with the first; their own are orphans.
struct TiedLayers : LossModule {
  TiedLayers() {
    for (int i = 0; i < 8; ++i) layers->push_back(nn::Linear(4, 4));
    register_module("layers", layers);
    auto& last = *layers[7]->as<nn::Linear>();
    last.weight = layers[0]->as<nn::Linear>()->weight;
    last.bias = layers[0]->as<nn::Linear>()->bias;
  }
  at::Tensor loss(at::Device device) override {
    at::Tensor x = torch::randn({3, 4}).to(device);
    for (const auto& layer : *layers) x = torch::tanh(layer->as<nn::Linear>()->forward(x));
    return x.square().mean();
  }
  nn::ModuleList layers;
};

// One tensor under two names, a layer without bias, parameters of no dimension and of no element.
struct OddParameters : LossModule {
  OddParameters() {
    shared = register_parameter("shared", torch::randn({4, 4}));
    register_parameter("again", shared);
    bare = register_module("bare", nn::Linear(nn::LinearOptions(4, 4).bias(false)));
    temperature = register_parameter("temperature", torch::full({}, 0.7));
    empty = register_parameter("empty", torch::zeros({0, 8}));
    nothing = register_module("nothing", nn::Linear(nn::LinearOptions(4, 0).bias(false)));
  }
  at::Tensor loss(at::Device device) override {
    const at::Tensor x = bare(torch::randn({3, 4}).to(device)).mm(shared) * temperature;
    return x.square().mean() + nothing(x).sum() + empty.sum();
  }
  at::Tensor shared, temperature, empty;
  nn::Linear bare{nullptr}, nothing{nullptr};
};

struct FrozenOfOtherTypes : LossModule {
  FrozenOfOtherTypes() {
    weight = register_parameter("weight", torch::randn({6, 6}));
    wide = register_parameter("wide", torch::randn({5}, at::kDouble), /*requires_grad=*/false);
    waves = register_parameter("waves", torch::randn({3}, at::kComplexFloat), false);
    table = register_parameter("table", torch::arange(12, at::kChar), false);
  }
  at::Tensor loss(at::Device device) override {
    at::Tensor x = torch::randn({3, 6}).to(device).mm(weight);
    x = x * wide.sum().to(at::kFloat) + torch::abs(waves).sum() + table.to(at::kFloat).mean();
    return torch::tanh(x).square().mean();
  }
  at::Tensor weight, wide, waves, table;
};

struct Recurrent : LossModule {
  Recurrent() {
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(5, 7).num_layers(2)));
    gru = register_module("gru", nn::GRU(nn::GRUOptions(7, 6).bidirectional(true)));
    rnn = register_module("rnn", nn::RNN(nn::RNNOptions(12, 4)));
    cell = register_module("cell", nn::LSTMCell(4, 4));
  }
  at::Tensor loss(at::Device device) override {
    at::Tensor x = std::get<0>(lstm(torch::randn({6, 2, 5}).to(device)));
    x = std::get<0>(rnn(std::get<0>(gru(x))));
    std::tuple<at::Tensor, at::Tensor> state{at::zeros({2, 4}, device), at::zeros({2, 4}, device)};
    for (int i = 0; i < 6; ++i) state = cell(x[i], state);
    return std::get<0>(state).square().sum();
  }
  nn::LSTM lstm{nullptr};
  nn::GRU gru{nullptr};
  nn::RNN rnn{nullptr};
  nn::LSTMCell cell{nullptr};
};

struct Attention : LossModule {
  Attention() {
    attention = register_module("attention", nn::MultiheadAttention(8, 2));
    transformer = register_module(
        "transformer",
        nn::Transformer(nn::TransformerOptions(8, 2, 1, 1).dim_feedforward(9).dropout(0.0)));
  }
  at::Tensor loss(at::Device device) override {
    at::Tensor x = torch::randn({5, 2, 8}).to(device);
    x = x + std::get<0>(attention(x, x, x));
    return transformer(x, x.flip(0)).square().mean();
  }
  nn::MultiheadAttention attention{nullptr};
  nn::Transformer transformer{nullptr};
};

struct Images : LossModule {
  Images() {
    down = register_module("down", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).stride(2)));
    batch = register_module("batch", nn::BatchNorm2d(8));
    group = register_module("group", nn::GroupNorm(nn::GroupNormOptions(2, 8)));
    up = register_module("up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(8, 4, 3)));
    slope = register_module("slope", nn::PReLU());
    plain = register_module("plain",
                            nn::LayerNorm(nn::LayerNormOptions({4}).elementwise_affine(false)));
    pair = register_module("pair", nn::Bilinear(nn::BilinearOptions(4, 4, 3)));
  }
  at::Tensor loss(at::Device device) override {
    at::Tensor x = group(batch(down(torch::randn({2, 3, 9, 9}).to(device))));
    x = plain(slope(up(x)).mean({2, 3}));
    return pair(x, x.flip(1)).square().mean();
  }
  nn::Conv2d down{nullptr};
  nn::BatchNorm2d batch{nullptr};
  nn::GroupNorm group{nullptr};
  nn::ConvTranspose2d up{nullptr};
  nn::PReLU slope{nullptr};
  nn::LayerNorm plain{nullptr};
  nn::Bilinear pair{nullptr};
};

// Each row goes to the expert that the router likes best; some experts see no row.
struct Experts : LossModule {
  Experts() {
    router = register_module("router", nn::Linear(6, 4));
    for (int i = 0; i < 4; ++i) experts->push_back(nn::Linear(6, 6));
    register_module("experts", experts);
  }
  at::Tensor loss(at::Device device) override {
    const at::Tensor x = torch::randn({3, 6}).to(device);
    const at::Tensor weights = torch::softmax(router(x), 1);
    const at::Tensor best = weights.argmax(1).cpu();
    at::Tensor sum = at::zeros({}, device);
    for (int row = 0; row < 3; ++row) {
      const int64_t expert = best[row].item<int64_t>();
      const at::Tensor y = experts[expert]->as<nn::Linear>()->forward(x[row]);
      sum = sum + weights[row][expert] * y.square().sum();
    }
    return sum;
  }
  nn::Linear router{nullptr};
  nn::ModuleList experts;
};

struct Containers : LossModule {
  Containers() {
    stack =
        register_module("stack", nn::Sequential(nn::Linear(6, 6), nn::ReLU(), nn::Linear(6, 6)));
    using Entry = std::pair<std::string, std::shared_ptr<nn::Module>>;
    named = register_module("named",
                            nn::ModuleDict(std::vector<Entry>{{"left", nn::Linear(6, 6).ptr()},
                                                              {"right", nn::Linear(6, 6).ptr()}}));
    any = nn::AnyModule(nn::Linear(6, 6));
    register_module("any", any.ptr());
    direction = register_parameter("direction", torch::randn({6, 6}));  // weight norm by hand
    length = register_parameter("length", torch::ones({6, 1}));
  }
  at::Tensor loss(at::Device device) override {
    at::Tensor x = stack->forward(torch::randn({3, 6}).to(device));
    x = any.forward(x + named["left"]->as<nn::Linear>()->forward(x));
    x = torch::linear(x, torch::_weight_norm(direction, length, 0));
    return named["right"]->as<nn::Linear>()->forward(x).square().mean();
  }
  nn::Sequential stack{nullptr};
  nn::ModuleDict named{nullptr};
  nn::AnyModule any;
  at::Tensor direction, length;
};

// A TorchScript module, here written to a file and read back: a module that registers its
// parameters is what setup takes.
struct Scripted : LossModule {
  Scripted() {
    torch::jit::Module source("Source");
    source.register_parameter("weight", torch::randn({6, 6}), /*is_buffer=*/false);
    source.register_parameter("bias", torch::randn({6}), /*is_buffer=*/false);
    source.define(R"(
      def forward(self, x):
          for i in range(3):
              x = torch.tanh(x.matmul(self.weight) + self.bias)
          return x
    )");
    std::stringstream file;
    source.save(file);
    script = torch::jit::load(file);
    for (const auto& parameter : script.named_parameters())
      register_parameter(parameter.name, parameter.value);
  }
  at::Tensor loss(at::Device device) override {
    return script.forward({torch::randn({3, 6}).to(device)}).toTensor().square().mean();
  }
  torch::jit::Module script;
};

struct SparseEmbeddings : LossModule {
  SparseEmbeddings() {
    words = register_module("words", nn::Embedding(nn::EmbeddingOptions(20, 4).sparse(true)));
    bags = register_module(
        "bags", nn::EmbeddingBag(nn::EmbeddingBagOptions(20, 4).sparse(true).mode(torch::kSum)));
  }
  at::Tensor loss(at::Device device) override {
    const at::Tensor ids = torch::randperm(20).slice(0, 0, 6).to(device);
    return (words(ids).sum(0) * bags(ids.view({2, 3})).sum(0)).sum();
  }
  nn::Embedding words{nullptr};
  nn::EmbeddingBag bags{nullptr};
};

// Each tensor once: parameters() lists one that has two names twice.
std::unique_ptr<torch::optim::Optimizer> sgd(std::vector<at::Tensor> parameters) {
  std::vector<at::Tensor> once;
  for (const auto& parameter : parameters) {
    const auto same = [&](const at::Tensor& other) { return other.is_same(parameter); };
    if (std::none_of(once.begin(), once.end(), same)) once.push_back(parameter);
  }
  return std::make_unique<torch::optim::SGD>(std::move(once), 0.1);
}

struct Kind {
  const char* name;
  std::function<std::shared_ptr<LossModule>()> make;
};

template <class Model>
Kind kind(const char* name) {
  return {name, [] { return std::make_shared<Model>(); }};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      kind<TiedLayers>("TiedLayers"),
      kind<OddParameters>("OddParameters"),
      kind<FrozenOfOtherTypes>("FrozenOfOtherTypes"),
      kind<Recurrent>("Recurrent"),
      kind<Attention>("Attention"),
      kind<Images>("Images"),
      kind<Experts>("Experts"),
      kind<Containers>("Containers"),
      kind<Scripted>("Scripted"),
      kind<SparseEmbeddings>("SparseEmbeddings"),
  };
  return all;
}

void train(Trainee<LossModule>& t) {
  for (int step = 0; step < 10; ++step) {
    const at::Tensor loss = t.model->loss(t.device);
    t.note("loss", loss);
    loss.backward();
    t.step();
  }
}

class ModuleLoops : public ::testing::TestWithParam<Kind> {};
TEST_P(ModuleLoops, AreAsWithLibTorchAlone) {
  expect_as_libtorch<LossModule>(GetParam().make, train, sgd);
}
INSTANTIATE_TEST_SUITE_P(Kinds, ModuleLoops, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

TEST(ModuleLoops, ACloneIsAPlainModelOfItsOwn) {
  struct Net : nn::Cloneable<Net> {
    Net() { reset(); }
    void reset() override { layer = register_module("layer", nn::Linear(6, 6)); }
    nn::Linear layer{nullptr};
  };
  for (const Setting& setting : settings(Update::kStrategy)) {
    SCOPED_TRACE(setting.name);
    auto model = std::make_shared<Net>();
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Strategy strategy(setting.options);
    strategy.setup(model, optimizer);
    auto copy = std::dynamic_pointer_cast<Net>(model->clone());
    const at::Tensor before = model->layer->weight.clone();
    EXPECT_TRUE(at::equal(copy->layer->weight, before));
    EXPECT_NE(copy->layer->weight.data_ptr<float>(), nullptr);
    copy->layer(rows(3, strategy.device())).sum().backward();
    EXPECT_TRUE(copy->layer->weight.grad().defined());
    EXPECT_FALSE(model->layer->weight.grad().defined());
    at::NoGradGuard no_grad;
    copy->layer->weight.zero_();
    EXPECT_TRUE(at::equal(model->layer->weight, before));
  }
}

TEST(ModuleLoops, AModuleOnTheStackTrains) {
  Mlp model;
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  Strategy strategy(settings(Update::kStrategy).back().options);
  strategy.setup(model, optimizer);
  const at::Tensor x = rows(3, strategy.device());
  const at::Tensor before = model.loss(x).detach();
  model.loss(x).backward();
  strategy.step();
  EXPECT_LT(model.loss(x).item<float>(), before.item<float>());
}

TEST(ModuleLoops, AModuleThatRegistersNothingIsRefusedWithBothNumbers) {
  struct Forgetful : nn::Module {
    nn::Linear layer{6, 6};  // not registered
  };
  auto model = std::make_shared<Forgetful>();
  torch::optim::SGD optimizer(model->layer->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu"));
  const std::string error = error_of([&] { strategy.setup(model, optimizer); });
  EXPECT_THAT(error, ::testing::HasSubstr("0 parameters are registered in the model"));
  EXPECT_THAT(error, ::testing::HasSubstr("the optimizer holds 2"));
}

TEST(ModuleLoops, AParameterReplacedAfterSetupIsRefusedByName) {
  for (const Setting& setting : settings(Update::kStrategy)) {
    SCOPED_TRACE(setting.name);
    auto model = std::make_shared<Mlp>();
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Strategy strategy(setting.options);
    strategy.setup(model, optimizer);
    model->third = model->replace_module("third", nn::Linear(67, 6));
    model->third->to(strategy.device());
    EXPECT_THAT(error_of([&] { model->loss(rows(3, strategy.device())).backward(); }),
                ::testing::HasSubstr("'third.weight'"));
  }
}

// Ranks look up different rows; the row whose gradient sums to zero is kept.
ZERO_RANK_BODY(sparse_gradients_of_two_ranks) {
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    nn::Embedding embedding(nn::EmbeddingOptions(6, 2).sparse(true));
    torch::optim::SGD optimizer(embedding->parameters(), 0.1);
    Strategy strategy(StrategyOptions().device(test_device_name()).stage(stage));
    strategy.setup(embedding, optimizer);
    const auto signs = torch::tensor({1.0f, -1.0f}).to(strategy.device());
    const auto id = torch::tensor({strategy.rank() + 1}).to(strategy.device());
    (embedding(id) * signs).sum().backward();
    const at::Tensor gradient = embedding->weight.grad().cpu();
    at::Tensor expected = at::zeros({6, 2});
    for (int rank = 0; rank < strategy.world_size(); ++rank)
      expected[rank + 1] = torch::tensor({1.0f, -1.0f}) / strategy.world_size();
    EXPECT_TRUE(at::equal(gradient, expected)) << gradient;
    EXPECT_TRUE(strategy.step().applied);
  }
}
TEST(ModuleLoops, SparseGradientsOfAllRanksCount) {
  on_test_ranks({1, 2}, "sparse_gradients_of_two_ranks");
}

ZERO_RANK_BODY(module_loops) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    expect_as_libtorch<LossModule>(kind.make, train, sgd);
  }
}
TEST(ModuleLoops, OnTwoRanks) { on_test_ranks({2}, "module_loops"); }

}  // namespace
}  // namespace zero::testing
