// SPDX-License-Identifier: Apache-2.0
// The optimizer and scheduler sections become LibTorch objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "plugin/config/setting_row.h"
#include "strategy/config_file.h"
#include "strategy/training_objects.h"
#include "support/error_of.h"
#include "zero/lion.h"
#include "zero/strategy.h"

namespace zero {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using namespace torch::optim;

RunConfig config_of(const std::string& json) {
  return resolve_all({}, {parse_json_config(json, "x.json")}).config;
}

std::string section(const std::string& type, const std::string& params) {
  return "{optimizer: {type: " + type + ", params: {" + params + "}}}";
}

std::unique_ptr<Optimizer> built(const std::string& type, const std::string& params = "") {
  return make_optimizer(config_of(section(type, params)).optimizer,
                        {torch::zeros({2}, torch::requires_grad())});
}

template <class Options>
const Options& options_of(const Optimizer& optimizer) {
  return static_cast<const Options&>(optimizer.defaults());
}

TEST(OptimizerSection, BuildsEveryTypeInAnyLetterCase) {
  const auto is = [](const std::unique_ptr<Optimizer>& optimizer, auto* type) {
    return dynamic_cast<decltype(type)>(optimizer.get()) != nullptr;
  };
  EXPECT_TRUE(is(built("adamw"), static_cast<AdamW*>(nullptr)));
  EXPECT_TRUE(is(built("SGD"), static_cast<SGD*>(nullptr)));
  EXPECT_TRUE(is(built("sgd"), static_cast<SGD*>(nullptr)));
  EXPECT_TRUE(is(built("AdaGrad"), static_cast<Adagrad*>(nullptr)));
  EXPECT_TRUE(is(built("rmsprop"), static_cast<RMSprop*>(nullptr)));
  EXPECT_TRUE(is(built("LION"), static_cast<Lion*>(nullptr)));
  EXPECT_TRUE(is(built("Adam"), static_cast<AdamW*>(nullptr)));
  EXPECT_TRUE(is(built("Adam", "adam_w_mode: false"), static_cast<Adam*>(nullptr)));
}

TEST(OptimizerSection, ParametersArriveInTheOptions) {
  const auto adam =
      built("AdamW", "lr: 3e-4, betas: [0.8, 0.95], eps: 1e-6, weight_decay: 0.1, amsgrad: true");
  const auto& a = options_of<AdamWOptions>(*adam);
  EXPECT_EQ(std::tie(a.lr(), a.betas(), a.eps(), a.weight_decay(), a.amsgrad()),
            std::make_tuple(3e-4, std::make_tuple(0.8, 0.95), 1e-6, 0.1, true));
  const auto sgd = built("SGD", "lr: 0.5, momentum: 0.9, weight_decay: 0.01, nesterov: true");
  const auto& s = options_of<SGDOptions>(*sgd);
  EXPECT_EQ(std::tie(s.lr(), s.momentum(), s.weight_decay(), s.nesterov()),
            std::make_tuple(0.5, 0.9, 0.01, true));
  const auto damped = built("SGD", "momentum: 0.9, dampening: 0.1");
  EXPECT_EQ(options_of<SGDOptions>(*damped).dampening(), 0.1);
  const auto adagrad =
      built("Adagrad", "lr: 0.2, lr_decay: 0.3, initial_accumulator_value: 0.4, eps: 1e-7");
  const auto& g = options_of<AdagradOptions>(*adagrad);
  EXPECT_EQ(std::tie(g.lr(), g.lr_decay(), g.initial_accumulator_value(), g.eps()),
            std::make_tuple(0.2, 0.3, 0.4, 1e-7));
  const auto rmsprop = built("RMSprop", "alpha: 0.8, momentum: 0.7, centered: true, eps: 1e-5");
  const auto& r = options_of<RMSpropOptions>(*rmsprop);
  EXPECT_EQ(std::tie(r.alpha(), r.momentum(), r.centered(), r.eps()),
            std::make_tuple(0.8, 0.7, true, 1e-5));
  const auto lion = built("Lion", "lr: 1e-3, betas: [0.8, 0.9], weight_decay: 0.2");
  const auto& l = options_of<LionOptions>(*lion);
  EXPECT_EQ(std::tie(l.lr(), l.betas(), l.weight_decay()),
            std::make_tuple(1e-3, std::make_tuple(0.8, 0.9), 0.2));
}

TEST(OptimizerSection, WhatIsNotGivenHasTheDefaultOfTheTypeButNoHiddenDecay) {
  const auto adamw = built("AdamW");
  EXPECT_EQ(options_of<AdamWOptions>(*adamw).lr(), AdamWOptions().lr());
  EXPECT_EQ(options_of<AdamWOptions>(*adamw).weight_decay(), 0.0);
  const auto rmsprop = built("RMSprop");
  EXPECT_EQ(options_of<RMSpropOptions>(*rmsprop).lr(), RMSpropOptions().lr());
}

TEST(OptimizerSection, AutoAndAMissingSectionAreRefusedByName) {
  EXPECT_THAT(error_of([] { built("AdamW", "lr: auto"); }), HasSubstr("optimizer.params.lr"));
  EXPECT_THAT(error_of([] { make_optimizer(RunConfig().optimizer, {torch::zeros({1})}); }),
              HasSubstr("names no optimizer"));
}

TEST(OptimizerSection, TellsWhereItsNamesMeanSomethingElse) {
  const Resolved resolved =
      resolve_all({}, {parse_json_config(section("Adam", "max_grad_norm: 0.5"), "x.json")});
  EXPECT_EQ(resolved.config.engine.gradient_clipping.peek(), 0.5);
  const std::string notices = ::testing::PrintToString(resolved.notices);
  EXPECT_THAT(notices, HasSubstr("gradient_clipping"));
  EXPECT_THAT(notices, HasSubstr("Adam is AdamW"));
  EXPECT_THAT(notices, HasSubstr("weight_decay is not given"));
}

// The rates of the first steps under a scheduler section, over an optimizer of rate 5e-7.
std::vector<double> rates(const std::string& type, const std::string& params) {
  const RunConfig config = config_of("{scheduler: {type: " + type + ", params: {" + params + "}}}");
  AdamW optimizer({torch::zeros({2})}, AdamWOptions(5e-7));
  const auto scheduler = make_scheduler(config.scheduler, optimizer);
  EXPECT_TRUE(unread_settings(config.scheduler).empty());
  std::vector<double> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(scheduler->rates()[0]);
    all.push_back(
        std::get<0>(static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).betas()));
    scheduler->step();
  }
  return all;
}

