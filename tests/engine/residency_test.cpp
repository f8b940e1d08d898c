// SPDX-License-Identifier: Apache-2.0
// Under stage 3 whole parameters are guests: they come when they are touched, never take more than
// the budget, and go home with what was written into them.
#include <gtest/gtest.h>

#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "plugin/memory/buffers.h"
#include "plugin/paging/paged_storage.h"

namespace zero::testing {
namespace {

// What the device's allocator holds before a model is set up: cuBLAS keeps a workspace from its
// first product on.
int64_t allocated_by_others(at::Device device) {
  const at::Tensor x = inputs(device).requires_grad_();
  x.mm(x.t()).sum().backward();
  MemoryReport report;
  read_device(report, device);
  return report.device_allocated;
}

TEST(Residency, LiveParametersNeverExceedTheBudget) {
  for (const int64_t budget : {3 * kMiB, 5 * kMiB}) {
    Blocks model(8);  // 8 MiB
    torch::optim::AdamW optimizer(model->parameters(), 1e-3);
    Strategy strategy(paged(budget));
    const int64_t before = allocated_by_others(strategy.device());
    strategy.setup(*model, optimizer);
    for (int step = 0; step < 3; ++step) {
      strategy.backward(model->loss(inputs(strategy.device())));
      strategy.step();
    }
    const MemoryReport report = strategy.memory_report();
    EXPECT_LE(report.peak_live_parameter_bytes, budget);
    EXPECT_GT(report.peak_live_parameter_bytes, kMiB);
    EXPECT_EQ(report.booked[static_cast<int>(MemoryClass::kParameterSlots)].device, budget);
    if (strategy.device().is_cuda()) {
      EXPECT_NEAR(report.device_allocated - before, report.total_booked().device, kMiB / 4)
          << "the allocator holds what is booked";
    }
  }
}

TEST(Residency, OnceTheOrderIsLearntPagesComeAhead) {
  Blocks model(8);
  torch::optim::SGD optimizer(model->parameters(), 1e-3);
  Strategy strategy(StrategyOptions(paged(4 * kMiB)).prefetch_pages(2));
  strategy.setup(model, optimizer);
  const auto step = [&] {
    strategy.backward(model->loss(inputs(strategy.device())));
    strategy.step();
    return strategy.memory_report().paging;
  };
  step();
  const PagingCounters second = step();
  const PagingCounters third = step();
  EXPECT_GT(second.evictions, 0);
  // Forward and backward over 8 pages with room for 4: at least 8 + 4 come in a step, nearly all of
  // them ahead.
  EXPECT_GE(third.prefetches - second.prefetches, 10);
  EXPECT_LE(third.faults - second.faults, 3);
}

TEST(Residency, AnOperatorThatNeedsMoreThanTheBudgetSaysSo) {
  Blocks model(8);
  Strategy strategy(StrategyOptions(paged(2 * kMiB)).prefetch_pages(0));
  torch::optim::SGD optimizer(model->parameters(), 1e-3);
  strategy.setup(*model, optimizer);
  at::NoGradGuard no_grad;
  try {
    torch::nn::utils::parameters_to_vector(model->parameters());
    FAIL() << "concatenating 8 MiB of parameters fitted into 2 MiB";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("parameter_budget"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("block2.weight"));
  }
  EXPECT_TRUE(std::isfinite(model->loss(inputs(strategy.device())).item<double>()))
      << "usable afterwards";
}

TEST(Residency, ABudgetBelowOnePageIsRefused) {
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 1e-3);
  Strategy strategy(paged(kMiB / 2));
  EXPECT_THROW(strategy.setup(*model, optimizer), c10::Error);
}

TEST(Residency, InPlaceWritesSurviveEviction) {
  for (const char* precision : {"fp32", "bf16"}) {
    Blocks model(8);
    torch::optim::SGD optimizer(model->parameters(), 0.0);
    Strategy strategy(StrategyOptions(paged(3 * kMiB)).precision(precision));
    strategy.setup(*model, optimizer);
    at::NoGradGuard no_grad;
    int value = 1;
    for (auto& parameter : model->parameters()) parameter.fill_(value++);
    value = 1;
    for (auto& parameter : model->parameters()) {
      EXPECT_EQ(parameter.to(at::kFloat).mean().item<float>(), static_cast<float>(value++));
    }
    // Masters follow: a step without a rate must not bring the old values back.
    at::AutoGradMode grad(true);
    strategy.backward(
        model->loss(inputs(strategy.device()).to(model->blocks[0]->weight.dtype())).to(at::kFloat));
    strategy.step();
    EXPECT_EQ(model->blocks[7]->weight.to(at::kFloat).mean().item<float>(), 8.0f);
  }
}

TEST(Residency, MetadataOfAReleasedParameterIsTrueAndCostsNoFault) {
  Blocks model(8);
  torch::optim::SGD optimizer(model->parameters(), 1e-3);
  Strategy strategy(paged(3 * kMiB));
  strategy.setup(*model, optimizer);
  const auto& weight = model->blocks[5]->weight;
  EXPECT_EQ(weight.sizes(), (std::vector<int64_t>{512, 512}));
  EXPECT_EQ(weight.dtype(), at::kFloat);
  EXPECT_EQ(weight.device(), strategy.device());
  EXPECT_TRUE(at::empty_like(weight).defined());
  EXPECT_EQ(weight.t().size(0), 512);
  EXPECT_EQ(strategy.memory_report().live_parameter_bytes, 0);
}

TEST(Residency, WhatStaysIsUntagged) {
  for (int stage = 0; stage <= 3; ++stage) {
    Blocks model(2);
    torch::optim::SGD optimizer(model->parameters(), 1e-3);
    Strategy strategy(StrategyOptions().device(test_device_name()).stage(stage));
    strategy.setup(*model, optimizer);
    for (const auto& parameter : model->parameters())
      EXPECT_FALSE(is_tagged(parameter)) << "stage " << stage;
  }
  Blocks model(2);
  torch::optim::SGD optimizer(model->parameters(), 1e-3);
  Strategy strategy(paged(2 * kMiB));
  strategy.setup(*model, optimizer);
  for (const auto& parameter : model->parameters()) EXPECT_TRUE(is_tagged(parameter));
}

TEST(Residency, EvaluationBetweenStepsSeesTheCurrentWeightsAndLeavesNothingPinned) {
  Blocks model(8);
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  Strategy strategy(paged(3 * kMiB));
  strategy.setup(*model, optimizer);
  double before = 0;
  for (int step = 0; step < 4; ++step) {
    double evaluated = 0;
    {
      at::NoGradGuard no_grad;
      evaluated = model->loss(inputs(strategy.device())).item<double>();
    }
    const at::Tensor loss = model->loss(inputs(strategy.device()));
    EXPECT_EQ(loss.item<double>(), evaluated);
    EXPECT_NE(evaluated, before);
    before = evaluated;
    strategy.backward(loss);
    strategy.step();  // throws if a page is still pinned
  }
}

ZERO_RANK_BODY(homes_are_shards) {
  Blocks model(8);
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  Strategy strategy(paged(3 * kMiB));
  strategy.setup(*model, optimizer);
  strategy.backward(model->loss(inputs(strategy.device())));
  strategy.step();
  const MemoryReport report = strategy.memory_report();
  const int64_t whole = 8 * kMiB;
  const auto booked = [&](MemoryClass memory_class) {
    return report.booked[static_cast<int>(memory_class)];
  };
  EXPECT_EQ(booked(MemoryClass::kParameterHome).host, whole / strategy.world_size());
  EXPECT_EQ(booked(MemoryClass::kParameterHome).device, 0);
  EXPECT_EQ(booked(MemoryClass::kMoments).host, 2 * whole / strategy.world_size());
  EXPECT_EQ(booked(MemoryClass::kMaster).host, 0) << "an fp32 master on the host is the home";
  EXPECT_EQ(booked(MemoryClass::kGradientHome).host, whole / strategy.world_size());
  EXPECT_LE(report.peak_live_parameter_bytes, 3 * kMiB);
  for (int i = 0; i < kMemoryClasses; ++i) {
    if (static_cast<MemoryClass>(i) == MemoryClass::kGradientBuckets)
      continue;  // grows to what backward needs
    EXPECT_EQ(report.predicted[i].device, report.booked[i].device)
        << name_of(static_cast<MemoryClass>(i));
    EXPECT_EQ(report.predicted[i].host, report.booked[i].host)
        << name_of(static_cast<MemoryClass>(i));
  }
}

TEST(Residency, EachRanksHomeIsTheWholeDividedByTheRanks) {
  on_test_ranks({1, 2, 4}, "homes_are_shards");
}

}  // namespace
}  // namespace zero::testing
