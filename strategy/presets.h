// SPDX-License-Identifier: Apache-2.0
// Presets: named sets of flags, compiled in. configs/<name>.yaml says the same with comments; a
// test keeps them equal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "zero/strategy_options.h"

namespace zero {

// zero_stage_1, zero_stage_2, zero_stage_3, zero_stage_1_offload, zero_stage_2_offload,
// zero_stage_3_offload.
std::vector<std::string_view> preset_names();

// The preset's flags as a layer for resolve(). "deepspeed_stage_3" is understood as "zero_stage_3",
// "deepspeed" as "zero_stage_2".
// An unknown name is a problem in the result.
Flags preset_flags(const std::string& name);

// The preset alone. Throws ConfigError for an unknown name.
EngineConfig preset(const std::string& name);

}  // namespace zero
