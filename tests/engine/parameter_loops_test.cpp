// SPDX-License-Identifier: Apache-2.0
// Loops that use and change parameters outside of their modules' forward: as with LibTorch alone.
#include <sstream>

#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "engine/loops.h"

namespace zero::testing {
namespace {

using T = Trainee<Mlp>;
constexpr int kSteps = 3;

void decay_in_the_loss(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor loss = t.model->loss(rows(5, t.device));
    for (const auto& p : t.model->parameters()) loss = loss + 1e-2 * p.square().sum();
    loss.backward();
    t.note_gradients("with the penalty");
    t.step();
  }
}

void weights_of_another_module(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    auto& m = *t.model;
    at::Tensor x = torch::tanh(torch::linear(rows(5, t.device), m.first->weight, m.first->bias));
    x = torch::linear(x, m.first->weight.t());  // decodes by the encoder's weight
    x = x + m.second->weight.select(0, 1).slice(0, 0, 6) * m.scale;
    x.square().mean().backward();
    t.note_gradients("entangled");
    t.step();
  }
}

void moving_average(T& t) {
  std::vector<at::Tensor> average;
  for (const auto& p : t.model->parameters()) average.push_back(p.detach().clone());
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    t.step();
    const at::NoGradGuard no_grad;
    const auto parameters = t.model->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      average[i].mul_(0.9).add_(parameters[i], 0.1);
      t.note("average", average[i]);
    }
  }
}

// A target network of plain tensors follows; then the roles are swapped for an evaluation.
void target_network(T& t) {
  auto target = std::make_shared<Mlp>();
  target->to(t.device);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = rows(5, t.device);
    const at::Tensor wanted = target->forward(x).detach();
    (t.model->forward(x) - wanted).square().mean().backward();
    t.step();
    const at::NoGradGuard no_grad;
    auto from = t.model->parameters();
    auto to = target->parameters();
    for (size_t i = 0; i < from.size(); ++i) to[i].lerp_(from[i], 0.5);
    if (step != 1) continue;
    for (size_t i = 0; i < from.size(); ++i) {
      const at::Tensor kept = from[i].clone();
      from[i].copy_(to[i]);
      to[i].copy_(kept);
    }
    t.note("evaluated with the target's weights", t.model->loss(x));
  }
}

void noise_decay_and_clamping_by_hand(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    {
      const at::NoGradGuard no_grad;
      for (auto& p : t.model->parameters()) {
        p.add_(torch::randn(p.sizes()).to(t.device), 0.01);
        p.mul_(1 - 1e-3);
        p.data().clamp_(-0.3, 0.3);
      }
    }
    t.model->loss(rows(5, t.device)).backward();
    t.step();
    t.note_parameters("after the step");
  }
}

// The loop is LibTorch's own optimizer in three lines.
void descent_by_hand(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    const at::NoGradGuard no_grad;
    for (auto& p : t.model->parameters()) p -= 0.1 * p.grad();
    t.model->zero_grad();
    t.note_parameters("after the descent");
  }
}

// Replaced between backward and step, between step and forward, and for an evaluation.
void vectors_of_parameters(T& t) {
  using namespace torch::nn::utils;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = rows(5, t.device);
    t.model->loss(x).backward();
    const at::Tensor before = parameters_to_vector(t.model->parameters()).detach().clone();
    {
      const at::NoGradGuard no_grad;
      vector_to_parameters(before * 1.1, t.model->parameters());
      t.note("perturbed", t.model->loss(x));
      vector_to_parameters(before * 0.9, t.model->parameters());
    }
    t.step();
    t.note("after the step", parameters_to_vector(t.model->parameters()));
    const at::NoGradGuard no_grad;
    vector_to_parameters(parameters_to_vector(t.model->parameters()) * 0.5, t.model->parameters());
    t.note("halved", t.model->loss(x));
  }
}

// One parameter of several in a page is replaced right after a step that nobody has looked at yet.
void one_is_replaced_after_the_step(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    t.step();
    t.model->first->bias.set_data(torch::full_like(t.model->first->bias, 0.25));
    t.note("its neighbour", t.model->norm->weight);
    t.note("replaced", t.model->first->bias);
    t.note("loss", t.model->loss(rows(5, t.device)));
  }
}

