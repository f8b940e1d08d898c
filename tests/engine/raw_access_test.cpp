// SPDX-License-Identifier: Apache-2.0
// Bytes that are not there are never read in silence: raw access names the parameter and what to
// do, and a GatheredParameters scope makes it right.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "engine/blocks.h"
#include "engine/device_ranks.h"

namespace zero::testing {
namespace {

StrategyOptions paged() {
  return StrategyOptions()
      .device(test_device_name())
      .stage(3)
      .offload_parameters(true)
      .page_bytes(1 << 20)
      .parameter_budget(3 << 20);
}

struct Paged {
  Paged() : optimizer(model->parameters(), 0.1), strategy(paged()) {
    strategy.setup(*model, optimizer);
  }
  Blocks model{6};
  torch::optim::SGD optimizer;
  Strategy strategy;
};

template <class Access>
void expect_refused(const Access& access) {
  try {
    access();
    FAIL() << "the access returned";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("'block"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("zero::GatheredParameters"));
  }
}

TEST(RawAccess, ReleasedBytesAreRefusedByName) {
  Paged paged;
  const at::Tensor weight = paged.model->blocks[4]->weight;
  expect_refused([&] { (void)weight.data_ptr<float>(); });
  expect_refused([&] { (void)weight.data_ptr(); });
  expect_refused([&] { (void)weight.const_data_ptr<float>(); });
  expect_refused([&] { (void)weight.storage().data(); });
  expect_refused([&] {
    std::ostringstream stream;
    torch::save(paged.model, stream);
  });
}

TEST(RawAccess, InsideAGatherScopeTheWholeModelCanBeSaved) {
  Paged paged;
  std::stringstream stream;
  {
    GatheredParameters all(paged.strategy);  // 6 MiB, beyond the budget of 3 MiB
    torch::save(paged.model, stream);
  }
  Blocks loaded(6);
  {
    at::NoGradGuard no_grad;
    for (auto& parameter : loaded->parameters()) parameter.zero_();
  }
  torch::load(loaded, stream);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(at::equal(loaded->blocks[i]->weight.cpu(), paged.model->blocks[i]->weight.cpu()))
        << i;
  }
  EXPECT_LE(paged.strategy.memory_report().live_parameter_bytes, 3 << 20)
      << "the scope gave its memory back";
}

TEST(RawAccess, ALoadedModelLandsInItsPages) {
  Blocks other(6);
  {
    at::NoGradGuard no_grad;
    for (auto& parameter : other->parameters()) parameter.fill_(0.25);
  }
  std::stringstream stream;
  torch::save(other, stream);
  Paged paged;
  torch::load(paged.model, stream);
  for (const auto& parameter : paged.model->parameters())
    EXPECT_TRUE(at::equal(parameter.cpu(), other->blocks[0]->weight));
}

TEST(RawAccess, PrintingAndCopyingGoThroughTheDispatcher) {
  Paged paged;
  std::ostringstream text;
  text << paged.model->blocks[3]->weight.slice(0, 0, 2).slice(1, 0, 2);
  EXPECT_THAT(text.str(), ::testing::HasSubstr("FloatType{2,2}"));
  EXPECT_TRUE(std::isfinite(paged.model->blocks[2]->weight.cpu().sum().item<double>()));
}

TEST(RawAccess, TeardownGivesPlainTensorsBack) {
  Blocks model(6), expected(6);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  {
    Strategy strategy(paged());
    strategy.setup(*model, optimizer);
  }
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(at::equal(model->blocks[i]->weight.cpu(), expected->blocks[i]->weight));
    EXPECT_NE(model->blocks[i]->weight.data_ptr<float>(), nullptr);
  }
  EXPECT_TRUE(optimizer.param_groups()[0].params()[0].is_same(model->blocks[0]->weight));
  model->loss(inputs(test_device())).backward();
  optimizer.step();  // plain LibTorch again
  EXPECT_FALSE(at::equal(model->blocks[0]->weight.cpu(), expected->blocks[0]->weight));
}

ZERO_RANK_BODY(one_rank_writes_for_all) {
  Paged paged;
  const auto& weight = paged.model->blocks[1]->weight;
  {
    GatheredParameters scope(paged.strategy, {weight}, /*modifier_rank=*/0);
    if (paged.strategy.rank() == 0) {
      at::NoGradGuard no_grad;
      const auto values = at::arange(512 * 512, at::kFloat).view({512, 512}).to(weight.device());
      at::from_blob(weight.data_ptr<float>(), {512, 512}, weight.options().requires_grad(false))
          .copy_(values);
    }
  }
  EXPECT_TRUE(at::equal(weight.cpu(), at::arange(512 * 512, at::kFloat).view({512, 512})));
  paged.strategy.backward(paged.model->loss(inputs(paged.strategy.device())) * 0.0);
  paged.strategy.step();
  EXPECT_TRUE(at::equal(weight.cpu(), at::arange(512 * 512, at::kFloat).view({512, 512})))
      << "masters follow";
}

TEST(RawAccess, AModifierRanksWritesReachAllRanksAndHomes) {
  on_test_ranks({1, 2, 3}, "one_rank_writes_for_all");
}

}  // namespace
}  // namespace zero::testing
