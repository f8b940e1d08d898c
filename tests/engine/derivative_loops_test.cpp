// SPDX-License-Identifier: Apache-2.0
// Derivatives of derivatives, passes inside passes, functions of the user's own: as with LibTorch
// alone.
#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "engine/loops.h"

namespace zero::testing {
namespace {

using T = Trainee<Mlp>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
constexpr int kSteps = 3;

// The critic of a Wasserstein GAN: the norm of the derivative by the input is part of the loss.
void gradient_penalty(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = rows(5, t.device).requires_grad_();
    const at::Tensor out = t.model->forward(x);
    const auto slope = torch::autograd::grad({out.sum()}, {x}, {}, /*retain_graph=*/true,
                                             /*create_graph=*/true)[0];
    const at::Tensor loss = out.mean() + 0.1 * (slope.norm(2, 1) - 1).square().mean();
    t.note("loss", loss);
    loss.backward();
    t.note_gradients("with the penalty");
    t.step();
  }
}

void hessian_vector_product(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const auto parameters = t.model->parameters();
    const auto first = torch::autograd::grad({t.model->loss(rows(5, t.device))}, parameters, {},
                                             /*retain_graph=*/true, /*create_graph=*/true);
    at::Tensor product = at::zeros({}, t.device);
    for (const auto& gradient : first) product = product + (gradient * 0.5).sum();
    const auto second = torch::autograd::grad({product}, parameters);
    for (size_t i = 0; i < second.size(); ++i) t.note("H v", second[i]);
    t.model->loss(rows(5, t.device)).backward();
    t.step();
  }
}

// The loss after one step of gradient descent, differentiated through that step.
void learn_to_learn(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    auto& layer = t.model->first;
    const at::Tensor x = rows(5, t.device);
    const at::Tensor inner = layer(x).square().mean();
    const auto slope = torch::autograd::grad({inner}, {layer->weight, layer->bias}, {},
                                             /*retain_graph=*/true, /*create_graph=*/true);
    const at::Tensor outer =
        torch::linear(x, layer->weight - 0.1 * slope[0], layer->bias - 0.1 * slope[1]);
    (outer - 1).square().mean().backward();
    t.note_gradients("through the inner step");
    t.step();
  }
}

// The gradient that backward leaves is a part of a graph, and is differentiated.
void backward_with_create_graph(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = rows(5, t.device);
    t.model->loss(x).backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    at::Tensor penalty = at::zeros({}, t.device);
    for (auto& p : t.model->parameters()) penalty = penalty + p.grad().square().sum();
    t.note("squared norm", penalty);
    if (step == 1) t.model->zero_grad();
    (0.1 * penalty).backward();
    t.note_gradients("first and second derivatives");
    t.step();
  }
}

// Recomputes its block in backward by a pass of its own, as hand-made checkpointing does.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, torch::nn::Linear layer) {
    ctx->save_for_backward({x});
    ctx->saved_data["layer"] =
        c10::IValue::make_capsule(c10::make_intrusive<Holder>(std::move(layer)));
    return torch::tanh(held(ctx)(x));
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const at::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_();
    const at::AutoGradMode grad(true);
    torch::tanh(held(ctx)(x)).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
  struct Holder : torch::CustomClassHolder {
    explicit Holder(torch::nn::Linear value) : layer(std::move(value)) {}
    torch::nn::Linear layer;
  };
  static torch::nn::Linear& held(AutogradContext* ctx) {
    return c10::static_intrusive_pointer_cast<Holder>(ctx->saved_data["layer"].toCapsule())->layer;
  }
};

void passes_inside_passes(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor x = torch::tanh(t.model->first(rows(5, t.device)));
    x = Recomputed::apply(x, t.model->second);
    x = Recomputed::apply(x, t.model->second);
    t.model->third(x).square().mean().backward();
    t.note_gradients("recomputed");
    t.step();
  }
}

// A linear layer written by hand: it saves the weight and returns its gradient.
struct HandMadeLinear : torch::autograd::Function<HandMadeLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    ctx->save_for_backward({x, weight});
    return x.mm(weight.t());
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto saved = ctx->get_saved_variables();
    return {gradients[0].mm(saved[1]), gradients[0].t().mm(saved[0])};
  }
};

void functions_of_ones_own(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor x = HandMadeLinear::apply(rows(5, t.device), t.model->first->weight);
    x = HandMadeLinear::apply(torch::relu(x), t.model->second->weight);
    x.square().mean().backward();
    t.note_gradients("by hand");
    t.step();
  }
}

// The anomaly mode looks at every gradient; profilers and checkers do too.
void anomaly_mode(T& t) {
  const torch::autograd::DetectAnomalyGuard guard;
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    t.step();
  }
}

struct Habit {
  const char* name;
  void (*loop)(T&);
  bool on_one_rank_only = false;
};

const std::vector<Habit>& habits() {
  static const std::vector<Habit> all{
      {"gradient_penalty", gradient_penalty},
      {"hessian_vector_product", hessian_vector_product},
      {"learn_to_learn", learn_to_learn},
      {"backward_with_create_graph", backward_with_create_graph, true},
      {"passes_inside_passes", passes_inside_passes},
      {"functions_of_ones_own", functions_of_ones_own},
      {"anomaly_mode", anomaly_mode},
  };
  return all;
}

class DerivativeLoops : public ::testing::TestWithParam<Habit> {};
TEST_P(DerivativeLoops, AreAsWithLibTorchAlone) { expect_as_libtorch<Mlp>(GetParam().loop); }
INSTANTIATE_TEST_SUITE_P(Habits, DerivativeLoops, ::testing::ValuesIn(habits()),
                         [](const auto& info) { return info.param.name; });

TEST(DerivativeLoops, TheSecondDerivativeOfASquareIsTwo) {
  struct Square : torch::nn::Module {
    Square() { p = register_parameter("p", torch::full({}, 3.0)); }
    at::Tensor p;
  };
  for (const Setting& setting : settings(Update::kStrategy)) {
    SCOPED_TRACE(setting.name);
    auto model = std::make_shared<Square>();
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Strategy strategy(setting.options);
    strategy.setup(model, optimizer);
    (model->p * model->p).backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    const at::Tensor first = model->p.grad();
    EXPECT_EQ(first.item<float>(), 6.0f);
    optimizer.zero_grad();
    EXPECT_FALSE(model->p.grad().defined());
    first.backward();
    EXPECT_EQ(model->p.grad().item<float>(), 2.0f);
  }
}

ZERO_RANK_BODY(derivative_loops) {
  for (const Habit& habit : habits()) {
    SCOPED_TRACE(habit.name);
    if (!habit.on_one_rank_only) expect_as_libtorch<Mlp>(habit.loop);
  }
  auto model = std::make_shared<Mlp>();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device(test_device_name()).stage(2));
  strategy.setup(model, optimizer);
  EXPECT_THAT(error_of([&] { model->loss(rows(2, strategy.device())).backward({}, true, true); }),
              ::testing::HasSubstr("torch::autograd::grad"));
}
TEST(DerivativeLoops, OnTwoRanks) { on_test_ranks({2}, "derivative_loops"); }

}  // namespace
}  // namespace zero::testing
