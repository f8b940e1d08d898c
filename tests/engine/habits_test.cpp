// SPDX-License-Identifier: Apache-2.0
// What people do to models, gradients and optimizers around a training loop: it works as with
// LibTorch alone, or one sentence says what to do instead. A wrong number is never the answer.
#include <gtest/gtest.h>

#include <sstream>

#include "engine/blocks.h"
#include "engine/device_ranks.h"

namespace zero::testing {
namespace {

using ::testing::HasSubstr;

struct Case {
  int stage;
  bool offload_optimizer;
  bool offload_parameters;
  const char* precision;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* precision : {"fp32", "bf16"}) {
    for (int stage = 0; stage <= 3; ++stage) {
      cases.push_back({stage, false, false, precision});
      if (stage > 0) cases.push_back({stage, true, false, precision});
    }
    cases.push_back({3, true, true, precision});
  }
  return cases;
}

StrategyOptions options_of(const Case& c) {
  auto options = StrategyOptions()
                     .device(test_device_name())
                     .stage(c.stage)
                     .precision(c.precision)
                     .page_bytes(1 << 20);
  if (c.offload_optimizer) options.offload_optimizer(true);
  if (c.offload_parameters) options.offload_parameters(true);
  return options;
}

std::string name_of(const Case& c) {
  std::ostringstream text;
  text << "stage " << c.stage << (c.offload_optimizer ? ", optimizer offloaded" : "")
       << (c.offload_parameters ? ", parameters offloaded" : "") << ", " << c.precision;
  return text.str();
}

struct Training {
  explicit Training(const StrategyOptions& options, double rate = 0.1)
      : optimizer(model->parameters(), rate), strategy(options) {
    strategy.setup(model, optimizer);
  }
  at::Tensor loss() {
    return model->loss(inputs(strategy.device()).to(model->blocks[0]->weight.dtype()))
        .to(at::kFloat);
  }
  Blocks model{4};
  torch::optim::SGD optimizer;
  Strategy strategy;
};

float first_of(const at::Tensor& tensor) { return tensor.select(0, 0).select(0, 0).item<float>(); }

// Writes by many ways; a step without gradient for that weight must not bring the old values back.
TEST(Habits, WritesByAnyWayStay) {
  const std::vector<std::pair<const char*, std::function<void(at::Tensor&)>>> ways{
      {"in place", [](at::Tensor& weight) { weight.fill_(0.5); }},
      {"detach()", [](at::Tensor& weight) { weight.detach().fill_(0.5); }},
      {"data()", [](at::Tensor& weight) { weight.data().fill_(0.5); }},
      {"data(), to zero first", [](at::Tensor& weight) { weight.data().zero_().add_(0.5); }},
      {"set_data", [](at::Tensor& weight) { weight.set_data(at::full_like(weight, 0.5)); }},
  };
  for (const Case& c : all_cases()) {
    for (const auto& [way, write] : ways) {
      SCOPED_TRACE(name_of(c) + ", " + way);
      Training training(options_of(c), 0.0);
      training.loss().backward();
      training.strategy.step();
      {
        at::NoGradGuard no_grad;
        write(training.model->blocks[1]->weight);
      }
      EXPECT_EQ(first_of(training.model->blocks[1]->weight), 0.5f);
      training.loss().backward();
      training.strategy.step();
      EXPECT_EQ(first_of(training.model->blocks[1]->weight), 0.5f) << "after a step at rate 0";
      training.loss().backward();
      training.optimizer.step();
      EXPECT_EQ(first_of(training.model->blocks[1]->weight), 0.5f) << "after a plain step";
    }
  }
}

TEST(Habits, ALoadAfterSetupIsTakenOrRefused) {
  Blocks other(4);
  {
    at::NoGradGuard no_grad;
    for (auto& parameter : other->parameters()) parameter.fill_(0.25);
  }
  std::stringstream file;
  torch::save(other, file);
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(name_of(c));
    Training training(options_of(c), 0.0);
    file.seekg(0);
    torch::load(training.model, file, training.strategy.device());
    const std::string error = error_of([&] {
      training.loss().backward();
      training.strategy.step();
      EXPECT_EQ(first_of(training.model->blocks[3]->weight), 0.25f);
    });
    if (!error.empty()) {
      EXPECT_THAT(error, HasSubstr("'block0.weight'"));
      EXPECT_STREQ(c.precision, "bf16") << "an fp32 file fits an fp32 model: " << error;
    }
  }
}

