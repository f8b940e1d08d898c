// SPDX-License-Identifier: Apache-2.0
// Loops that do more with gradients than backward and step: as with LibTorch alone.
#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "engine/loops.h"

namespace zero::testing {
namespace {

using T = Trainee<Mlp>;
constexpr int kSteps = 3;

// Sharpness-aware minimization: climb along the gradient, take the gradient there, climb down,
// step.
void sharpness_aware(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = rows(5, t.device);
    t.model->loss(x).backward();
    std::vector<at::Tensor> climbs;
    {
      const at::NoGradGuard no_grad;
      at::Tensor norm = at::zeros({}, t.device);
      for (auto& p : t.model->parameters()) norm += p.grad().square().sum();
      const at::Tensor factor = 0.05 / (norm.sqrt() + 1e-12);
      for (auto& p : t.model->parameters()) {
        climbs.push_back(p.grad() * factor);
        p.add_(climbs.back());
      }
    }
    t.model->zero_grad();
    const at::Tensor loss = t.model->loss(x);
    t.note("loss on the hill", loss);
    loss.backward();
    {
      const at::NoGradGuard no_grad;
      auto climb = climbs.begin();
      for (auto& p : t.model->parameters()) p.sub_(*climb++);
    }
    t.note_gradients("second pass");
    t.step();
  }
}

void accumulate(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    for (int micro = 0; micro < 4; ++micro) {
      (t.model->loss(rows(3, t.device)) / 4).backward();
      t.note("running sum", t.model->second->weight.grad());
    }
    t.step();
  }
}

// Zeroed gradients stay defined: a parameter that the next pass does not reach keeps moving by
// momentum.
void zero_without_dropping(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.optimizer->zero_grad(/*set_to_none=*/false);
    const at::Tensor x = rows(4, t.device);
    (step == 1 ? t.model->first(x).square().mean() : t.model->loss(x)).backward();
    t.optimizer->step();
    t.model->zero_grad(/*set_to_none=*/false);
  }
}

// Gradients are read by name, clipped by value, changed in place.
void read_and_change(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    t.note_gradients("after backward");
    for (auto& p : t.model->parameters()) {
      const at::NoGradGuard no_grad;
      t.note("norm", p.grad().norm());
      p.grad().add_(p, 0.01);  // decay by hand
      p.grad().copy_(at::round(p.grad() * 64) / 64);
      p.mutable_grad() *= 0.5;
    }
    torch::nn::utils::clip_grad_value_(t.model->parameters(), 0.1);
    t.note_gradients("changed");
    t.step();
  }
}

// A parameter's gradient is dropped before the step: no update for it, no decay of its moments.
void drop_one_gradient(T& t) {
  for (int step = 0; step < kSteps + 1; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    if (step < 2) t.model->second->weight.mutable_grad() = at::Tensor();
    if (step == 3) t.model->third->zero_grad();
    t.step();
    t.note_parameters("after the step");
  }
}

// Gradients from autograd::grad, put into `.grad()` by hand.
void gradients_by_hand(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    auto parameters = t.model->parameters();
    const at::Tensor x = rows(5, t.device);
    const auto one = torch::autograd::grad({t.model->loss(x)}, parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      t.note("autograd::grad deposits nothing", parameters[i].grad());
      t.note("by grad()", one[i]);
      parameters[i].mutable_grad() = one[i] * 2;
    }
    t.step();
  }
}

// As gradient surgery does: two gradients, one projected from the other, put in place of what
// backward left.
void replace_after_backward(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    std::vector<at::Tensor> first;
    for (auto& p : t.model->parameters()) first.push_back(p.grad().clone());
    t.model->zero_grad();
    t.model->loss(rows(5, t.device)).backward();
    size_t i = 0;
    for (auto& p : t.model->parameters()) {
      p.mutable_grad() = p.grad() - 0.25 * first[i++];
    }
    t.note_gradients("replaced");
    t.step();
  }
}

// Last step's gradient, kept by its handle: clearing drops the parameter's hold of it, not ours.
void keep_handles(T& t) {
  std::vector<at::Tensor> before;
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    for (const auto& gradient : before) t.note("kept", gradient);
    before.clear();
    for (auto& p : t.model->parameters()) before.push_back(p.grad());
    if (step == 1) before[0] = before[0].view(-1);
    t.step();
    t.model->zero_grad();
  }
  t.note("kept", before[1]);
}

void two_losses_on_one_output(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor out = t.model->forward(rows(5, t.device));
    (out - 1).square().mean().backward({}, /*retain_graph=*/true);
    (out + 1).abs().mean().backward();
    t.note_gradients("both");
    t.step();
  }
}

void two_backwards_for_one_forward(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss = t.model->loss(rows(5, t.device));
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    t.note_gradients("twice");
    t.step();
  }
}

void several_roots(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor a = t.model->loss(rows(5, t.device));
    const at::Tensor b = t.model->forward(rows(2, t.device)).abs().sum();
    torch::autograd::backward({a, b});
    t.note_gradients("both roots");
    t.step();
  }
}

// Only some parameters are asked for.
void backward_to_inputs(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss = t.model->loss(rows(5, t.device));
    loss.backward({}, /*retain_graph=*/true, /*create_graph=*/false,
                  std::vector<at::Tensor>{t.model->first->weight, t.model->scale});
    t.note_gradients("two of them");
    loss.backward({}, /*retain_graph=*/false, /*create_graph=*/false,
                  std::vector<at::Tensor>{t.model->third->bias});
    t.note_gradients("and one more");
    t.step();
  }
}

