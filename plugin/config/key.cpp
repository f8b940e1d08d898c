// SPDX-License-Identifier: Apache-2.0
#include "plugin/config/key.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace zero {
namespace {

// Strategies of trainers offer the keys of these sections as flags without the section.
bool has_flat_name(std::string_view path) {
  static constexpr std::array<std::string_view, 4> kSections = {
      "zero_optimization", "activation_checkpointing", "fp16", "aio"};
  static constexpr std::array<std::string_view, 3> kTooGeneral = {"enabled", "profile", "aio"};
  return std::ranges::find(kSections, section_of(path)) != kSections.end() &&
         std::ranges::find(kTooGeneral, last_name(path)) == kTooGeneral.end();
}

bool is_path(std::string_view name) { return name.find('.') != std::string_view::npos; }

void add_unique(std::vector<std::string>& names, std::string_view name) {
  if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
}

void add_names(TableRow& row, const std::vector<std::string_view>& aliases) {
  const std::string path = row.path;
  if (has_flat_name(path) && row.kind != KeyKind::kSection)
    add_unique(row.flat_names, last_name(path));
  for (const std::string_view alias : aliases) {
    // A top-level key's other names stand at the top-level too.
    const bool whole = is_path(alias) || (!is_path(path) && row.setting == nullptr);
    add_unique(whole ? row.names : row.flat_names, alias);
    if (is_path(alias) && has_flat_name(alias)) add_unique(row.flat_names, last_name(alias));
  }
}

TableRow row_of(const SettingRow& setting) {
  TableRow row;
  const bool in_trainer =
      setting.consumer() == Consumer::kTrainer && setting.path().starts_with("trainer.");
  row.path = setting.path().empty() ? setting.name() : setting.path();
  row.kind = KeyKind::kSets;
  row.setting = &setting;
  row.names = {row.path};
  if (!is_path(setting.name()) && !in_trainer) row.flat_names.emplace_back(setting.name());
  add_names(row, setting.aliases());
  return row;
}

TableRow row_of(const Key& key) {
  TableRow row;
  row.path = key.path;
  row.kind = key.kind;
  row.key = &key;
  if (!key.setting.empty()) row.setting = find_setting(key.setting);
  row.names = {row.path};
  add_names(row, key.aliases);
  return row;
}

struct Index {
  std::unordered_map<std::string_view, const TableRow*> paths;
  std::unordered_map<std::string_view, const TableRow*> flat;
};

const Index& index() {
  static const Index all = [] {
    Index result;
    for (const TableRow& row : key_table()) {
      for (const std::string& name : row.names) result.paths.emplace(name, &row);
      for (const std::string& name : row.flat_names) result.flat.emplace(name, &row);
    }
    return result;
  }();
  return all;
}

}  // namespace

std::string_view last_name(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

const std::vector<TableRow>& key_table() {
  static const std::vector<TableRow> all = [] {
    std::vector<TableRow> rows;
    for (const SettingRow* const setting : setting_rows()) rows.push_back(row_of(*setting));
    for (const auto& part : {zero_keys(), training_keys(), outside_keys(), trainer_keys()}) {
      for (const Key& key : part) rows.push_back(row_of(key));
    }
    return rows;
  }();
  return all;
}

const TableRow* find_row(std::string_view path, bool flat) {
  const auto& names = flat ? index().flat : index().paths;
  const auto found = names.find(path);
  return found == names.end() ? nullptr : found->second;
}

std::vector<const TableRow*> rows_named(std::string_view name) {
  std::vector<const TableRow*> rows;
  for (const TableRow& row : key_table()) {
    const bool named = std::ranges::any_of(
        row.names, [&](const std::string& path) { return last_name(path) == name; });
    if (named) rows.push_back(&row);
  }
  return rows;
}

std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  for (const TableRow& row : key_table()) {
    for (const std::string& path : row.names) {
      if (section_of(path) == section) names.push_back(last_name(path));
    }
  }
  return names;
}

std::vector<std::string_view> all_flat_names() {
  std::vector<std::string_view> names;
  for (const TableRow& row : key_table()) {
    names.insert(names.end(), row.flat_names.begin(), row.flat_names.end());
  }
  return names;
}

}  // namespace zero