// Each parameter of each schedule, turned away from its default, changes what is trained with.
TEST(SchedulerSection, EveryParameterChangesTheRates) {
  struct Case {
    std::string base;
    std::map<std::string, std::string> values;
  };
  const std::map<std::string, Case> cases = {
      {"WarmupLR",
       {"warmup_max_lr: 1e-3",
        {{"warmup_min_lr", "1e-4"},
         {"warmup_num_steps", "20"},
         {"warmup_type", "linear"},
         {"warmup_max_lr", "2e-3"},
         {"last_batch_iteration", "5"}}}},
      {"WarmupDecayLR",
       {"total_num_steps: 30, warmup_num_steps: 10, warmup_max_lr: 1e-3",
        {{"total_num_steps", "20"}, {"warmup_min_lr", "1e-4"}}}},
      {"WarmupCosineLR",
       {"total_num_steps: 30, warmup_num_steps: 10",
        {{"warmup_min_ratio", "0.5"}, {"cos_min_ratio", "0.5"}, {"total_num_steps", "20"}}}},
      {"OneCycle",
       {"cycle_min_lr: 1e-4, cycle_max_lr: 1e-2, cycle_first_step_size: 8, decay_step_size: 2, "
        "decay_lr_rate: 0.1, decay_mom_rate: 0.001",
        {{"cycle_min_lr", "2e-4"},
         {"cycle_max_lr", "2e-2"},
         {"cycle_first_step_size", "9"},
         {"cycle_second_step_size", "5"},
         {"cycle_first_stair_count", "2"},
         {"cycle_second_stair_count", "2"},
         {"decay_step_size", "3"},
         {"decay_lr_rate", "0.2"},
         {"cycle_momentum", "false"},
         {"cycle_min_mom", "0.7"},
         {"cycle_max_mom", "0.95"},
         {"decay_mom_rate", "0.002"}}}},
      {"LRRangeTest",
       {"lr_range_test_step_size: 10",
        {{"lr_range_test_min_lr", "1e-4"},
         {"lr_range_test_step_size", "5"},
         {"lr_range_test_step_rate", "2"},
         {"lr_range_test_staircase", "true"}}}},
  };
  std::set<std::string> turned;
  for (const auto& [type, c] : cases) {
    const auto base = rates(type, c.base);
    for (const auto& [name, value] : c.values) {
      turned.insert(name);
      std::string params;
      std::istringstream parts(c.base);
      for (std::string part; std::getline(parts, part, ',');) {
        if (part.find(name + ":") == std::string::npos) params.append(part).append(", ");
      }
      EXPECT_NE(rates(type, params + name + ": " + value), base) << type << " " << name;
    }
  }
  for (const SettingRow* const row : setting_rows()) {
    const std::string prefix = "scheduler.params.";
    if (!row->name().starts_with(prefix)) continue;
    EXPECT_TRUE(turned.contains(std::string(row->name().substr(prefix.size())))) << row->name();
  }
}

// G090
TEST(SchedulerSection, AMissingMaximumIsTheOptimizersRateAndTold) {
  const auto all = rates("WarmupLR", "warmup_num_steps: 4");
  EXPECT_EQ(all[all.size() - 2], 5e-7);
  const Resolved resolved =
      resolve_all({}, {parse_json_config("{scheduler: {type: WarmupLR}}", "x.json")});
  EXPECT_THAT(::testing::PrintToString(resolved.notices), HasSubstr("warmup_max_lr"));
}

TEST(Sections, AStrategyTrainsWithWhatItBuildsAndRefusesWhatNobodyBuilt) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("zero_sections_" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << R"({"zero_optimization": {"stage": 2}, device: cpu,
    "optimizer": {"type": "SGD", "params": {"lr": 0.5}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.1, "warmup_num_steps": 2}}})";
  torch::nn::Linear model(4, 2);
  const auto step = [&](Strategy& strategy) {
    strategy.backward(model->forward(torch::ones({1, 4})).sum());
    return strategy.step();
  };
  {
    Strategy strategy = Strategy::from_file(file);
    const auto optimizer = strategy.make_optimizer(model->parameters());
    const auto scheduler = strategy.make_scheduler(*optimizer);
    strategy.setup(model, *optimizer);
    const at::Tensor before = model->bias.detach().clone();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(step(strategy).applied);
      scheduler->step();
    }
    // Rates 0, 0 and 0.1 ln(2)/ln(2); the gradient of the bias is 1.
    EXPECT_TRUE(torch::allclose(model->bias.detach(), before - 0.1)) << model->bias << before;
  }
  {
    Strategy strategy = Strategy::from_file(file);
    SGD own(model->parameters(), SGDOptions(0.1));
    strategy.setup(model, own);
    EXPECT_THAT(error_of([&] { step(strategy); }), HasSubstr("make_optimizer()"));
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace zero