void forwards_of_different_sizes(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor a = t.model->loss(rows(2, t.device));
    const at::Tensor b = t.model->loss(rows(9, t.device));
    {
      const at::NoGradGuard no_grad;
      t.note("between", t.model->loss(rows(4, t.device)));
    }
    (a + b).backward();
    t.note_gradients("both");
    t.step();
  }
}

void one_module_thirty_times(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor x = torch::tanh(t.model->first(rows(3, t.device)));
    for (int i = 0; i < 30; ++i) x = torch::tanh(t.model->second(x));
    x.square().mean().backward();
    t.note_gradients("thirty times");
    t.step();
  }
}

void forward_without_backward_then_evaluation(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->train();
    t.note("left alone", t.model->loss(rows(3, t.device)));
    t.model->eval();
    {
      const at::NoGradGuard no_grad;
      t.note("evaluation", t.model->loss(rows(3, t.device)));
    }
    t.model->train();
    t.model->loss(rows(3, t.device)).backward();
    t.step();
  }
}

void inference_first(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    {
      const c10::InferenceMode inference;
      t.note("inference", t.model->loss(rows(3, t.device)));
    }
    t.model->loss(rows(3, t.device)).backward();
    t.step();
  }
}

// Hooks see the gradient before it is kept and may change it; the order is that of their
// registration.
void user_hooks(T& t) {
  auto& weight = t.model->second->weight;
  std::vector<at::Tensor> seen;
  weight.register_hook([](const at::Tensor& gradient) { return gradient + 1; });
  weight.register_hook([&seen](const at::Tensor& gradient) { seen.push_back(gradient.clone()); });
  const auto last = weight.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(3, t.device)).backward();
    t.note("as kept", weight.grad());
    t.step();
    if (step == 1) weight.remove_hook(last);
  }
  for (const auto& gradient : seen) t.note("as seen by the second hook", gradient);
}

// Gradients that exist before the first backward are added to.
void start_from_zeros(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    for (auto& p : t.model->parameters()) {
      if (!p.grad().defined()) p.mutable_grad() = torch::zeros_like(p);
    }
    t.model->first->forward(rows(3, t.device)).square().mean().backward();
    t.note_gradients("zeros where nothing came");
    t.step();
  }
}

// Either clearing is seen on both sides.
void clear_either_side(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(3, t.device)).backward();
    t.optimizer->zero_grad();
    t.note_gradients("cleared by the optimizer");
    t.model->loss(rows(3, t.device)).backward();
    t.model->zero_grad();
    t.optimizer->step();
    t.note_parameters("a step without gradients");
    t.model->loss(rows(3, t.device)).backward();
    t.step();
  }
}

struct Habit {
  const char* name;
  void (*loop)(T&);
};

const std::vector<Habit>& habits() {
  static const std::vector<Habit> all{
      {"sharpness_aware", sharpness_aware},
      {"accumulate", accumulate},
      {"zero_without_dropping", zero_without_dropping},
      {"read_and_change", read_and_change},
      {"drop_one_gradient", drop_one_gradient},
      {"gradients_by_hand", gradients_by_hand},
      {"replace_after_backward", replace_after_backward},
      {"keep_handles", keep_handles},
      {"start_from_zeros", start_from_zeros},
      {"clear_either_side", clear_either_side},
      {"two_losses_on_one_output", two_losses_on_one_output},
      {"two_backwards_for_one_forward", two_backwards_for_one_forward},
      {"several_roots", several_roots},
      {"backward_to_inputs", backward_to_inputs},
      {"forwards_of_different_sizes", forwards_of_different_sizes},
      {"one_module_thirty_times", one_module_thirty_times},
      {"forward_without_backward_then_evaluation", forward_without_backward_then_evaluation},
      {"inference_first", inference_first},
      {"user_hooks", user_hooks},
  };
  return all;
}

class GradientLoops : public ::testing::TestWithParam<Habit> {};
TEST_P(GradientLoops, AreAsWithLibTorchAlone) { expect_as_libtorch<Mlp>(GetParam().loop); }
INSTANTIATE_TEST_SUITE_P(Habits, GradientLoops, ::testing::ValuesIn(habits()),
                         [](const auto& info) { return info.param.name; });

ZERO_RANK_BODY(gradient_loops) {
  for (const Habit& habit : habits()) {
    SCOPED_TRACE(habit.name);
    if (habit.loop != keep_handles) expect_as_libtorch<Mlp>(habit.loop);
  }
  auto model = std::make_shared<Mlp>();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device(test_device_name()).stage(2));
  strategy.setup(model, optimizer);
  model->loss(rows(3, strategy.device())).backward();
  const at::Tensor kept = model->scale.grad();
  EXPECT_TRUE(std::isfinite(kept.item<float>()));
  model->zero_grad();
  model->loss(rows(3, strategy.device())).backward();
  EXPECT_THAT(error_of([&] { (void)kept.item<float>(); }),
              ::testing::HasSubstr("'scale' was cleared"));
}
TEST(GradientLoops, OnTwoRanks) { on_test_ranks({2}, "gradient_loops"); }

}  // namespace
}  // namespace zero::testing
