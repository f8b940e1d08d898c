// SPDX-License-Identifier: Apache-2.0
// Flags from a file, the environment and a command line. Readers throw nothing: what is wrong
// stands in `flags.problems`, and resolve() reports it together with the problems of all other
// sources.
//
// A file is YAML or JSON. It holds flags at its top level or under `strategy:`, or DeepSpeed's
// sections, and may hold a `trainer:` map for zero::Trainer:
//
//   stage: 3                 zero_optimization:
//   page_bytes: 16MiB          stage: 3
//   trainer:                   offload_param: {device: cpu}
//     steps: 200             bf16: {enabled: true}
//
// In a file with sections a flag that belongs into one of them is at the wrong level at the top.
// Keys that start with '_' or '#' are comments. null is "not set".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/config/document.h"
#include "zero/strategy_options.h"

namespace zero {

// Read as the file's ending says; see read_document().
Flags read_config_file(const std::filesystem::path& file);
// YAML. `name` stands for the file in messages.
Flags parse_config(std::string_view text, const std::string& name);
Flags parse_json_config(std::string_view text, const std::string& name);
Flags read_flags(const Document& document);

// Arguments of the form --flag=value, --set path=value and --set=path=value.
Flags parse_arguments(const std::vector<std::string>& arguments);
// "zero_optimization.stage=2;gradient_clipping=1.0", as the variable LIBZERO_SET holds it.
Flags parse_environment(std::string_view text);
// LIBZERO_SET of this process; nothing where it is not set.
Flags flags_from_environment();

}  // namespace zero
