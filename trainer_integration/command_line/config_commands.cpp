// SPDX-License-Identifier: Apache-2.0
#include "trainer_integration/command_line/config_commands.h"

#include <algorithm>

#include "plugin/config/setting_row.h"
#include "strategy/config_file.h"
#include "trainer_integration/command_line/document_text.h"
#include "zero/strategy_options.h"

namespace zero {
namespace {

Resolved resolve_request(const ConfigRequest& request) {
  std::vector<std::string> arguments;
  for (const std::string& assignment : request.overrides) {
    arguments.emplace_back("--set");
    arguments.push_back(assignment);
  }
  return resolve_all(
      {}, {read_config_file(request.file), flags_from_environment(), parse_arguments(arguments)},
      {.world_size = request.world_size});
}

void print_problems(const ConfigError& error, std::ostream& err) {
  for (const std::string& problem : error.problems()) err << problem << '\n';
}

// As compilers mark theirs: after the place.
void print_notices(const std::vector<std::string>& notices, const std::filesystem::path& file,
                   std::ostream& err) {
  for (const std::string& notice : notices) {
    const std::string name = file.string();
    const size_t from = notice.starts_with(name) ? name.size() : 0;
    const size_t place_end = notice.find(": ", from);
    const size_t at = place_end == std::string::npos ? 0 : place_end + 2;
    err << notice.substr(0, at) << "notice: " << notice.substr(at) << '\n';
  }
}

std::string padded(std::string_view text, size_t width) {
  std::string out(text);
  out.resize(std::max(width, out.size()), ' ');
  return out;
}

// The parts of the run that act on a setting, as a clause.
std::string effect_of(const SettingRow& row) {
  std::string effect(row.help());
  effect.append(" [").append(name_of(row.consumer()));
  if (!row.acts_when().empty()) effect.append(", ").append(row.acts_when());
  return effect + "]";
}

}  // namespace

int check_config(const ConfigRequest& request, std::ostream& out, std::ostream& err) {
  try {
    print_notices(resolve_request(request).notices, request.file, err);
    out << request.file.string() << ": no problem found\n";
    return 0;
  } catch (const ConfigError& error) {
    print_problems(error, err);
    return 1;
  }
}

int explain_config(const ConfigRequest& request, std::ostream& out, std::ostream& err) {
  Resolved resolved;
  try {
    resolved = resolve_request(request);
  } catch (const ConfigError& error) {
    print_problems(error, err);
    return 1;
  }
  print_notices(resolved.notices, request.file, err);
  size_t widths[3] = {0, 0, 0};
  const auto cells = [&](const SettingRow& row) {
    return std::array<std::string, 3>{std::string(row.name()), row.value_text(resolved.config),
                                      row.provenance(resolved.config).where};
  };
  for (const SettingRow* const row : setting_rows()) {
    const auto texts = cells(*row);
    for (size_t i = 0; i < texts.size(); ++i) widths[i] = std::max(widths[i], texts[i].size());
  }
  for (const SettingRow* const row : setting_rows()) {
    const auto texts = cells(*row);
    for (size_t i = 0; i < texts.size(); ++i) out << padded(texts[i], widths[i] + 2);
    out << effect_of(*row) << '\n';
  }
  return 0;
}

int convert_config(const std::filesystem::path& file, TextForm to, std::ostream& out,
                   std::ostream& err) {
  const Document document = read_document(file);
  if (!document.problems.empty()) {
    for (const std::string& problem : document.problems) err << problem << '\n';
    return 1;
  }
  out << (to == TextForm::kYaml ? yaml_text(document.root) : json_text(document.root));
  return 0;
}

std::string settings_help() {
  std::string text = "Settings, by the names that --set takes:\n";
  for (const SettingRow* const row : setting_rows()) {
    const std::string name(row->path().empty() ? row->name() : row->path());
    text.append("  ").append(name).append(": ").append(row->allowed()).append("\n      ");
    text.append(row->help()).append("\n");
  }
  return text;
}

}  // namespace zero