TEST(Habits, AGraphFromBeforeTheStepIsRefusedAsByLibTorch) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(name_of(c));
    Training training(options_of(c));
    const at::Tensor loss = training.loss();
    loss.backward({}, /*retain_graph=*/true);
    training.strategy.step();
    EXPECT_THAT(error_of([&] { loss.backward(); }), HasSubstr("modified by an inplace operation"));
  }
}

TEST(Habits, GradientsClearedBeforeTheStepAreNotApplied) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(name_of(c));
    Training training(options_of(c));
    const float before = first_of(training.model->blocks[0]->weight);
    training.loss().backward();
    training.model->zero_grad();
    training.strategy.step();
    training.loss().backward();
    training.optimizer.zero_grad();
    training.strategy.step();
    EXPECT_EQ(first_of(training.model->blocks[0]->weight), before);
  }
}

TEST(Habits, AFailedSetupLeavesTheModelAsItWas) {
  Blocks model(2), expected(2);
  torch::optim::SGD good(model->parameters(), 0.1);
  torch::optim::LBFGS bad(model->parameters());
  Strategy strategy(StrategyOptions().device("cpu").stage(3).offload_parameters(true));
  EXPECT_NE(error_of([&] { strategy.setup(model, bad); }), "");
  EXPECT_TRUE(at::equal(model->blocks[1]->weight, expected->blocks[1]->weight));
  strategy.setup(model, good);
  strategy.backward(model->loss(inputs(at::kCPU)));
  strategy.step();
}

TEST(Habits, ASecondSetupTrainsAndIsReportedByItself) {
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu").stage(2));
  strategy.setup(model, optimizer);
  const MemoryReport first = strategy.memory_report();
  strategy.teardown();
  const auto hook =
      model->blocks[0]->weight.register_hook([](const at::Tensor& grad) { return grad * 0; });
  strategy.setup(model, optimizer);
  const MemoryReport second = strategy.memory_report();
  EXPECT_EQ(second.live_parameter_bytes, first.live_parameter_bytes);
  for (int i = 0; i < kMemoryClasses; ++i) {
    EXPECT_EQ(second.predicted[i].device, first.predicted[i].device);
    EXPECT_EQ(second.booked[i].device, first.booked[i].device);
  }
  // It trains, and a hook that the user had put on a parameter before counts.
  const at::Tensor hooked = model->blocks[0]->weight.clone();
  const at::Tensor free = model->blocks[1]->weight.clone();
  strategy.backward(model->loss(inputs(at::kCPU)));
  strategy.step();
  EXPECT_TRUE(at::equal(model->blocks[0]->weight, hooked));
  EXPECT_FALSE(at::equal(model->blocks[1]->weight, free));
  model->blocks[0]->weight.remove_hook(hook);
}

TEST(Habits, AModelUnderTwoStrategiesIsRefused) {
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1), second(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu"));
  strategy.setup(model, optimizer);
  Strategy other(StrategyOptions().device("cpu"));
  EXPECT_THAT(error_of([&] { other.setup(model, second); }), HasSubstr("another strategy"));
}

TEST(Habits, GroupsAddedAfterSetupAndMovedOptimizersAreRefused) {
  Training training(StrategyOptions().device("cpu").stage(2));
  training.optimizer.add_param_group(
      torch::optim::OptimizerParamGroup({at::ones({2}).requires_grad_()}));
  training.loss().backward();
  EXPECT_THAT(error_of([&] { training.strategy.step(); }), HasSubstr("groups have changed"));

  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu").stage(2));
  strategy.setup(model, optimizer);
  const torch::optim::SGD moved(std::move(optimizer));
  model->loss(inputs(at::kCPU)).backward();
  EXPECT_THAT(error_of([&] { strategy.step(); }), HasSubstr("groups have changed"));
}

