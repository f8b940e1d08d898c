// SPDX-License-Identifier: Apache-2.0
// Text from a trained model, byte by byte.
#pragma once

#include <cstdint>
#include <string>

#include "examples/gpt/model.h"

namespace gpt {

// Continues `prompt` (at least one byte) by `bytes` bytes. A low temperature keeps to likely bytes,
// 1 samples as the model believes. Each byte is one forward pass, so under partitioned parameters
// every rank must call this with the same arguments; all ranks then get the same text.
std::string generate(GPT& model, const std::string& prompt, int64_t bytes, double temperature,
                     uint64_t seed);

// What is not printable ASCII or a line break becomes '?': a byte-level model may cut a UTF-8
// character in half.
std::string printable(const std::string& text);

}  // namespace gpt
