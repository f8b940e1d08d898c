// SPDX-License-Identifier: Apache-2.0
#include "fuzz/check_document.h"

#include <cstdio>
#include <cstdlib>

#include "plugin/config/setting_row.h"
#include "strategy/config_file.h"
#include "trainer_integration/command_line/document_text.h"

namespace zero::fuzz {
namespace {

void require(bool holds, const char* what, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

std::string values_of(const Flags& flags) {
  std::string values;
  for (const SettingRow* const row : setting_rows()) {
    if (row->given(flags.values)) {
      values.append(row->name()).append("=").append(row->value_text(flags.values)).append("\n");
    }
  }
  return values;
}

}  // namespace

void check_document(const Document& document) {
  const Flags flags = read_flags(document);
  for (const std::string& problem : flags.problems) {
    const bool one_line = !problem.empty() && problem.find('\n') == std::string::npos;
    require(one_line, "a problem must be one line", problem);
  }
  try {
    resolve_all({}, {flags}, {.world_size = 4});
  } catch (const ConfigError&) {
    return;
  }
  const std::string values = values_of(flags);
  for (const bool yaml : {true, false}) {
    const std::string text = yaml ? yaml_text(document.root) : json_text(document.root);
    const Flags again =
        yaml ? parse_config(text, "again.yaml") : parse_json_config(text, "again.json");
    require(again.problems.empty() && values_of(again) == values, "does not mean the same", text);
  }
}

}  // namespace zero::fuzz
