// SPDX-License-Identifier: Apache-2.0
// What becomes of a key's value, by the kind of its row.
#include <algorithm>
#include <cmath>
#include <optional>

#include "strategy/config_reader.h"
#include "strategy/key_advice.h"

namespace zero {
namespace {

bool is_scalar(const Node& node) { return node.kind == Node::Kind::kScalar; }

std::string allowed(const Key& key) {
  if (!key.one_of.empty() && key.kind != KeyKind::kFixed) {
    return join_or(key.one_of) + " (any letter case)";
  }
  switch (key.type) {
    case ValueType::kSwitch:
      return "true or false";
    case ValueType::kWhole:
    case ValueType::kNumber: {
      const std::string number = key.type == ValueType::kWhole ? "a whole number" : "a number";
      if (key.range.min > 0 && key.range.min < 1e-300) return number + " above 0";
      const std::string min = print_value(key.range.min, Unit::kNone);
      if (std::isfinite(key.range.max)) {
        return number + " from " + min + " to " + print_value(key.range.max, Unit::kNone);
      }
      return number + " of at least " + min;
    }
    case ValueType::kText:
      return "a text";
    case ValueType::kList:
      return "a list";
    case ValueType::kMap:
      return "a map";
    case ValueType::kAny:
      break;
  }
  return "a value";
}

// What is wrong with the type; empty: nothing.
Taken check_type(const Key& key, const Node& node) {
  const auto taken = [](const auto& parsed) {
    return parsed.value ? Taken{"", parsed.notice} : Taken{parsed.reason, ""};
  };
  if (key.type == ValueType::kAny || is_auto(node)) return {};
  if (key.type == ValueType::kMap || key.type == ValueType::kList) {
    const bool right =
        node.kind == (key.type == ValueType::kMap ? Node::Kind::kMap : Node::Kind::kList);
    return right ? Taken() : Taken{"got " + kind_text(node), ""};
  }
  if (!is_scalar(node)) return {"got " + kind_text(node), ""};
  if (key.type == ValueType::kSwitch) return taken(parse_value<bool>(node.scalar, Unit::kNone));
  if (key.type == ValueType::kText) return {};
  const Parsed<double> number = parse_value<double>(node.scalar, Unit::kNone);
  if (!number.value) return {number.reason, ""};
  if (!(*number.value >= key.range.min && *number.value <= key.range.max)) {
    return {"got " + as_written(node.scalar), ""};
  }
  return key.type == ValueType::kWhole ? taken(parse_value<int64_t>(node.scalar, Unit::kElements))
                                       : taken(number);
}

// "true" for all spellings of it, "1" for 1.0.
std::string plain(const Key& key, const Scalar& scalar) {
  if (key.type == ValueType::kSwitch) {
    const Parsed<bool> value = parse_value<bool>(scalar, Unit::kNone);
    if (value.value) return print_value(*value.value, Unit::kNone);
  }
  if (key.type == ValueType::kWhole || key.type == ValueType::kNumber) {
    const Parsed<double> value = parse_value<double>(scalar, Unit::kNone);
    if (value.value) return print_value(*value.value, Unit::kNone);
  }
  return scalar.text;
}

const Word* find_word(const Key& key, const std::string& text) {
  const auto word = std::ranges::find_if(
      key.words, [&](const Word& w) { return equal_ignoring_case(w.given, text); });
  return word == key.words.end() ? nullptr : &*word;
}

Node scalar_at(const std::string& where, std::string_view text) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.where = where;
  node.scalar = {std::string(text), false};
  return node;
}

const Node* child(const Node& map, std::string_view name) {
  const auto found =
      std::ranges::find_if(map.entries, [&](const Entry& entry) { return entry.key == name; });
  return found == map.entries.end() ? nullptr : &found->value;
}

bool is_on(const Scalar& scalar) {
  if (scalar.text.empty() || equal_ignoring_case(scalar.text, "none") ||
      equal_ignoring_case(scalar.text, "auto")) {
    return false;
  }
  const Parsed<bool> as_switch = parse_value<bool>(scalar, Unit::kNone);
  if (as_switch.value) return *as_switch.value;
  const Parsed<double> as_number = parse_value<double>(scalar, Unit::kNone);
  return !as_number.value || *as_number.value != 0;
}

bool is_on(const Key& key, const Node& node) {
  if (node.kind == Node::Kind::kScalar) return is_on(node.scalar);
  if (node.kind == Node::Kind::kList) return !node.items.empty();
  if (node.kind != Node::Kind::kMap) return false;
  if (key.switched_by.empty()) {
    return std::ranges::any_of(node.entries,
                               [](const Entry& entry) { return !is_comment(entry.key); });
  }
  const Node* const control = child(node, key.switched_by);
  return control != nullptr && is_scalar(*control) && is_on(control->scalar);
}

}  // namespace

bool ConfigReader::has_right_type(const Key& key, const Met& met) {
  const Taken taken = check_type(key, *met.node);
  if (!taken.reason.empty()) {
    problem(met.node->where, met.path, "must be " + allowed(key) + ", " + taken.reason);
    return false;
  }
  notice(met, taken.notice);
  return true;
}

