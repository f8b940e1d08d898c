// SPDX-License-Identifier: Apache-2.0
// Flags from a YAML file and from a command line. Readers throw nothing: what is wrong stands in
// `flags.problems`, and resolve() reports it together with the problems of all other sources.
//
// A file holds flags at its top level or under `strategy:`, and may hold a `trainer:` map for
// zero::Trainer:
//
//   stage: 3
//   page_bytes: 16MiB
//   trainer:
//     steps: 200
//
// Keys that start with '_' are comments.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "zero/strategy_options.h"

namespace zero {

struct ConfigFile {
  Flags flags;  // problems of the `trainer:` map stand here too
  TrainerSettings trainer;
};

ConfigFile read_config_file(const std::filesystem::path& file);
// `name` stands for the file in messages.
ConfigFile parse_config(const std::string& text, const std::string& name);

// Arguments of the form --flag=value.
Flags parse_arguments(const std::vector<std::string>& arguments);

}  // namespace zero
