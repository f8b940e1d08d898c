// SPDX-License-Identifier: Apache-2.0
// What `zero config ...` does. Each command writes to the given streams and returns the exit code:
// 0, or 1 when the configuration is wrong.
#pragma once

#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace zero {

struct ConfigRequest {
  std::filesystem::path file;
  std::optional<int> world_size;
  std::vector<std::string> overrides;  // "path=value"
};

// Problems, one a line: "FILE:LINE:COLUMN: path: reason; remedy". Notices have "notice: " after
// the place.
int check_config(const ConfigRequest& request, std::ostream& out, std::ostream& err);
// Every value, where it comes from, and what it does.
int explain_config(const ConfigRequest& request, std::ostream& out, std::ostream& err);

enum class TextForm { kYaml, kJson };
int convert_config(const std::filesystem::path& file, TextForm to, std::ostream& out,
                   std::ostream& err);

// docs/configuration.md.
std::string configuration_page();
// configs/schema.json.
std::string configuration_schema();
// All settings with one line each, for --help.
std::string settings_help();

}  // namespace zero
