// SPDX-License-Identifier: Apache-2.0
// What people change about an optimizer while they train: options, rates, groups, what is frozen,
// who steps, and where its state lives.
#include "engine/optimizer_loops.h"

namespace zero::testing {
namespace {

using ::testing::HasSubstr;
namespace optim = torch::optim;

ZERO_RANK_BODY(frozen_and_thawed) {
  for (const bool frozen_at_setup : {true, false}) {
    SCOPED_TRACE(frozen_at_setup ? "frozen at setup" : "frozen later");
    expect_plain_numbers([&](Bench& bench) {
      optim::AdamW optimizer(bench.model->parameters(),
                             optim::AdamWOptions(0.02).eps(1e-4).weight_decay(0.1));
      const auto train_body = [&](bool yes) {
        for (auto& parameter : bench.model->body->parameters()) parameter.requires_grad_(yes);
      };
      if (frozen_at_setup) train_body(false);
      bench.setup(optimizer);
      bench.train(optimizer, 0, 2);
      train_body(frozen_at_setup);
      bench.train(optimizer, 2, 2);
      train_body(true);
      bench.train(optimizer, 4, 2);
      train_body(false);
      bench.train(optimizer, 6, 2);
      train_body(true);
      for (int i = 8; i < 10; ++i) {
        bench.loss(i).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
    });
  }
}

TEST(Optimizers, ParametersMayBeFrozenAndThawedBetweenSteps) {
  on_test_ranks({1, 2}, "frozen_and_thawed");
}

TEST(Optimizers, FrozenParametersTakeNoStateAndNoGradients) {
  const auto booked = [](bool frozen) {
    Net model;
    if (frozen) model->body->weight.requires_grad_(false);
    optim::Adam optimizer(model->parameters(), 0.1);
    Strategy strategy(at_stage(1));
    strategy.setup(model, optimizer);
    const auto report = strategy.memory_report();
    return report.booked[static_cast<int>(MemoryClass::kMoments)].device +
           report.booked[static_cast<int>(MemoryClass::kGradientHome)].device;
  };
  // The body's weight has 133 elements: two moments and a gradient of it.
  EXPECT_GE(booked(false) - booked(true), 3 * 133 * 4);
}

// Undefined for some steps: no update, no decay of weights or moments.
ZERO_RANK_BODY(without_gradients_for_a_while) {
  for (const bool plain_step : {false, true}) {
    expect_plain_numbers([&](Bench& bench) {
      optim::AdamW optimizer(bench.model->parameters(),
                             optim::AdamWOptions(0.02).eps(1e-4).weight_decay(0.1));
      bench.setup(optimizer);
      for (int i = 0; i < 8; ++i) {
        bench.loss(i).backward();
        if (i >= 2 && i < 5) bench.model->body->weight.mutable_grad().reset();
        if (plain_step) {
          optimizer.step();
          optimizer.zero_grad();
        } else {
          bench.step(optimizer);
        }
      }
    });
  }
}

TEST(Optimizers, AnUndefinedGradientUpdatesNothingAndDecaysNothing) {
  on_test_ranks({1, 2}, "without_gradients_for_a_while");
}

TEST(Optimizers, BuiltBeforeOrAfterToAndHeldInAnyWay) {
  expect_plain_numbers([](Bench& bench) {
    auto held = std::make_unique<optim::AdamW>(bench.model->parameters(),
                                               optim::AdamWOptions(0.02).eps(1e-4));
    bench.model->to(test_device());
    optim::AdamW& optimizer = *held;
    bench.setup(optimizer);
    bench.train(optimizer, 0, 3);
  });
  expect_plain_numbers([](Bench& bench) {
    bench.model->to(test_device());
    optim::AdamW optimizer(bench.model->parameters(), optim::AdamWOptions(0.02).eps(1e-4));
    bench.setup(optimizer);
    bench.train(optimizer, 0, 3);
  });
}

ZERO_RANK_BODY(options_change) {
  expect_plain_numbers([](Bench& bench) {
    optim::SGD optimizer(bench.model->parameters(), optim::SGDOptions(0.1));
    bench.setup(optimizer);
    bench.train(optimizer, 0, 2);
    static_cast<optim::SGDOptions&>(optimizer.param_groups()[0].options()).momentum(0.9);
    bench.train(optimizer, 2, 3);
    static_cast<optim::SGDOptions&>(optimizer.param_groups()[0].options()).lr(0.02);
    bench.train(optimizer, 5, 2);
  });
}

TEST(Optimizers, MomentumMayBeSwitchedOnAndRatesSetThroughOptions) {
  on_test_ranks({1, 2}, "options_change");
}

ZERO_RANK_BODY(schedulers) {
  expect_plain_numbers([](Bench& bench) {
    optim::AdamW optimizer(bench.model->parameters(), optim::AdamWOptions(0.05).eps(1e-4));
    optim::StepLR before(optimizer, /*step_size=*/2, /*gamma=*/0.3);  // made before setup
    bench.setup(optimizer);
    optim::ReduceLROnPlateauScheduler plateau(optimizer, optim::ReduceLROnPlateauScheduler::min,
                                              0.5,
                                              /*patience=*/1);
    for (int i = 0; i < 8; ++i) {
      bench.loss(i).backward();
      if (i % 2 == 0) {
        bench.step(optimizer);
      } else {
        optimizer.step();
        optimizer.zero_grad();
      }
      before.step();
      plateau.step(1.0f);  // never better, so it reduces
    }
  });
}

TEST(Optimizers, LearningRateSchedulersOfLibTorchAct) { on_test_ranks({1, 2}, "schedulers"); }

template <class Optimizer, class Options>
void expect_state_travels(const Options& options) {
  // Plain steps, steps under the strategy, and plain steps again are one training.
  expect_plain_numbers([&](Bench& bench) {
    Optimizer optimizer(bench.model->parameters(), options);
    if (!bench.plain()) bench.model->to(test_device());
    Bench alone(std::nullopt);  // computes the plain steps on all ranks' batches
    const auto plain_steps = [&](int first) {
      for (int i = first; i < first + 2; ++i) {
        optimizer.zero_grad();
        alone.loss(i, bench.model).backward();
        optimizer.step();
      }
      optimizer.zero_grad();
    };
    plain_steps(0);
    bench.setup(optimizer);
    bench.train(optimizer, 2, 3);
    if (bench.strategy) bench.strategy->teardown();
    plain_steps(5);
  });
}

ZERO_RANK_BODY(state_travels) {
  expect_state_travels<optim::AdamW>(optim::AdamWOptions(0.02).eps(1e-4).amsgrad(true));
  expect_state_travels<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9));
  expect_state_travels<optim::Adagrad>(
      optim::AdagradOptions(0.05).lr_decay(0.1).initial_accumulator_value(0.3));
  expect_state_travels<optim::RMSprop>(
      optim::RMSpropOptions(0.01).momentum(0.5).centered(true).eps(1e-3));
}

TEST(Optimizers, StateComesAlongAtSetupAndIsGivenBackWholeAtTeardown) {
  on_test_ranks({1, 2}, "state_travels");
}

ZERO_RANK_BODY(steps_mixed) {
  expect_plain_numbers([](Bench& bench) {
    optim::AdamW optimizer(bench.model->parameters(), optim::AdamWOptions(0.02).eps(1e-4));
    bench.setup(optimizer);
    for (int i = 0; i < 6; ++i) {
      bench.loss(i).backward();
      if (i % 2 == 0) bench.step(optimizer);
      optimizer.step();  // after a strategy.step() there are no gradients: nothing happens
      optimizer.zero_grad();
    }
    // A closure computes loss and gradients inside of step().
    for (int i = 6; i < 8; ++i) {
      const at::Tensor loss = optimizer.step([&] {
        optimizer.zero_grad();
        const at::Tensor value = bench.loss(i);
        value.backward();
        return value;
      });
      EXPECT_TRUE(loss.defined());
    }
  });
}

TEST(Optimizers, PlainStepsClosuresAndStrategyStepsMayBeMixed) {
  on_test_ranks({1, 2}, "steps_mixed");
}

ZERO_RANK_BODY(groups) {
  expect_plain_numbers([](Bench& bench) {
    std::vector<optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<at::Tensor>(), std::make_unique<optim::AdamOptions>(0.5));
    groups.emplace_back(
        std::vector<at::Tensor>{bench.model->body->weight, bench.model->head->weight},
        std::make_unique<optim::AdamOptions>(optim::AdamOptions(0.02).eps(1e-4)));
    groups.emplace_back(std::vector<at::Tensor>{bench.model->head->bias},
                        std::make_unique<optim::AdamOptions>(optim::AdamOptions(0.01).eps(1e-4)));
    bench.model->head->bias.requires_grad_(false);
    bench.model->body->bias.requires_grad_(false);
    optim::Adam optimizer(groups, optim::AdamOptions(0.1));
    bench.setup(optimizer);
    bench.train(optimizer, 0, 2);
    EXPECT_EQ(optimizer.param_groups().size(), 3U);
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.5);
  });
}