// The weights are loaded at every place of a loop.
void loads_in_between(T& t) {
  std::stringstream file;
  {
    auto other = std::make_shared<Mlp>();
    other->to(t.device);
    torch::save(other, file);
  }
  const auto load = [&] {
    file.clear();
    file.seekg(0);
    torch::load(t.model, file, t.device);
  };
  for (int step = 0; step < 4; ++step) {
    if (step == 0) load();
    const at::Tensor loss = t.model->loss(rows(5, t.device));
    t.note("loss", loss);
    loss.backward();
    if (step == 1) load();
    t.step();
    if (step == 2) load();
    t.note_parameters("after the step");
  }
}

void moves_that_change_nothing(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->to(t.device);
    t.model->to(at::kFloat);
    t.model->loss(rows(5, t.device)).backward();
    t.step();
    t.model->to(t.device, at::kFloat);
  }
}

void another_dtype_for_a_while(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->to(at::kDouble);
    {
      const at::NoGradGuard no_grad;
      t.note("in fp64", t.model->loss(rows(5, t.device).to(at::kDouble)));
    }
    t.model->to(at::kFloat);
    t.model->loss(rows(5, t.device)).backward();
    t.step();
  }
}

// Aliases that live long: a flat view, a detached handle, a slice.
void aliases_taken_after_setup(T& t) {
  const at::Tensor flat = t.model->second->weight.detach().view(-1);
  const at::Tensor row = t.model->second->weight.data()[2];
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    t.step();
    t.note("the weight itself", t.model->second->weight);
    t.note("flat view", flat);
    t.note("row", row);
    const at::NoGradGuard no_grad;
    at::Tensor(row).mul_(0.5);
    t.note("written through an alias", t.model->second->weight);
  }
}

void copies_are_plain_models(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    t.model->loss(rows(5, t.device)).backward();
    t.step();
    std::vector<at::Tensor> copies;
    for (const auto& p : t.model->parameters()) copies.push_back(p.clone().detach());
    const at::NoGradGuard no_grad;
    for (auto& copy : copies) {
      copy.view(-1).data_ptr<float>();  // has bytes of its own
      copy.add_(1);
      t.note("copy", copy);
    }
    t.note_parameters("left alone");
  }
}

// First values come from the data of the first batch.
void initialized_by_the_first_batch(T& t) {
  bool fresh = true;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = rows(9, t.device);
    if (std::exchange(fresh, false)) {
      const at::NoGradGuard no_grad;
      const at::Tensor hidden = t.model->first(x);
      t.model->norm->bias.set_data(-hidden.mean(0));
      t.model->norm->weight.data().copy_(1 / (hidden.std(0) + 1e-3));
      t.model->second->weight.data() = torch::eye(67).to(t.device);
      torch::nn::init::orthogonal_(t.model->third->weight);
    }
    const at::Tensor loss = t.model->loss(x);
    t.note("loss", loss);
    loss.backward();
    t.step();
  }
}

void metadata(T& t) {
  for (int step = 0; step < kSteps; ++step) {
    const auto& weight = t.model->second->weight;
    EXPECT_EQ(weight.sizes(), (std::vector<int64_t>{67, 67}));
    EXPECT_EQ(weight.strides(), (std::vector<int64_t>{67, 1}));
    EXPECT_EQ(weight.numel(), 67 * 67);
    EXPECT_EQ(weight.scalar_type(), at::kFloat);
    EXPECT_EQ(weight.device().type(), t.device.type());
    EXPECT_EQ(weight.nbytes(), 67U * 67U * 4U);
    EXPECT_EQ(weight.storage().nbytes(), 67U * 67U * 4U);
    EXPECT_TRUE(weight.is_contiguous());
    EXPECT_TRUE(weight.requires_grad());
    EXPECT_TRUE(weight.is_leaf());
    EXPECT_TRUE(weight.has_storage());
    EXPECT_FALSE(weight.is_sparse());
    EXPECT_FALSE(weight.is_inference());
    EXPECT_EQ(weight.layout(), at::kStrided);
    EXPECT_EQ(weight.storage_offset(), 0);
    EXPECT_EQ(t.model->scale.dim(), 0);
    EXPECT_EQ(at::zeros_like(weight).sizes(), weight.sizes());
    t.note("0-dim", torch::full({}, t.model->scale.item<float>()));
    t.model->loss(rows(5, t.device)).backward();
    t.step();
  }
}

