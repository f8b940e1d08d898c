// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "examples/gptj/model.h"

namespace gptj {

struct GenerateOptions {
  int64_t tokens = 16;                    // at most so many new ones
  int64_t end_token = 50256;              // a sequence ends after it
  std::function<bool(bool)> on_any_rank;  // whether it is true on any rank; empty: one rank
};

// Greedy continuation of one prompt, the prompt left out. Each forward pass after the first takes one
// token; keys and values of the others are kept. Ranks may have prompts of different lengths: a rank
// whose sequence has ended goes on taking part in the forward passes of the others, since under
// stage 3 a forward pass needs all ranks.
std::vector<int64_t> generate(GPTJ& model, const std::vector<int64_t>& prompt, torch::Device device,
                              const GenerateOptions& options);

}  // namespace gptj
