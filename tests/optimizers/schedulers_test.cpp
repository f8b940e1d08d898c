// SPDX-License-Identifier: Apache-2.0
// The rates of every schedule, against its formula written out here.
#include "zero/schedulers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "zero/lion.h"

namespace {

using ::testing::HasSubstr;
using zero::WarmupType;

constexpr double kOwnRate = 5e-7;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

// Two groups: the second has twice the rate.
std::unique_ptr<torch::optim::AdamW> two_groups() {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>{torch::zeros({2})});
  groups.emplace_back(std::vector<at::Tensor>{torch::zeros({2})},
                      std::make_unique<torch::optim::AdamWOptions>(2 * kOwnRate));
  return std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions(kOwnRate));
}

// The rates of the first `count` optimizer steps.
std::vector<double> rates_of(zero::Scheduler& scheduler, int count, size_t group = 0) {
  std::vector<double> rates;
  for (int i = 0; i < count; ++i) {
    rates.push_back(scheduler.rates()[group]);
    scheduler.step();
  }
  return rates;
}

void expect_rates(const std::vector<double>& got, const std::function<double(int)>& expected) {
  for (size_t i = 0; i < got.size(); ++i) {
    const double right = expected(static_cast<int>(i) - 1);
    EXPECT_NEAR(got[i], right, 1e-13 * std::abs(right)) << "optimizer step " << i + 1;
  }
}

TEST(WarmupLRSchedule, LogarithmicWarmUpThenTheMaximum) {
  const auto optimizer = two_groups();
  zero::WarmupLR scheduler(
      *optimizer,
      zero::WarmupOptions().warmup_min_lr(1e-5).warmup_max_lr(1e-3).warmup_num_steps(10));
  expect_rates(rates_of(scheduler, 25), [](int n) {
    if (n < 0) return 1e-5;
    return n < 10 ? 1e-5 + (1e-3 - 1e-5) * std::log(n + 1) / std::log(10) : 1e-3;
  });
  EXPECT_EQ(scheduler.steps(), 25);
}

TEST(WarmupLRSchedule, LinearWarmUp) {
  const auto optimizer = two_groups();
  zero::WarmupLR scheduler(
      *optimizer, zero::WarmupOptions().warmup_max_lr(2e-3).warmup_num_steps(8).warmup_type(
                      WarmupType::kLinear));
  expect_rates(rates_of(scheduler, 12), [](int n) {
    return n < 0 ? 0.0 : n < 8 ? 2e-3 * n / 8.0 : 2e-3;
  });
}

TEST(WarmupLRSchedule, WithoutAMaximumEachGroupReachesItsOwnRate) {
  const auto optimizer = two_groups();
  zero::WarmupLR scheduler(*optimizer, zero::WarmupOptions().warmup_num_steps(4));
  for (int i = 0; i < 6; ++i) scheduler.step();
  EXPECT_EQ(scheduler.rates(), (std::vector<double>{kOwnRate, 2 * kOwnRate}));
}

TEST(WarmupLRSchedule, OneStepOfWarmUpCountsAsTwo) {
  const auto optimizer = two_groups();
  zero::WarmupLR scheduler(*optimizer,
                           zero::WarmupOptions().warmup_max_lr(1.0).warmup_num_steps(1));
  expect_rates(rates_of(scheduler, 5), [](int n) { return n < 1 ? 0.0 : 1.0; });
}

TEST(WarmupDecayLRSchedule, FallsToZeroInAStraightLine) {
  const auto optimizer = two_groups();
  zero::WarmupDecayLR scheduler(
      *optimizer,
      zero::WarmupDecayOptions(20).warmup_min_lr(1e-4).warmup_max_lr(1e-2).warmup_num_steps(5));
  expect_rates(rates_of(scheduler, 30), [](int n) {
    if (n < 0) return 1e-4;
    const double gamma = n < 5 ? std::log(n + 1) / std::log(5) : n < 20 ? (20.0 - n) / 15.0 : 0.0;
    return 1e-4 + (1e-2 - 1e-4) * gamma;
  });
}

TEST(WarmupCosineLRSchedule, FollowsACosineOfEachGroupsRateAndStaysAtItsEnd) {
  for (const size_t group : {size_t{0}, size_t{1}}) {
    const auto optimizer = two_groups();
    zero::WarmupCosineLR scheduler(*optimizer, zero::WarmupCosineOptions(30)
                                                   .warmup_num_steps(6)
                                                   .warmup_min_ratio(0.1)
                                                   .cos_min_ratio(0.05)
                                                   .warmup_type(WarmupType::kLinear));
    const double own = group == 0 ? kOwnRate : 2 * kOwnRate;
    expect_rates(rates_of(scheduler, 45, group), [&](int n) {
      if (n < 0) return 0.0;
      if (n < 6) return own * (0.1 + 0.9 * n / 6.0);
      const double place = std::min(1.0, (n - 6 + 1) / 24.0);
      return own * (0.05 + 0.95 * (1.0 + std::cos(M_PI * place)) / 2.0);
    });
  }
}

