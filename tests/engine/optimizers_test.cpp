// SPDX-License-Identifier: Apache-2.0
// Whatever torch::optim objects people use, and however they hold, build and change them: the
// numbers are those of LibTorch alone, at every stage, or one sentence says what to do instead.
#include "engine/optimizer_loops.h"

namespace zero::testing {
namespace {

using ::testing::HasSubstr;
namespace optim = torch::optim;

// Moves each element by the sign of its smoothed gradient: a user's own class, with its own state.
struct SignOptions : optim::OptimizerCloneableOptions<SignOptions> {
  TORCH_ARG(double, lr) = 0.01;
};
struct SignState : optim::OptimizerCloneableParamState<SignState> {
  TORCH_ARG(at::Tensor, mean);
};
class SignOptimizer : public optim::Optimizer {
 public:
  explicit SignOptimizer(std::vector<at::Tensor> parameters)
      : Optimizer({optim::OptimizerParamGroup(std::move(parameters))},
                  std::make_unique<SignOptions>()) {}
  at::Tensor step(LossClosure = nullptr) override {
    const at::NoGradGuard no_grad;
    for (auto& group : param_groups()) {
      const double rate = static_cast<SignOptions&>(group.options()).lr();
      for (auto& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        auto& slot = state()[parameter.unsafeGetTensorImpl()];
        if (!slot) {
          auto fresh = std::make_unique<SignState>();
          fresh->mean(at::zeros_like(parameter));
          slot = std::move(fresh);
        }
        at::Tensor& mean = static_cast<SignState&>(*slot).mean();
        mean.mul_(0.5).add_(parameter.grad());
        parameter.sub_(mean / (mean.abs() + 1e-3), rate);
      }
    }
    return {};
  }
};

// An Adam that does something after Adam's step.
class ShrinkingAdam : public optim::Adam {
 public:
  using Adam::Adam;
  at::Tensor step(LossClosure closure = nullptr) override {
    const at::Tensor loss = Adam::step(closure);
    const at::NoGradGuard no_grad;
    for (auto& parameter : param_groups()[0].params()) parameter.mul_(0.99);
    return loss;
  }
};

void allow_untested(StrategyOptions& options) { options.zero_allow_untested_optimizer(true); }

ZERO_RANK_BODY(own_optimizers) {
  for (const bool plain_step : {false, true}) {
    SCOPED_TRACE(plain_step ? "optimizer.step()" : "strategy.step()");
    const auto run = [&](Bench& bench, optim::Optimizer& optimizer) {
      bench.setup(optimizer);
      for (int i = 0; i < 5; ++i) {
        bench.loss(i).backward();
        if (plain_step) {
          optimizer.step();
          optimizer.zero_grad();
        } else {
          bench.step(optimizer);
        }
      }
    };
    expect_plain_numbers(
        [&](Bench& bench) {
          SignOptimizer optimizer(bench.model->parameters());
          run(bench, optimizer);
        },
        allow_untested);
    expect_plain_numbers(
        [&](Bench& bench) {
          ShrinkingAdam optimizer(bench.model->parameters(), optim::AdamOptions(0.01).eps(1e-4));
          run(bench, optimizer);
        },
        allow_untested);
  }
}

TEST(Optimizers, OnesOfTheUsersOwnRunOnTheShardsWhenAllowed) {
  on_test_ranks({1, 2}, "own_optimizers");
}

TEST(Optimizers, UntestedOnesAreRefusedWithTheFlagAndLbfgsAlways) {
  Net model;
  const auto refusal = [&](optim::Optimizer& optimizer, bool allowed) {
    auto options = at_stage(1);
    if (allowed) options.zero_allow_untested_optimizer(true);
    return error_of([&] { Strategy(options).setup(model, optimizer); });
  };
  SignOptimizer sign(model->parameters());
  ShrinkingAdam adam(model->parameters(), optim::AdamOptions(0.01));
  optim::LBFGS lbfgs(model->parameters());
  EXPECT_THAT(refusal(sign, false), HasSubstr("zero_allow_untested_optimizer"));
  EXPECT_THAT(refusal(adam, false), HasSubstr("zero_allow_untested_optimizer"));
  EXPECT_THAT(refusal(lbfgs, false), HasSubstr("dot products"));
  EXPECT_THAT(refusal(lbfgs, true), HasSubstr("dot products"));
  EXPECT_EQ(refusal(sign, true), "");
}

ZERO_RANK_BODY(rebuilt_each_epoch) {
  for (const bool plain_step : {false, true}) {
    expect_plain_numbers([&](Bench& bench) {
      for (int epoch = 0; epoch < 4; ++epoch) {
        std::unique_ptr<optim::Optimizer> optimizer;
        if (epoch % 2 == 0) {
          optimizer = std::make_unique<optim::Adam>(bench.model->parameters(),
                                                    optim::AdamOptions(0.02).eps(1e-4));
        } else {
          optimizer = std::make_unique<optim::SGD>(bench.model->parameters(),
                                                   optim::SGDOptions(0.1).momentum(0.9));
        }
        bench.setup(*optimizer);
        for (int i = 3 * epoch; i < 3 * epoch + 3; ++i) {
          bench.loss(i).backward();
          if (plain_step) {
            optimizer->step();
            optimizer->zero_grad();
          } else {
            bench.step(*optimizer);
          }
        }
      }
    });
  }
}

TEST(Optimizers, OneBuiltAnewEachEpochGoesOnAfterSetup) {
  on_test_ranks({1, 2}, "rebuilt_each_epoch");
}

TEST(Optimizers, ASecondSetupKeepsTheExactMasters) {
  Net model;
  auto first = std::make_unique<optim::SGD>(model->parameters(), 0.1);
  Strategy strategy(at_stage(2).precision("bf16"));
  strategy.setup(model, *first);
  for (int i = 0; i < 3; ++i) {
    model(at::ones({2, 7}).to(strategy.device(), at::kBFloat16)).to(at::kFloat).sum().backward();
    strategy.step();
  }
  const at::Tensor before = first->param_groups()[0].params()[0].clone();
  first.reset();
  optim::Adam second(model->parameters(), 0.1);
  strategy.setup(model, second);
  EXPECT_TRUE(at::equal(second.param_groups()[0].params()[0].clone(), before));
  EXPECT_FALSE(at::equal(before, before.to(at::kBFloat16).to(at::kFloat)));
}

TEST(Optimizers, ASecondSetupOfSomethingElseIsRefused) {
  Net model, other;
  optim::SGD optimizer(model->body->parameters(), 0.1), all(model->parameters(), 0.1),
      foreign(other->parameters(), 0.1);
  Strategy strategy(at_stage(2));
  strategy.setup(model, optimizer);
  EXPECT_THAT(error_of([&] { strategy.setup(other, foreign); }), HasSubstr("other models"));
  EXPECT_THAT(error_of([&] { strategy.setup(model, all); }), HasSubstr("'head.weight'"));
  EXPECT_THAT(error_of([&] { strategy.setup(model, foreign); }), HasSubstr("no parameter"));
}

ZERO_RANK_BODY(several_optimizers) {
  expect_plain_numbers([](Bench& bench) {
    optim::Adam body(bench.model->body->parameters(), optim::AdamOptions(0.02).eps(1e-4));
    optim::SGD head(bench.model->head->parameters(), optim::SGDOptions(0.1).momentum(0.9));
    if (bench.strategy) bench.strategy->setup({&*bench.model}, {&body, &head});
    for (int i = 0; i < 6; ++i) {
      bench.loss(i).backward();
      if (i % 3 == 0) {  // the body's gradients stay, and those of the next step are added to them
        bench.step(head);
      } else if (bench.strategy) {
        bench.strategy->step();
      } else {
        bench.step(body);
        bench.step(head);
      }
    }
  });
  // Plain steps, each clearing its own.
  expect_plain_numbers([](Bench& bench) {
    optim::Adam body(bench.model->body->parameters(), optim::AdamOptions(0.02).eps(1e-4));
    optim::SGD head(bench.model->head->parameters(), optim::SGDOptions(0.1).momentum(0.9));
    if (bench.strategy) bench.strategy->setup({&*bench.model}, {&body, &head});
    for (int i = 0; i < 4; ++i) {
      bench.loss(i).backward();
      head.step();
      head.zero_grad();
      if (i % 2 == 0) continue;
      body.step();
      body.zero_grad();
    }
  });
}

TEST(Optimizers, SeveralOfOneModelStepAndClearTheirOwn) {
  on_test_ranks({1, 2}, "several_optimizers");
}

ZERO_RANK_BODY(one_over_two_models) {
  expect_plain_numbers([](Bench& bench) {
    auto parameters = bench.model->parameters();
    for (const auto& parameter : bench.other->parameters()) parameters.push_back(parameter);
    optim::AdamW optimizer(parameters, optim::AdamWOptions(0.02).eps(1e-4));
    if (bench.strategy) bench.strategy->setup({&*bench.model, &*bench.other}, {&optimizer});
    for (int i = 0; i < 4; ++i) {
      (bench.loss(i) + bench.loss(i, bench.other)).backward();
      bench.step(optimizer);
    }
  });
}

TEST(Optimizers, OneMayHoldTwoModels) { on_test_ranks({1, 2}, "one_over_two_models"); }

// `model` makes, `other` judges. The maker's gradients also reach the judge, which must not keep
// them.
void adversarial(Bench& bench, bool two_strategies) {
  optim::Adam maker(bench.model->parameters(), optim::AdamOptions(0.01).eps(1e-4));
  optim::Adam judge(bench.other->parameters(), optim::AdamOptions(0.01).eps(1e-4));
  std::unique_ptr<Strategy> second;
  Strategy* judges = bench.strategy.get();
  if (bench.strategy && two_strategies) {
    bench.strategy->setup(bench.model, maker);
    second = std::make_unique<Strategy>(
        StrategyOptions(at_stage(bench.strategy->engine_config().stage.peek())));
    second->setup(bench.other, judge);
    judges = second.get();
  } else if (bench.strategy) {
    bench.strategy->setup({&*bench.model, &*bench.other}, {&maker, &judge});
  }
  const auto mean = [&](const auto& of_batch) {
    at::Tensor sum;
    for (int rank = 0; rank < test_world_size(); ++rank) {
      if (!bench.plain() && rank != test_rank()) continue;
      const at::Tensor loss = of_batch(rank);
      sum = sum.defined() ? sum + loss : loss;
    }
    return bench.plain() ? sum / test_world_size() : sum;
  };
  const auto judged = [&](const at::Tensor& made) {
    return bench.other(at::cat({made, made, made.slice(1, 0, 1)}, 1));
  };
  for (int i = 0; i < 4; ++i) {
    judge.zero_grad();
    mean([&](int rank) {
      return judged(bench.model(Bench::batch(i, rank)).detach()).square().mean();
    }).backward();
    if (judges != nullptr) {
      judges->step(judge);
    } else {
      judge.step();
    }
    maker.zero_grad();
    mean([&](int rank) {
      return (judged(bench.model(Bench::batch(i, rank))) - 1).square().mean();
    }).backward();
    bench.step(maker);
  }
}

ZERO_RANK_BODY(adversaries) {
  expect_plain_numbers([](Bench& bench) { adversarial(bench, false); });
  expect_plain_numbers([](Bench& bench) { adversarial(bench, true); });
}

TEST(Optimizers, AdversariesUnderOneStrategyOrTwo) { on_test_ranks({1, 2}, "adversaries"); }

TEST(Optimizers, AParameterInTwoOptimizersIsRefused) {
  Net model;
  optim::SGD first(model->parameters(), 0.1), second(model->head->parameters(), 0.1);
  Strategy strategy(at_stage(2));
  EXPECT_THAT(error_of([&] {
                strategy.setup({&*model}, {&first, &second});
              }),
              HasSubstr("optimizers 0 and 1"));
  optim::SGD stranger(Net()->parameters(), 0.1);
  strategy.setup(model, first);
  EXPECT_THAT(error_of([&] { strategy.step(stranger); }), HasSubstr("was not given to setup"));
}

}  // namespace
}  // namespace zero::testing
