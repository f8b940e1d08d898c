// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/page_layout.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr int64_t kPage = 4096;  // bytes

NamedParameter parameter(const std::string& name, const at::Tensor& tensor, bool trainable = true) {
  return {name, tensor, trainable, trainable ? 0 : -1};
}

std::vector<PageLayout> plan(const std::vector<NamedParameter>& parameters, int shards = 1,
                             std::optional<at::ScalarType> compute = std::nullopt) {
  return plan_pages(parameters, {kPage, shards, compute});
}

TEST(PageLayout, KeepsRegistrationOrderAndFillsPagesUpToTheirSize) {
  std::vector<NamedParameter> parameters;
  for (int i = 0; i < 5; ++i)
    parameters.push_back(parameter(std::to_string(i), at::zeros({400})));  // 1600 bytes each
  const auto pages = plan(parameters);
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_EQ(pages[0].parameters[1].parameter.name, "1");
  EXPECT_EQ(pages[1].parameters[0].parameter.name, "2");
  EXPECT_EQ(pages[2].parameters.size(), 1U);
}

TEST(PageLayout, ALargeStorageIsAPageOfItsOwn) {
  const auto pages =
      plan({parameter("small", at::zeros({3})), parameter("large", at::zeros({100, 100})),
            parameter("next", at::zeros({3}))});
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_GE(pages[1].bytes(), 40000);
}

TEST(PageLayout, NoPageHasParametersOfTwoOptimizers) {
  const std::vector<NamedParameter> parameters{{"a", at::zeros({3}), true, 0},
                                               {"b", at::zeros({3}), true, 1},
                                               {"c", at::zeros({3}), true, 0},
                                               {"d", at::zeros({3}), false, 1}};
  const auto pages = plan(parameters);
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_EQ(pages[0].parameters.size(), 2U);
  EXPECT_EQ(pages[1].optimizer, 1);
  EXPECT_EQ(pages[2].optimizer, 1);
  EXPECT_FALSE(pages[2].trainable);
  const at::Tensor both = at::zeros({6});
  EXPECT_THROW(plan({{"e", both.narrow(0, 0, 3), true, 0}, {"f", both.narrow(0, 3, 3), true, 1}}),
               c10::Error);
}

TEST(PageLayout, EveryShardBeginsOn256Bytes) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int shards : {1, 2, 3, 7}) {
      const auto pages = plan({parameter("odd", at::zeros({13, 7}, dtype))}, shards);
      ASSERT_EQ(pages.size(), 1U);
      EXPECT_EQ(pages[0].numel, pages[0].shard_numel * shards);
      EXPECT_EQ(pages[0].shard_numel * static_cast<int64_t>(c10::elementSize(dtype)) % 256, 0);
      EXPECT_GE(pages[0].numel, 91);
    }
  }
}

TEST(PageLayout, KeepsDtypesAndTrainabilityApart) {
  const auto pages =
      plan({parameter("a", at::zeros({4})), parameter("b", at::zeros({4}, at::kDouble)),
            parameter("c", at::zeros({4}, at::kChar), false), parameter("d", at::zeros({4}), false),
            parameter("e", at::zeros({4}))},
           1, at::kBFloat16);
  ASSERT_EQ(pages.size(), 4U);
  EXPECT_EQ(pages[0].parameters.size(), 2U) << "a and e";
  EXPECT_EQ(pages[0].dtype, at::kBFloat16);
  EXPECT_EQ(pages[1].dtype, at::kDouble);
  EXPECT_FALSE(pages[3].trainable);
}

TEST(PageLayout, TiedWeightsAndFlatWeightsAreOneStorage) {
  const at::Tensor flat = at::zeros({100});
  const auto pages = plan(
      {parameter("first", flat.narrow(0, 0, 40)), parameter("second", flat.narrow(0, 40, 60))});
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(pages[0].storages.size(), 1U);
  EXPECT_EQ(pages[0].parameters[1].offset, 40);
}

TEST(PageLayout, ParametersWithoutElementsAreLeftOut) {
  EXPECT_TRUE(plan({parameter("empty", at::zeros({0, 8}))}).empty());
}

TEST(PageLayout, WhatCannotBeUpdatedIsRefusedByName) {
  const at::Tensor flat = at::zeros({10});
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const c10::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(
      message([&] {
        plan({parameter("left", flat.narrow(0, 0, 6)), parameter("right", flat.narrow(0, 4, 6))});
      }),
      ::testing::HasSubstr("'left' and 'right' overlap"));
  EXPECT_THAT(message([&] { plan({parameter("gaps", flat.slice(0, 0, 10, 2))}); }),
              ::testing::HasSubstr("'gaps'"));
  EXPECT_THAT(message([&] {
                plan({parameter("floats", flat), parameter("ints", flat.view(at::kInt), false)});
              }),
              ::testing::HasSubstr("different dtypes"));
}

}  // namespace
}  // namespace zero
