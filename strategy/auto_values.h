// SPDX-License-Identifier: Apache-2.0
// "auto" filled from what is known when a model is set up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/run_config.h"

namespace zero {

struct Known {
  std::optional<int64_t> width;        // elements of a hidden state, see model_width()
  std::optional<Precision> precision;  // of the model's parameters
};

// Problems name each "auto" that `known` does not fill; settings of the optimizer and the scheduler
// are left to those who build them.
std::vector<std::string> fill_auto(EngineConfig& config, const Known& known);

// The width of a model from its matrices: the last size that most of their elements have.
// `last_size_and_elements` is one pair a matrix.
std::optional<int64_t> model_width(
    const std::vector<std::pair<int64_t, int64_t>>& last_size_and_elements);

}  // namespace zero
