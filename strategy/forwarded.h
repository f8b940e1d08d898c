// SPDX-License-Identifier: Apache-2.0
// What became of every flag, as a table for people.
#pragma once

#include <string>

#include "zero/run_config.h"

namespace zero {

// One line a setting of the engine, and one for each other setting that was given: flag as it was
// given, engine key, value, where the value came from, the part that acts on it, and whether that
// part has read it yet.
std::string forwarded_report(const RunConfig& config);
// The same as a JSON list: {"flag", "key", "value", "source", "where", "consumer", "read"}; "flag"
// is null where nobody gave it.
std::string forwarded_json(const RunConfig& config);

}  // namespace zero