TEST(OneCycleSchedule, GoesUpDownAndDecays) {
  const auto optimizer = two_groups();
  zero::OneCycle scheduler(*optimizer, zero::OneCycleOptions(1e-4, 1e-2)
                                           .cycle_first_step_size(4)
                                           .cycle_second_step_size(8)
                                           .decay_step_size(2)
                                           .decay_lr_rate(0.5)
                                           .cycle_momentum(false));
  expect_rates(rates_of(scheduler, 22), [](int n) {
    const int place = n + 1;
    if (place <= 4) return 1e-4 + (1e-2 - 1e-4) * place / 4.0;
    if (place <= 12) return 1e-4 + (1e-2 - 1e-4) * (12 - place) / 8.0;
    return 1e-4 / (1.0 + 0.5 * (n - 12 + 1) / 2.0);
  });
  EXPECT_EQ(
      static_cast<torch::optim::AdamWOptions&>(optimizer->param_groups()[0].options()).betas(),
      std::make_tuple(0.9, 0.999));
}

TEST(OneCycleSchedule, StairsHoldTheRate) {
  const auto optimizer = two_groups();
  zero::OneCycle scheduler(
      *optimizer,
      zero::OneCycleOptions(0.0, 1.0).cycle_first_step_size(6).cycle_first_stair_count(3));
  const std::vector<double> up = {0, 0, 1 / 3.0, 1 / 3.0, 2 / 3.0, 2 / 3.0, 1};
  const std::vector<double> got = rates_of(scheduler, 13);
  for (size_t i = 0; i < up.size(); ++i) {
    EXPECT_DOUBLE_EQ(got[i], up[i]);
    EXPECT_DOUBLE_EQ(got[12 - i], up[i]);
  }
}

TEST(OneCycleSchedule, MomentumRunsAgainstTheRate) {
  at::Tensor p = torch::zeros({1});
  zero::Lion optimizer({p});
  zero::OneCycle scheduler(
      optimizer, zero::OneCycleOptions(0.0, 1.0).cycle_first_step_size(4).cycle_min_mom(0.7));
  const auto betas = [&] {
    return static_cast<zero::LionOptions&>(optimizer.param_groups()[0].options()).betas();
  };
  EXPECT_EQ(betas(), std::make_tuple(0.7, 0.99));
  for (int n = 0; n < 12; ++n) {
    scheduler.step();
    const int place = n + 1;
    const double height = place <= 4 ? place / 4.0 : place <= 8 ? (8 - place) / 4.0 : 0.0;
    EXPECT_NEAR(std::get<0>(betas()), 0.9 - 0.2 * height, 1e-15) << n;
  }
}

TEST(OneCycleSchedule, AnOptimizerWithoutBetasIsToldOrRefused) {
  const at::Tensor p = torch::zeros({1});
  torch::optim::SGD optimizer({p}, torch::optim::SGDOptions(0.1).momentum(0.4));
  zero::OneCycle unset(optimizer, zero::OneCycleOptions(0.0, 1.0));
  unset.step();
  EXPECT_EQ(static_cast<torch::optim::SGDOptions&>(optimizer.defaults()).momentum(), 0.4);
  EXPECT_THAT(error_of([&] {
                zero::OneCycle(optimizer, zero::OneCycleOptions(0.0, 1.0).cycle_momentum(true));
              }),
              HasSubstr("has no betas"));
}

TEST(LRRangeTestSchedule, GrowsSteadilyOrInStairs) {
  for (const bool staircase : {false, true}) {
    const auto optimizer = two_groups();
    zero::LRRangeTest scheduler(*optimizer, zero::LRRangeTestOptions()
                                                .lr_range_test_min_lr(1e-4)
                                                .lr_range_test_step_size(5)
                                                .lr_range_test_step_rate(3.0)
                                                .lr_range_test_staircase(staircase));
    expect_rates(rates_of(scheduler, 23), [&](int n) {
      const double intervals = (n + 1) / 5.0;
      return 1e-4 * (1.0 + 3.0 * (staircase ? std::floor(intervals) : intervals));
    });
  }
}

