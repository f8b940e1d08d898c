// SPDX-License-Identifier: Apache-2.0
// GPT-J, the model of the example: as the Hugging Face implementation computes it, and the same
// whoever holds its weights.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "engine/device_ranks.h"
#include "examples/gptj/generate.h"
#include "support/device.h"
#include "support/temporary_folder.h"
#include "zero/strategy.h"
#include "zero/weights.h"

namespace {

using gptj::Cache;
using gptj::GPTJ;

gptj::GPTJOptions small() {
  return gptj::GPTJOptions().vocabulary(29).context(32).width(24).layers(3).heads(3).rotary(4);
}

// As reference.py fills them.
GPTJ with_formula_weights() {
  const torch::NoGradGuard no_grad;
  GPTJ model(small());
  for (auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    const bool scale = name.find(".ln_") != std::string::npos && name.ends_with("weight");
    const auto waves = torch::sin(torch::arange(item.value().numel(), torch::kDouble) * 0.37 +
                                  static_cast<double>(name.size()));
    item.value().copy_((0.3 * waves + (scale ? 1.0 : 0.0)).view(item.value().sizes()));
  }
  return model;
}

torch::Tensor tokens() {
  return torch::tensor({{3, 1, 4, 1, 5, 9, 2, 6, 5}, {28, 0, 27, 1, 26, 2, 25, 3, 24}});
}

TEST(GPTJ, LogitsAreThoseOfTheHuggingFaceImplementation) {
  const torch::NoGradGuard no_grad;
  std::ifstream file(EXPECTED_LOGITS);
  std::vector<float> stored;
  for (float value = 0; file >> value;) stored.push_back(value);
  const auto logits = with_formula_weights()->forward(tokens());
  ASSERT_EQ(static_cast<int64_t>(stored.size()), logits.numel());
  const auto expected = torch::tensor(stored).view(logits.sizes());
  EXPECT_LT((logits - expected).abs().max().item<float>(), 2e-5F);
}

TEST(GPTJ, TokenByTokenWithACacheEqualsAllAtOnce) {
  const torch::NoGradGuard no_grad;
  GPTJ model = with_formula_weights();
  const auto all = model->forward(tokens());
  Cache cache;
  const auto first = model->forward(tokens().narrow(1, 0, 4), &cache);
  const auto middle = model->forward(tokens().narrow(1, 4, 3), &cache);
  const auto eighth = model->forward(tokens().narrow(1, 7, 1), &cache);
  EXPECT_EQ(cache.tokens(), 8);
  EXPECT_LT(
      (torch::cat({first, middle, eighth}, 1) - all.narrow(1, 0, 8)).abs().max().item<float>(),
      2e-5F);
}

// The folder comes by the environment; each rank has a prompt of its own length.
ZERO_RANK_BODY(generates_as_one_process) {
  const std::string folder = std::getenv("GPTJ_WEIGHTS");
  const bool offload = std::string(std::getenv("GPTJ_OFFLOAD")) == "1";
  zero::Strategy strategy(
      zero::StrategyOptions().stage(3).offload_parameters(offload).page_bytes(4096).device(
          zero::testing::test_device().is_cuda() ? zero::DeviceChoice::kCuda
                                                 : zero::DeviceChoice::kCpu));
  GPTJ model(small());
  strategy.setup(*model);
  zero::load_weights(*model, folder);
  gptj::GenerateOptions options;
  options.on_any_rank = [&](bool here) { return strategy.any(here); };
  options.end_token = -1;
  // Rank 1 wants fewer tokens than rank 0, and rank 2 none.
  const std::vector<int64_t> counts{9, 4, 0};
  options.tokens = counts.at(strategy.rank());
  const std::vector<int64_t> prompt{3, 1, 4 + strategy.rank()};
  const auto got = gptj::generate(model, prompt, strategy.device(), options);

  GPTJ plain = with_formula_weights();
  plain->to(strategy.device());
  options.on_any_rank = nullptr;
  EXPECT_EQ(got, gptj::generate(plain, prompt, strategy.device(), options));
}

TEST(GPTJ, RanksWithPromptsAndLengthsOfTheirOwnGenerateAsOneProcessDoes) {
  const zero::testing::TemporaryFolder folder;
  zero::export_weights(*with_formula_weights(), folder / "model.safetensors");
  for (const char* offload : {"0", "1"}) {
    zero::testing::on_test_ranks(
        {1, 2, 3}, "generates_as_one_process",
        {.environment = {{"GPTJ_WEIGHTS", folder.path().string()}, {"GPTJ_OFFLOAD", offload}}});
  }
}

}  // namespace