bool ConfigReader::has_known_children(const Key& key, const Met& met) {
  if (key.children.empty() || met.node->kind != Node::Kind::kMap) return true;
  bool all = true;
  for (const Entry& entry : met.node->entries) {
    if (is_comment(entry.key) || std::ranges::find(key.children, entry.key) != key.children.end()) {
      continue;
    }
    const auto close = nearest(entry.key, key.children);
    problem(entry.where, met.path + "." + entry.key,
            close ? "unknown key; did you mean " + std::string(*close) + "?"
                  : "unknown key; known here are " + join_or(key.children));
    all = false;
  }
  return all;
}

void ConfigReader::take_setting(const TableRow& row, const Met& met) {
  if (row.key == nullptr || row.key->words.empty()) {
    give(row, met, *met.node);
  } else {
    take_word(row, met);
  }
  if (row.kind == KeyKind::kOldForm) notice(met, row.key->says);
}

void ConfigReader::take_word(const TableRow& row, const Met& met) {
  const Key& key = *row.key;
  const Node& node = *met.node;
  std::vector<std::string_view> words;
  for (const Word& word : key.words) words.push_back(word.given);
  if (!is_scalar(node)) {
    problem(node.where, met.path, "must be " + join_or(words) + ", got " + kind_text(node));
    return;
  }
  if (is_auto(node)) {
    // One switch among several is filled only where no other says anything.
    if (!given_.contains(row.setting->name())) {
      row.setting->set_auto(flags_.values, {source_, node.where, met.path});
    }
    if (row.setting->auto_from() == AutoFrom::kModelType) {
      notice(met, "auto is filled at setup from the model's parameters");
    }
    return;
  }
  for (const auto& [value, reason] : key.refused) {
    if (equal_ignoring_case(value, node.scalar.text)) {
      problem(node.where, met.path, "is " + node.scalar.text + ": " + std::string(reason));
      return;
    }
  }
  const bool is_switch = key.type == ValueType::kSwitch || key.kind == KeyKind::kSection;
  const Parsed<bool> on = parse_value<bool>(node.scalar, Unit::kNone);
  const Word* const word = find_word(
      key, is_switch && on.value ? print_value(*on.value, Unit::kNone) : node.scalar.text);
  if (word == nullptr) {
    problem(node.where, met.path, "must be " + join_or(words) + ", got " + as_written(node.scalar));
    return;
  }
  if (is_switch) notice(met, on.notice);
  if (word->denies) {
    flags_.denials.push_back({std::string(row.setting->name()),
                              std::string(word->becomes),
                              {source_, node.where, met.path}});
  } else {
    give(row, met, scalar_at(node.where, word->becomes));
  }
}

void ConfigReader::give(const TableRow& row, const Met& met, const Node& node) {
  if (!first_value(row, met)) return;
  const Taken taken = row.setting->set(flags_.values, node, {source_, met.node->where, met.path});
  if (!taken.reason.empty()) {
    problem(met.node->where, met.path, taken.reason);
  } else {
    notice(met, taken.notice);
  }
}

void ConfigReader::take_fixed(const Key& key, const Met& met) {
  if (!has_right_type(key, met)) return;
  const Node& node = *met.node;
  const bool agrees =
      is_auto(node) ||
      (is_scalar(node) && std::ranges::any_of(key.one_of, [&](std::string_view value) {
         return equal_ignoring_case(value, plain(key, node.scalar));
       }));
  if (agrees) {
    notice(met, key.says);
  } else {
    problem(node.where, met.path,
            "must be " + join_or(key.one_of) + ", got " + kind_text(node) + ": " +
                std::string(key.says));
  }
}

void ConfigReader::take_noted(const Key& key, const Met& met) {
  const bool right = has_right_type(key, met);
  if (!has_known_children(key, met) || !right) return;
  const Node& node = *met.node;
  const bool listed =
      key.one_of.empty() || is_auto(node) ||
      (is_scalar(node) && std::ranges::any_of(key.one_of, [&](std::string_view value) {
         return equal_ignoring_case(value, node.scalar.text);
       }));
  if (!listed) {
    problem(node.where, met.path, "must be " + allowed(key) + ", got " + kind_text(node));
    return;
  }
  notice(met, key.says, key.acts_at_stage);
}

void ConfigReader::take_outside(const Key& key, const Met& met) {
  const Node& node = *met.node;
  has_known_children(key, met);
  const bool is_switch = key.type == ValueType::kSwitch;
  if (is_switch && !has_right_type(key, met)) return;
  if (!is_on(key, node)) {
    notice(met, "is off: " + std::string(key.says));
    return;
  }
  std::string remedy = "remove it";
  if (is_switch) remedy = "set it to false or remove it";
  if (node.kind == Node::Kind::kMap && !key.switched_by.empty()) {
    remedy = "set " + met.path + "." + std::string(key.switched_by) + " to false or remove it";
  }
  problem(node.where, met.path, std::string(key.says) + "; " + remedy);
}

}  // namespace zero
