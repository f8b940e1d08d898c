// SPDX-License-Identifier: Apache-2.0
#include "examples/gptj/generate.h"

#include <torch/types.h>
#include <torch/utils.h>

namespace gptj {

std::vector<int64_t> generate(GPTJ& model, const std::vector<int64_t>& prompt, torch::Device device,
                              const GenerateOptions& options) {
  TORCH_CHECK(!prompt.empty(), "generate: the prompt is empty; give at least one token");
  const torch::NoGradGuard no_grad;
  const auto any_rank = options.on_any_rank ? options.on_any_rank : [](bool here) { return here; };
  std::vector<int64_t> continuation;
  Cache cache;
  torch::Tensor next = torch::tensor(prompt).unsqueeze(0).to(device);
  bool wants_more = options.tokens > 0;
  while (any_rank(wants_more)) {
    // One that has ended repeats its last token, against a cache that no longer grows.
    Cache scratch = cache;
    const auto logits = model->forward(next, wants_more ? &cache : &scratch);
    if (!wants_more) continue;
    next = logits.select(1, -1).argmax(-1, /*keepdim=*/true);
    continuation.push_back(next.item<int64_t>());
    wants_more = static_cast<int64_t>(continuation.size()) < options.tokens &&
                 continuation.back() != options.end_token;
  }
  return continuation;
}

}  // namespace gptj
