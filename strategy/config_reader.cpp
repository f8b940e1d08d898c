// SPDX-License-Identifier: Apache-2.0
#include "strategy/config_reader.h"

#include <algorithm>
#include <array>

#include "strategy/key_advice.h"

namespace zero {
namespace {

// These hold the same keys as the top level, without their sections too.
constexpr std::array<std::string_view, 2> kWrappers = {"strategy", "deepspeed_config"};

bool is_wrapper(std::string_view key) {
  return std::ranges::find(kWrappers, key) != kWrappers.end();
}

bool is_null(const Node& node) { return node.kind == Node::Kind::kNull; }

// DeepSpeed's form: some section of it stands at the top.
bool has_sections(const Node& root) {
  return std::ranges::any_of(root.entries, [](const Entry& entry) {
    const TableRow* const row = find_row(entry.key, false);
    return row != nullptr && row->kind == KeyKind::kSection && !is_wrapper(entry.key) &&
           entry.key != "trainer";
  });
}

}  // namespace

bool is_comment(std::string_view key) { return key.starts_with('_') || key.starts_with('#'); }

void ConfigReader::problem(const std::string& where, const std::string& path,
                           const std::string& reason) {
  flags_.problems.push_back(problem_line(where, path, reason));
}

void ConfigReader::notice(const Met& met, std::string_view says, int acts_at_stage) {
  if (!says.empty()) {
    flags_.notices.push_back({met.where, met.path, std::string(says), acts_at_stage});
  }
}

void ConfigReader::document(const Node& root) {
  if (root.kind != Node::Kind::kMap) {
    flags_.problems.push_back(
        root.where + (is_null(root) ? ": holds no settings; write flags such as 'stage: 2' into it"
                                    : ": must be a map of flags such as 'stage: 2'"));
    return;
  }
  sections_ = has_sections(root);
  section(root, {"", "", !sections_});
}

void ConfigReader::section(const Node& map, const Place& place) {
  for (const Entry& child : map.entries) {
    if (!is_comment(child.key)) entry(child, place);
  }
}

void ConfigReader::entry(const Entry& entry, const Place& place) {
  const std::string written = place.prefix + entry.key;
  if (place.prefix.empty() && is_wrapper(entry.key)) {
    wrapper(entry, written);
    return;
  }
  const std::string path = place.section.empty() ? entry.key : place.section + "." + entry.key;
  const TableRow* row = is_wrapper(path) ? nullptr : find_row(path, false);
  if (row == nullptr && place.section.empty()) {
    const TableRow* const flag = find_row(entry.key, true);
    // Between sections, only what has no section of its own.
    const bool top_level = flag != nullptr && section_of(flag->path).empty();
    if (place.flat || top_level) row = flag;
  }
  if (row == nullptr) {
    problem(entry.where, written, advice_for({entry.key, place.section, &entry.value, place.flat}));
    return;
  }
  const Met met{written, entry.where, row, &entry.value};
  if (first_time(*row, met)) take(*row, met);
}

void ConfigReader::wrapper(const Entry& entry, const std::string& path) {
  const TableRow& row = *find_row(path, false);
  if (!first_time(row, {path, entry.where, &row, &entry.value})) return;
  if (entry.value.kind != Node::Kind::kMap) {
    problem(entry.value.where, path, "must be a map of settings; fill it or remove it");
    return;
  }
  section(entry.value, {"", path + ".", true});
}

void ConfigReader::single(std::string_view name, const std::string& written, const Node& node,
                          const std::string& where) {
  const TableRow* row = find_row(name, false);
  if (row == nullptr) row = find_row(name, true);
  if (row == nullptr || is_wrapper(name)) {
    problem(where, written,
            advice_for({last_name(name), section_of(name), &node, section_of(name).empty()}));
    return;
  }
  const Met met{written, where, row, &node};
  if (first_time(*row, met)) take(*row, met);
}

void ConfigReader::finish() { check_rules(met_, sections_, flags_); }

bool ConfigReader::first_time(const TableRow& row, const Met& met) {
  const auto [first, fresh] = met_.try_emplace(row.path, met);
  if (fresh) return true;
  problem(met.where, met.path,
          met.path == first->second.path ? "stands here for the second time, first at " +
                                               first->second.where + "; keep one of the two"
                                         : "means the same as " + first->second.path + " at " +
                                               first->second.where + "; keep one of the two");
  return false;
}

// Different keys may set one setting.
bool ConfigReader::first_value(const TableRow& row, const Met& met) {
  const auto [first, fresh] = given_.try_emplace(std::string(row.setting->name()), met);
  if (fresh) return true;
  const Met& other = first->second;
  // One switch for each value of a setting: fp16.enabled and bf16.enabled.
  const bool switches = last_name(met.path) == "enabled" && last_name(other.path) == "enabled";
  problem(met.where, met.path,
          switches
              ? "excludes " + other.path + " at " + other.where + "; switch one of the two off"
              : "means the same as " + other.path + " at " + other.where + "; keep one of the two");
  return false;
}

void ConfigReader::take(const TableRow& row, const Met& met) {
  const bool other_name = std::ranges::find(row.names, met.path) != row.names.end() &&
                          met.path != row.path && row.kind != KeyKind::kSection;
  if (other_name) notice(met, "old or other name of " + row.path);
  if (is_null(*met.node)) {
    if (row.kind == KeyKind::kSection && row.key->words.empty() && row.path == "trainer") {
      problem(met.where, met.path, "must be a map of settings; fill it or remove it");
    } else {
      notice(met, "null is read as: not set");
    }
    return;
  }
  switch (row.kind) {
    case KeyKind::kSection:
      take_section(row, met);
      break;
    case KeyKind::kSets:
    case KeyKind::kOldForm:
      take_setting(row, met);
      break;
    case KeyKind::kFixed:
      take_fixed(*row.key, met);
      break;
    case KeyKind::kNoted:
      take_noted(*row.key, met);
      break;
    case KeyKind::kOutside:
      take_outside(*row.key, met);
      break;
  }
}

void ConfigReader::take_section(const TableRow& row, const Met& met) {
  if (met.node->kind == Node::Kind::kMap) {
    section(*met.node, {row.path, met.path + ".", false});
  } else if (!row.key->words.empty() && met.node->kind == Node::Kind::kScalar) {
    take_word(row, met);
    notice(met, row.key->says);
  } else {
    problem(met.node->where, met.path,
            "must be a map of settings, got " + kind_text(*met.node) + "; fill it or remove it");
  }
}

}  // namespace zero