TEST(Optimizers, EmptyGroupsAndGroupsOfFrozenParametersAreKept) { on_test_ranks({1, 2}, "groups"); }

TEST(Optimizers, AGroupAddedLaterIsToldToCallSetupAgain) {
  Net model;
  model->head->weight.requires_grad_(false);
  optim::SGD optimizer(model->body->parameters(), 0.1);
  optim::SGD all(model->parameters(), 0.1);
  Strategy strategy(at_stage(2));
  strategy.setup(model, optimizer);
  optimizer.add_param_group(optim::OptimizerParamGroup({model->head->bias}));
  model(at::ones({2, 7}).to(strategy.device())).sum().backward();
  EXPECT_THAT(error_of([&] { strategy.step(); }), HasSubstr("Call setup() again"));
  EXPECT_THAT(error_of([&] { strategy.setup(model, optimizer); }),
              HasSubstr("Call teardown(), then setup()"));
  strategy.teardown();
  strategy.setup(model, optimizer);
  const at::Tensor before = model->head->bias.clone();
  model(at::ones({2, 7}).to(strategy.device())).sum().backward();
  strategy.step();
  EXPECT_FALSE(at::equal(model->head->bias.clone(), before));
}

TEST(Optimizers, AMovedOneGoesOnAfterSetup) {
  Net model;
  optim::Adam optimizer(model->parameters(), 0.1);
  Strategy strategy(at_stage(2));
  strategy.setup(model, optimizer);
  const auto pass = [&] { model(at::ones({2, 7}).to(strategy.device())).sum().backward(); };
  pass();
  strategy.step();
  optim::Adam moved(std::move(optimizer));
  strategy.setup(model, moved);
  pass();
  EXPECT_TRUE(strategy.step().applied);
  const auto* key = moved.param_groups()[0].params()[0].unsafeGetTensorImpl();
  const auto& state = moved.state().at(const_cast<c10::TensorImpl*>(key));
  EXPECT_EQ(static_cast<optim::AdamParamState&>(*state).step(), 2);
}

}  // namespace
}  // namespace zero::testing
