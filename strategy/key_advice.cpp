// SPDX-License-Identifier: Apache-2.0
#include "strategy/key_advice.h"

#include <algorithm>
#include <vector>

#include "plugin/config/key.h"

namespace zero {
namespace {

std::string place_name(std::string_view section) {
  return section.empty() ? "at the top level" : "in " + std::string(section);
}

// The name stands elsewhere in the table.
std::string right_level(const UnknownKey& unknown) {
  constexpr size_t kTooMany = 2;  // "enabled", "type": names that say nothing about their place
  const TableRow* flat = find_row(unknown.key, true);
  if (flat != nullptr && last_name(flat->path) != unknown.key) {
    return "here it is " + flat->path;
  }
  std::vector<const TableRow*> rows = rows_named(unknown.key);
  if (rows.empty() && flat != nullptr) rows.push_back(flat);
  if (rows.empty() || rows.size() > kTooMany) return "";
  std::string text = "it belongs ";
  for (size_t i = 0; i < rows.size(); ++i) {
    text.append(i > 0 ? " or " : "").append(place_name(section_of(rows[i]->path)));
  }
  return text;
}

// A section of another tool around keys that are known without it.
std::string loose_children(const UnknownKey& unknown) {
  if (unknown.value == nullptr || unknown.value->kind != Node::Kind::kMap) return "";
  std::vector<std::string_view> known;
  for (const Entry& entry : unknown.value->entries) {
    if (find_row(entry.key, false) != nullptr) known.push_back(entry.key);
  }
  if (known.empty()) return "";
  return "there is no such section; " + join_or(known) + " in it belong" +
         (known.size() == 1 ? "s" : "") + " at the top level";
}

// The old form of a key tells the new one.
std::string with_remark(std::string_view section, std::string_view name) {
  std::string path(section);
  path.append(path.empty() ? "" : ".").append(name);
  std::string text = "did you mean " + std::string(name) + "?";
  const TableRow* const row = find_row(path, false);
  if (row != nullptr && row->kind == KeyKind::kOldForm) {
    text.append(" (").append(row->key->says).append(")");
  }
  return text;
}

std::string similar_elsewhere(std::string_view key) {
  std::vector<std::string_view> names;
  for (const TableRow& row : key_table()) {
    for (const std::string& name : row.names) names.push_back(last_name(name));
  }
  const auto name = nearest(key, names);
  if (!name) return "";
  const std::vector<const TableRow*> rows = rows_named(*name);
  return "did you mean " + rows.front()->path + "?";
}

std::string known_here(std::vector<std::string_view> names) {
  constexpr size_t kReadable = 24;
  if (names.empty()) return "";
  if (names.size() <= kReadable) return "known here are " + join_or(names);
  names.resize(kReadable);
  std::string text = "known here are ";
  for (const std::string_view name : names) text.append(name).append(", ");
  return text + "...";
}

}  // namespace

std::string advice_for(const UnknownKey& unknown) {
  const std::string reason = "unknown key; ";
  const std::string_view foreign = advice_for_foreign_name(unknown.key);
  if (!foreign.empty()) return reason + std::string(foreign);
  if (!unknown.section.empty() && unknown.key == last_name(unknown.section)) {
    return reason + "write " + std::string(unknown.section) + ".enabled";
  }
  const std::string level = right_level(unknown);
  if (!level.empty()) return reason + level;

  std::vector<std::string_view> names = names_in(unknown.section);
  if (unknown.flat_names) {
    const auto flat = all_flat_names();
    names.insert(names.begin(), flat.begin(), flat.end());
  }
  if (const auto name = nearest(unknown.key, names)) {
    return reason + with_remark(unknown.section, *name);
  }
  const std::string children = loose_children(unknown);
  if (!children.empty()) return reason + children;
  const std::string elsewhere = similar_elsewhere(unknown.key);
  if (!elsewhere.empty()) return reason + elsewhere;
  return reason + known_here(std::move(names));
}

}  // namespace zero
