// SPDX-License-Identifier: Apache-2.0
// The example's model: shapes, the tied head, causality, and that it can learn.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "examples/gpt/generate.h"
#include "examples/gpt/model.h"

namespace gpt {
namespace {

GPT small_model() {
  torch::manual_seed(3);
  return GPT(GPTOptions().context(16).width(32).layers(2).heads(2));
}

torch::Tensor some_tokens(int64_t rows, int64_t tokens) {
  return torch::randint(0, 256, {rows, tokens}, torch::kLong);
}

TEST(GptModel, LogitsAreOneScoreAByte) {
  GPT model = small_model();
  EXPECT_EQ(model->forward(some_tokens(3, 16)).sizes(), (at::IntArrayRef{3, 16, 256}));
  EXPECT_EQ(model->forward(some_tokens(1, 5)).sizes(), (at::IntArrayRef{1, 5, 256}));
}

TEST(GptModel, AFreshModelGuessesAllBytesAlike) {
  GPT model = small_model();
  EXPECT_NEAR(model->loss(some_tokens(4, 16), some_tokens(4, 16)).item<double>(), std::log(256.0),
              0.1);
}

TEST(GptModel, TheHeadIsTheEmbedding) {
  GPT model = small_model();
  for (const auto& entry : model->named_parameters()) {
    EXPECT_EQ(entry.key().find("head"), std::string::npos) << entry.key();
  }
  // Byte 200 is never an input, so only the head can give its row a gradient.
  model->loss(torch::zeros({1, 8}, torch::kLong), torch::full({1, 8}, 200, torch::kLong))
      .backward();
  EXPECT_GT(model->wte->weight.grad()[200].abs().sum().item<double>(), 0.0);
}

TEST(GptModel, EveryParameterGetsAGradient) {
  GPT model = small_model();
  model->loss(some_tokens(2, 16), some_tokens(2, 16)).backward();
  for (const auto& entry : model->named_parameters()) {
    EXPECT_TRUE(entry.value().grad().defined()) << entry.key();
  }
}

TEST(GptModel, ALaterByteChangesNothingBeforeIt) {
  GPT model = small_model();
  torch::NoGradGuard no_grad;
  auto tokens = some_tokens(1, 16);
  const auto before = model->forward(tokens).slice(1, 0, 10).clone();
  tokens[0][10] = (tokens[0][10] + 1) % 256;
  EXPECT_TRUE(torch::allclose(model->forward(tokens).slice(1, 0, 10), before, 1e-5, 1e-6));
}

TEST(GptModel, RowsLongerThanTheContextAndOddHeadsAreRefused) {
  GPT model = small_model();
  EXPECT_THROW(model->forward(some_tokens(1, 17)), c10::Error);
  EXPECT_THROW(GPT(GPTOptions().width(32).heads(5)), c10::Error);
}

TEST(GptModel, LearnsAPatternByHeart) {
  GPT model = small_model();
  torch::optim::AdamW optimizer(model->parameters(), 3e-3);
  const auto text = torch::arange(17, torch::kLong).mul(7).remainder(256).unsqueeze(0);
  const auto tokens = text.slice(1, 0, 16), target = text.slice(1, 1, 17);
  double last = 0.0;
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    auto loss = model->loss(tokens, target);
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  EXPECT_LT(last, 0.5);
}

TEST(Generate, ContinuesThePromptTheSameWayForTheSameSeed) {
  GPT model = small_model();
  const std::string text = generate(model, "word", 40, 1.0, 5);  // longer than the context
  EXPECT_EQ(text.size(), 44U);
  EXPECT_EQ(text.substr(0, 4), "word");
  EXPECT_EQ(text, generate(model, "word", 40, 1.0, 5));
  EXPECT_NE(text, generate(model, "word", 40, 1.0, 6));
}

TEST(Generate, KeepsNoGraphAndRefusesWhatHasNoMeaning) {
  GPT model = small_model();
  generate(model, "a", 2, 0.5, 1);
  EXPECT_TRUE(torch::GradMode::is_enabled());
  EXPECT_THROW(generate(model, "", 2, 0.5, 1), c10::Error);
  EXPECT_THROW(generate(model, "a", 2, 0.0, 1), c10::Error);
}

TEST(Generate, PrintableTextHasNoControlBytes) {
  EXPECT_EQ(printable("a\tb\n\xc3\xa9~"), "a?b\n??~");
}

}  // namespace
}  // namespace gpt
