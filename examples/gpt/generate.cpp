// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <string_view>

namespace gpt {

std::string generate(GPT& model, const std::string& prompt, int64_t bytes, double temperature,
                     uint64_t seed) {
  TORCH_CHECK(!prompt.empty(), "generate: the prompt is empty; give at least one byte");
  TORCH_CHECK(temperature > 0.0, "generate: temperature is ", temperature, ", it must be above 0");
  torch::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto device = model->wte->weight.device();
  std::string text = prompt;
  for (int64_t i = 0; i < bytes; ++i) {
    const auto seen = std::min(static_cast<size_t>(model->context()), text.size());
    // Always a whole context: attention is causal, so what follows the text changes nothing, and
    // one shape spares the CPU libraries a new kernel for each length.
    auto tokens = torch::zeros({1, model->context()}, torch::kLong);
    const std::string_view window = std::string_view(text).substr(text.size() - seen);
    std::transform(window.begin(), window.end(), tokens.data_ptr<int64_t>(),
                   [](char byte) { return static_cast<uint8_t>(byte); });
    const auto logits = model->forward(tokens.to(device))
                            .select(1, static_cast<int64_t>(seen) - 1)
                            .to(torch::kCPU, torch::kFloat);
    const auto next =
        torch::multinomial(torch::softmax(logits / temperature, -1), 1, false, generator);
    text.push_back(static_cast<char>(next.item<int64_t>()));
  }
  return text;
}

std::string printable(const std::string& text) {
  std::string result = text;
  for (char& c : result) {
    if (c != '\n' && (c < ' ' || c > '~')) c = '?';
  }
  return result;
}

}  // namespace gpt
