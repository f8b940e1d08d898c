// SPDX-License-Identifier: Apache-2.0
// docs/configuration.md, from the tables of settings and keys.
#include <algorithm>

#include "plugin/config/key.h"
#include "strategy/presets.h"
#include "trainer_integration/command_line/config_commands.h"

namespace zero {
namespace {

std::string code(std::string_view text) { return std::string("`").append(text).append("`"); }

// Cells of a table must not end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

const TableRow& table_row(const SettingRow& setting) {
  const auto& rows = key_table();
  return *std::ranges::find_if(
      rows, [&](const TableRow& row) { return row.key == nullptr && row.setting == &setting; });
}

// All other names, paths first; for a setting also the keys that set it in words of their own.
std::string other_names(const TableRow& row) {
  std::string names;
  const auto add = [&](const std::string& name) {
    if (name != row.path) names.append(names.empty() ? "" : ", ").append(code(name));
  };
  for (const TableRow& other : key_table()) {
    if (row.key == nullptr && other.key != nullptr && other.kind == KeyKind::kSets &&
        other.setting == row.setting) {
      add(other.path);
    }
  }
  for (const std::string& name : row.names) add(name);
  for (const std::string& name : row.flat_names) add(name);
  return names;
}

std::string auto_text(const SettingRow& setting) {
  return setting.auto_from() == AutoFrom::kNobody ? "" : ", or auto";
}

void settings_table(std::string& page, std::string_view title, std::string_view says,
                    const std::vector<const SettingRow*>& settings) {
  page.append("\n## ").append(title).append("\n\n").append(says).append("\n\n");
  page.append("| key | other names | values | default | what it does | read by |\n");
  page.append("| --- | --- | --- | --- | --- | --- |\n");
  const RunConfig defaults;
  for (const SettingRow* const setting : settings) {
    const TableRow& row = table_row(*setting);
    page.append("| ").append(code(row.path)).append(" | ").append(other_names(row));
    page.append(" | ").append(cell(setting->allowed())).append(auto_text(*setting));
    std::string value = setting->value_text(defaults);
    if (value == std::to_string(kNoLimit)) value = "no limit";
    page.append(" | ").append(value.empty() ? "" : code(value));
    page.append(" | ").append(cell(setting->help()));
    if (!setting->of_types().empty()) {
      page.append(" (");
      for (size_t i = 0; i < setting->of_types().size(); ++i) {
        page.append(i > 0 ? ", " : "").append(setting->of_types()[i]);
      }
      page.append(")");
    }
    page.append(" | ").append(name_of(setting->consumer()));
    if (!setting->acts_when().empty()) page.append(", ").append(cell(setting->acts_when()));
    page.append(" |\n");
  }
}

std::vector<const SettingRow*> settings_where(bool (*belongs)(const SettingRow&)) {
  std::vector<const SettingRow*> found;
  std::ranges::copy_if(setting_rows(), std::back_inserter(found),
                       [&](const SettingRow* row) { return belongs(*row); });
  return found;
}

bool starts_with(const SettingRow& row, std::string_view prefix) {
  return row.name().starts_with(prefix) || row.path().starts_with(prefix);
}

void keys_table(std::string& page, std::string_view title, std::string_view says, KeyKind kind) {
  page.append("\n## ").append(title).append("\n\n").append(says).append("\n\n");
  page.append("| key | other names | what happens |\n| --- | --- | --- |\n");
  for (const TableRow& row : key_table()) {
    if (row.key == nullptr || row.kind != kind) continue;
    page.append("| ").append(code(row.path)).append(" | ").append(other_names(row));
    page.append(" | ").append(cell(row.key->says));
    if (kind == KeyKind::kFixed) {
      page.append("; taken: ");
      for (size_t i = 0; i < row.key->one_of.size(); ++i) {
        page.append(i > 0 ? ", " : "").append(code(row.key->one_of[i]));
      }
    }
    page.append(" |\n");
  }
}

constexpr std::string_view kIntroduction = R"(# Configuration

<!-- Written by `zero config docs`; a test keeps it so. Edit the tables in plugin/config, not this page. -->

A configuration is a YAML file or a JSON file as DeepSpeed's users write it: with comments, trailing commas, keys and words without
quotes. It holds DeepSpeed's sections, or flags by their flat names at its top level or under `strategy:`. Keys that start with `_` or
`#` are comments, `null` is "not set".

- Of several sources the later wins: default, preset, file, environment (`LIBZERO_SET="path=value;path=value"`), command line
  (`--flag=value`, `--set path=value`), code (`zero::StrategyOptions`).
- All that is wrong is reported together, each with its place, its path, the reason and the remedy: unknown keys at any depth, keys at
  the wrong level, values that cannot be right, two names for one setting, combinations that cannot work.
- What is understood in another way than it was written, or does nothing here, is told in a notice.
- A setting that was given and that nothing has read by the end of the first step is an error.
- `zero config check FILE` tells all this without a run, `zero config explain FILE` shows every value with its source.
)";

}  // namespace

std::string configuration_page() {
  std::string page(kIntroduction);
  page.append("\nPresets: ");
  const auto presets = preset_names();
  for (size_t i = 0; i < presets.size(); ++i) {
    page.append(i > 0 ? ", " : "").append(code(presets[i]));
  }
  page.append(". `deepspeed` is understood in place of `zero`.\n");
  settings_table(page, "Engine",
                 "Read by the parts of the engine that are named in the last column.",
                 settings_where([](const SettingRow& row) {
                   return !starts_with(row, "optimizer.") && !starts_with(row, "scheduler.") &&
                          !starts_with(row, "trainer.");
                 }));
  settings_table(
      page, "Optimizer",
      "`strategy.make_optimizer(parameters)` builds it. In brackets: the types that have "
      "the parameter. What is not given has the default of the type.",
      settings_where([](const SettingRow& row) { return starts_with(row, "optimizer."); }));
  settings_table(
      page, "Scheduler", "`strategy.make_scheduler(optimizer)` builds it; see `zero/schedulers.h`.",
      settings_where([](const SettingRow& row) { return starts_with(row, "scheduler."); }));
  settings_table(
      page, "Trainer", "Read by `zero::TrainerOptions`.",
      settings_where([](const SettingRow& row) { return starts_with(row, "trainer."); }));
  keys_table(page, "Old forms", "Translated, with a notice.", KeyKind::kOldForm);
  keys_table(page, "Decided once",
             "LibZeRO does it in one way: the value that agrees is taken, others are refused.",
             KeyKind::kFixed);
  keys_table(page, "Decided elsewhere", "Taken, with a notice that says by what.", KeyKind::kNoted);
  keys_table(page, "Not part of LibZeRO", "Refused where it is switched on.", KeyKind::kOutside);
  return page;
}

}  // namespace zero