// G089: stopped at 10 of 20, in the middle of the warm-up or after it.
TEST(Schedules, AResumedRunHasTheRatesOfOneThatWasNotStopped) {
  using Maker = std::function<std::unique_ptr<zero::Scheduler>(torch::optim::Optimizer&)>;
  const std::vector<Maker> makers = {
      [](auto& o) {
        return std::make_unique<zero::WarmupLR>(o, zero::WarmupOptions().warmup_num_steps(15));
      },
      [](auto& o) {
        return std::make_unique<zero::WarmupDecayLR>(
            o, zero::WarmupDecayOptions(20).warmup_num_steps(5));
      },
      [](auto& o) {
        return std::make_unique<zero::WarmupCosineLR>(
            o, zero::WarmupCosineOptions(20).warmup_num_steps(5));
      },
      [](auto& o) {
        return std::make_unique<zero::OneCycle>(
            o, zero::OneCycleOptions(1e-5, 1e-3).cycle_first_step_size(7));
      },
      [](auto& o) { return std::make_unique<zero::LRRangeTest>(o); },
  };
  for (const Maker& make : makers) {
    const auto straight_optimizer = two_groups();
    const auto straight = make(*straight_optimizer);
    std::vector<std::vector<double>> rates;
    for (int i = 0; i < 20; ++i) {
      rates.push_back(straight->rates());
      straight->step();
    }
    for (const bool optimizer_is_saved_too : {true, false}) {
      const auto stopped_optimizer = two_groups();
      const auto stopped = make(*stopped_optimizer);
      for (int i = 0; i < 10; ++i) stopped->step();
      std::stringstream optimizer_state, state;
      torch::save(*stopped_optimizer, optimizer_state);
      torch::save(*stopped, state);

      const auto new_optimizer = two_groups();
      if (optimizer_is_saved_too) torch::load(*new_optimizer, optimizer_state);
      const auto resumed = make(*new_optimizer);
      torch::load(*resumed, state);
      for (int i = 10; i < 20; ++i) {
        EXPECT_EQ(resumed->rates(), rates[i]) << resumed->name() << " step " << i + 1;
        resumed->step();
      }
    }
  }
}

TEST(Schedules, RefuseTheStateOfAnotherSchedule) {
  const auto optimizer = two_groups();
  zero::LRRangeTest saved(*optimizer);
  std::stringstream state;
  torch::save(saved, state);
  zero::WarmupLR other(*optimizer);
  EXPECT_THAT(error_of([&] { torch::load(other, state); }),
              HasSubstr("the saved state is of LRRangeTest"));
}

TEST(Schedules, RefuseTheStateOfAnotherNumberOfGroups) {
  const auto optimizer = two_groups();
  zero::WarmupLR saved(*optimizer);
  std::stringstream state;
  torch::save(saved, state);
  const at::Tensor p = torch::zeros({1});
  torch::optim::SGD one_group({p}, torch::optim::SGDOptions(0.1));
  zero::WarmupLR other(one_group);
  EXPECT_THAT(error_of([&] { torch::load(other, state); }), HasSubstr("2 parameter groups"));
}

TEST(Schedules, RefuseValuesThatCannotBeRight) {
  const auto optimizer = two_groups();
  auto& o = *optimizer;
  EXPECT_THAT(error_of([&] { zero::WarmupLR(o, zero::WarmupOptions().warmup_num_steps(0)); }),
              HasSubstr("warmup_num_steps is 0"));
  EXPECT_THAT(error_of([&] { zero::WarmupLR(o, zero::WarmupOptions().warmup_min_lr(NAN)); }),
              HasSubstr("warmup_min_lr is nan"));
  EXPECT_THAT(error_of([&] { zero::WarmupDecayLR(o, zero::WarmupDecayOptions(0)); }),
              HasSubstr("total_num_steps is 0"));
  EXPECT_THAT(error_of([&] { zero::OneCycle(o, zero::OneCycleOptions(1e-2, 1e-3)); }),
              HasSubstr("cycle_max_lr is 0.001"));
  EXPECT_THAT(error_of([&] {
                zero::LRRangeTest(o, zero::LRRangeTestOptions().lr_range_test_step_size(0));
              }),
              HasSubstr("lr_range_test_step_size is 0"));
}

TEST(Schedules, AGroupAddedLaterIsRefused) {
  const auto optimizer = two_groups();
  zero::WarmupLR scheduler(*optimizer);
  optimizer->add_param_group(torch::optim::OptimizerParamGroup({torch::zeros({1})}));
  EXPECT_THAT(error_of([&] { scheduler.step(); }), HasSubstr("it had 2"));
}

}  // namespace