TEST(Habits, AStepInsideAScopeChangesNothingAndCanBeRepeated) {
  Training training(StrategyOptions()
                        .device(test_device_name())
                        .stage(3)
                        .offload_parameters(true)
                        .page_bytes(1 << 20));
  const float before = first_of(training.model->blocks[0]->weight);
  training.loss().backward();
  {
    GatheredParameters scope(training.strategy, {training.model->blocks[3]->weight});
    EXPECT_THAT(error_of([&] { training.strategy.step(); }), HasSubstr("Close the scope"));
    EXPECT_THAT(error_of([&] { training.strategy.teardown(); }), HasSubstr("scope is open"));
  }
  EXPECT_EQ(first_of(training.model->blocks[0]->weight), before);
  EXPECT_TRUE(training.strategy.step().applied);
  EXPECT_NE(first_of(training.model->blocks[0]->weight), before);
}

TEST(Habits, StrategiesMoveAndReplaceEachOther) {
  Blocks model(2), other(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1), second(other->parameters(), 0.1);
  Strategy first(StrategyOptions().device("cpu").stage(3).offload_parameters(true));
  first.setup(model, optimizer);
  Strategy moved(std::move(first));
  EXPECT_THAT(error_of([&] { first.step(); }), HasSubstr("moved from"));
  EXPECT_THAT(error_of([&] { (void)first.engine_config(); }), HasSubstr("moved from"));
  moved = Strategy(StrategyOptions().device("cpu").stage(1));  // the first model is put back
  EXPECT_NE(model->blocks[0]->weight.data_ptr<float>(), nullptr);
  moved.setup(other, second);
  moved.backward(other->loss(inputs(at::kCPU)));
  EXPECT_TRUE(moved.step().applied);
}

TEST(Habits, AnExceptionThatEndsTheStrategyPutsTheModelBack) {
  Blocks model(2), expected(2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  EXPECT_THROW(
      {
        Strategy strategy(StrategyOptions().device("cpu").stage(3).offload_parameters(true));
        strategy.setup(model, optimizer);
        throw std::runtime_error("the user's own");
      },
      std::runtime_error);
  EXPECT_TRUE(at::equal(model->blocks[1]->weight, expected->blocks[1]->weight));
}

TEST(Habits, InferenceModeBetweenPlainStepsDoesNotEndTraining) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(name_of(c));
    Training training(options_of(c));
    for (int step = 0; step < 3; ++step) {
      {
        const c10::InferenceMode inference;
        EXPECT_TRUE(std::isfinite(training.loss().item<double>()));
      }
      training.optimizer.zero_grad();
      training.loss().backward();
      training.optimizer.step();
    }
  }
}

TEST(Habits, APlainStepOverManySmallParametersIsNotQuadratic) {
  torch::nn::Sequential model;
  for (int i = 0; i < 300; ++i)
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(4, 4).bias(false)));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Strategy strategy(StrategyOptions().device("cpu").stage(1).offload_optimizer(true));
  strategy.setup(model, optimizer);
  model->forward(at::rand({1, 4})).sum().backward();
  optimizer.step();
  // One tag and one refresh of the page for the whole step, whatever its parameters are.
  const auto version = model->parameters()[0]._version();
  model->forward(at::rand({1, 4})).sum().backward();
  optimizer.step();
  EXPECT_LE(model->parameters()[0]._version() - version, 2U);
}

ZERO_RANK_BODY(optimizers_differ) {
  const char* const rank = std::getenv("RANK");
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), rank[0] == '0' ? 0.1 : 0.2);
  Strategy strategy(StrategyOptions().device(test_device_name()).stage(2));
  EXPECT_THAT(error_of([&] { strategy.setup(model, optimizer); }), HasSubstr("learning rate"));
}

TEST(Habits, RanksWithDifferentOptimizersAreToldSo) { on_test_ranks({2}, "optimizers_differ"); }

}  // namespace
}  // namespace zero::testing
