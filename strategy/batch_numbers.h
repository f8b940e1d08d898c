// SPDX-License-Identifier: Apache-2.0
// The three batch numbers: train_batch_size = train_micro_batch_size_per_gpu x
// gradient_accumulation_steps x ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/engine_config.h"

namespace zero {

// Fills the number of accumulation steps, and "auto", from the numbers that are given, and adds a
// problem where they contradict each other or cannot be known. Without a world size only what holds
// for every one is done; call again when it is known.
void fill_batch_numbers(EngineConfig& config, std::optional<int> world_size,
                        std::vector<std::string>& problems);

}  // namespace zero
