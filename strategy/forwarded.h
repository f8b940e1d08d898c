// SPDX-License-Identifier: Apache-2.0
// What became of every flag, as a table for people.
#pragma once

#include <string>

#include "zero/engine_config.h"

namespace zero {

// One line a setting: flag as it was given, engine key, value, where the value came from, the part
// of the engine that acts on it, and whether that part has read it yet.
std::string forwarded_report(const EngineConfig& config);

}  // namespace zero
