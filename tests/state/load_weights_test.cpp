// SPDX-License-Identifier: Apache-2.0
// Weights from files into models and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "plugin/state/safetensors.h"
#include "tests/state/files.h"
#include "zero/strategy.h"
#include "zero/weights.h"

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `head` is `first.weight` once more; `steps` counts.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(6, 6));
    second = register_module("second", torch::nn::Linear(6, 4));
    head = register_parameter("head", first->weight);
    steps = register_buffer("steps", torch::randint(1000, {}, torch::kLong));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return second(torch::relu(torch::matmul(first(x), head)));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::Tensor head, steps;
};
TORCH_MODULE(Net);

void expect_equal(const torch::nn::Module& a, const torch::nn::Module& b) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : a.named_parameters())
    EXPECT_TRUE(item.value().equal(b.named_parameters()[item.key()])) << item.key();
  for (const auto& item : a.named_buffers())
    EXPECT_TRUE(item.value().equal(b.named_buffers()[item.key()])) << item.key();
}

std::string refusal(torch::nn::Module& model, const std::filesystem::path& file,
                    const LoadOptions& options = {}) {
  try {
    load_weights(model, file, options);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "loaded";
}

TEST(Weights, GoOutAndComeBackBitForBitThroughASmallWindow) {
  const TemporaryFolder folder;
  Net saved, loaded;
  export_weights(*saved, folder / "m.safetensors");
  const LoadReport report = load_weights(*loaded, folder.path(), {.window_bytes = 64});
  EXPECT_EQ(report.tensors, 5);
  EXPECT_EQ(report.bytes, (36 + 6 + 24 + 4) * 4 + 8);
  expect_equal(*saved, *loaded);
}

TEST(Weights, GoIntoAndComeOutOfPagedParameters) {
  const TemporaryFolder folder;
  Net saved, paged, loaded;
  export_weights(*saved, folder / "m.safetensors");
  {
    Strategy strategy(
        StrategyOptions().stage(3).offload_parameters(true).device(DeviceChoice::kCpu));
    strategy.setup(*paged);
    load_weights(*paged, folder / "m.safetensors", {.window_bytes = 64});
    export_weights(*paged, folder / "again.safetensors");
  }
  load_weights(*loaded, folder / "again.safetensors");
  expect_equal(*saved, *loaded);
}

TEST(Weights, ATiedWeightIsWrittenOnceAndFoundUnderAnyOfItsNames) {
  const TemporaryFolder folder;
  Net saved, loaded;
  export_weights(*saved, folder / "m.safetensors");
  const SafetensorsFile file(folder / "m.safetensors");
  int copies = 0;
  for (const auto& tensor : file.tensors())
    copies += tensor.name == "head" || tensor.name == "first.weight";
  EXPECT_EQ(copies, 1);
  load_weights(*loaded, folder.path(), {.rename = {{"^head$", "first.weight"}}});
  expect_equal(*saved, *loaded);
}

TEST(Weights, ATiedWeightStoredWithTwoDifferentValuesIsRefused) {
  const TemporaryFolder folder;
  torch::nn::Sequential untied(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2));
  export_weights(*untied, folder / "m.safetensors");
  struct Twins : torch::nn::Module {
    Twins() {
      a = register_parameter("a", torch::zeros({2, 2}));
      register_parameter("b", a);
    }
    torch::Tensor a;
  } twins;
  const std::string text =
      refusal(twins, folder.path(),
              {.strict = false, .rename = {{"0\\.weight", "a"}, {"1\\.weight", "b"}}});
  EXPECT_THAT(text, HasSubstr("one weight in the model, but are stored with different values"));
  EXPECT_TRUE(twins.a.equal(torch::zeros({2, 2})));
}

TEST(Weights, AreConvertedToTheParametersDtype) {
  const TemporaryFolder folder;
  Net saved, loaded;
  export_weights(*saved, folder / "m.safetensors", torch::kBFloat16);
  load_weights(*loaded, folder.path());
  EXPECT_TRUE(
      loaded->first->weight.equal(saved->first->weight.to(torch::kBFloat16).to(torch::kFloat)));
  EXPECT_TRUE(loaded->steps.equal(saved->steps));
}

TEST(Weights, AMatrixMayBeStoredTransposed) {
  const TemporaryFolder folder;
  Net saved, loaded;
  {
    const torch::NoGradGuard no_grad;
    Net turned;
    turned->second->weight.set_data(saved->second->weight.t().contiguous());
    export_weights(*turned, folder / "m.safetensors");
  }
  load_weights(*loaded, folder.path(), {.transposed = {"second\\.weight"}});
  EXPECT_TRUE(loaded->second->weight.equal(saved->second->weight));
}

TEST(Weights, AllThatDoesNotFitIsReportedTogetherAndNothingIsOverwritten) {
  const TemporaryFolder folder;
  Net saved, loaded;
  export_weights(*saved, folder / "m.safetensors");
  const auto before = loaded->first->bias.clone();
  const std::string text =
      refusal(*loaded, folder.path(),
              {.rename = {{"first\\.bias", "second.bias"}, {"steps", "elsewhere"}},
               .transposed = {"second\\.weight"}});
  EXPECT_THAT(text, AllOf(HasSubstr("are both mapped to 'second.bias'"),
                          HasSubstr("'second.weight' is [4, 6] in the file and [4, 6] in the model "
                                    "(stored transposed)"),
                          HasSubstr("missing: 'first.bias'"), HasSubstr("missing: 'steps'"),
                          HasSubstr("unexpected: 'elsewhere'")));
  EXPECT_TRUE(loaded->first->bias.equal(before));
}

TEST(Weights, DifferencesStandInTheReportWhereTheyAreAllowed) {
  const TemporaryFolder folder;
  Net saved, loaded;
  export_weights(*saved, folder / "m.safetensors");
  const LoadReport report =
      load_weights(*loaded, folder.path(), {.strict = false, .rename = {{"steps", "other"}}});
  EXPECT_THAT(report.missing, ElementsAre("steps"));
  EXPECT_THAT(report.unexpected, ElementsAre("other"));
}

TEST(Weights, FloatingPointValuesDoNotBecomeIntegers) {
  const TemporaryFolder folder;
  Net saved, loaded;
  saved->steps.set_data(torch::tensor(1.5));
  export_weights(*saved, folder / "m.safetensors");
  EXPECT_THAT(refusal(*loaded, folder.path()), HasSubstr("'steps' is Float in the file and Long"));
}

TEST(Weights, AnExportThatFailsLeavesTheFileThatWasThere) {
  const TemporaryFolder folder;
  Net first;
  export_weights(*first, folder / "m.safetensors");
  struct Odd : torch::nn::Module {
    Odd() {
      register_buffer("q", torch::quantize_per_tensor(torch::ones({2}), 1, 0, torch::kQInt8));
    }
  } odd;
  EXPECT_THROW(export_weights(odd, folder / "m.safetensors"), c10::Error);
  Net loaded;
  load_weights(*loaded, folder / "m.safetensors");
  expect_equal(*first, *loaded);
  EXPECT_FALSE(std::filesystem::exists(folder / "m.safetensors.part"));
}

}  // namespace
}  // namespace zero