struct Habit {
  const char* name;
  void (*loop)(T&);
};

const std::vector<Habit>& habits() {
  static const std::vector<Habit> all{
      {"decay_in_the_loss", decay_in_the_loss},
      {"weights_of_another_module", weights_of_another_module},
      {"moving_average", moving_average},
      {"target_network", target_network},
      {"noise_decay_and_clamping_by_hand", noise_decay_and_clamping_by_hand},
      {"descent_by_hand", descent_by_hand},
      {"vectors_of_parameters", vectors_of_parameters},
      {"one_is_replaced_after_the_step", one_is_replaced_after_the_step},
      {"loads_in_between", loads_in_between},
      {"moves_that_change_nothing", moves_that_change_nothing},
      {"another_dtype_for_a_while", another_dtype_for_a_while},
      {"aliases_taken_after_setup", aliases_taken_after_setup},
      {"copies_are_plain_models", copies_are_plain_models},
      {"initialized_by_the_first_batch", initialized_by_the_first_batch},
      {"metadata", metadata},
  };
  return all;
}

class ParameterLoops : public ::testing::TestWithParam<Habit> {};
TEST_P(ParameterLoops, AreAsWithLibTorchAlone) { expect_as_libtorch<Mlp>(GetParam().loop); }
INSTANTIATE_TEST_SUITE_P(Habits, ParameterLoops, ::testing::ValuesIn(habits()),
                         [](const auto& info) { return info.param.name; });

// Where a plain step leaves the weights to be refreshed by their next operator, a handle without the
// tag must not show the old ones.
void expect_no_old_weights(const Setting& setting) {
  auto model = std::make_shared<Mlp>();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(setting.options);
  strategy.setup(model, optimizer);
  const auto& weight = model->second->weight;
  const at::Tensor alias = weight.detach();
  for (int step = 0; step < 2; ++step) {
    const at::Tensor old = weight.clone();
    model->loss(rows(5, strategy.device())).backward();
    optimizer.step();
    at::Tensor seen;
    const std::string error = error_of([&] {
      seen = alias.clone();
      (void)weight.storage().data();
    });
    EXPECT_THAT(error, ::testing::AnyOf("", ::testing::HasSubstr("'second.weight'")));
    EXPECT_FALSE(at::equal(weight, old));
    EXPECT_TRUE(!seen.defined() || at::equal(seen, weight));
    EXPECT_TRUE(at::equal(alias, weight)) << "once the weight was used";
    optimizer.zero_grad();
  }
}

TEST(ParameterLoops, ATensorFromBeforeAPlainStepNeverShowsOldWeights) {
  for (const Setting& setting : settings(Update::kOptimizer)) {
    SCOPED_TRACE(setting.name);
    expect_no_old_weights(setting);
  }
}

TEST(ParameterLoops, AParameterResizedOrTransposedInPlaceIsRefusedByName) {
  for (const Setting& setting : settings(Update::kStrategy)) {
    SCOPED_TRACE(setting.name);
    auto model = std::make_shared<Mlp>();
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Strategy strategy(setting.options);
    strategy.setup(model, optimizer);
    const at::NoGradGuard no_grad;
    EXPECT_NE(error_of([&] { model->second->weight.resize_({67, 80}); }), "") << "grown";
    const auto error_after = [&](const auto& change) {
      return error_of([&] {
        change();
        const at::AutoGradMode grad(true);
        model->first(rows(3, strategy.device())).sum().backward();
      });
    };
    EXPECT_THAT(error_after([&] { model->second->weight.t_(); }),
                ::testing::HasSubstr("'second.weight' was given other sizes or strides"));
    model->second->weight.t_();
    EXPECT_EQ(error_after([] {}), "") << "undone";
  }
}

ZERO_RANK_BODY(parameter_loops) {
  for (const Habit& habit : habits()) {
    SCOPED_TRACE(habit.name);
    expect_as_libtorch<Mlp>(habit.loop);
  }
  for (const Setting& setting : settings(Update::kOptimizer)) expect_no_old_weights(setting);
}
TEST(ParameterLoops, OnTwoRanks) { on_test_ranks({2}, "parameter_loops"); }

}  // namespace
}  // namespace zero::testing
