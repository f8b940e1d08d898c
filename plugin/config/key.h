// SPDX-License-Identifier: Apache-2.0
// The table of all keys that a configuration may hold, at any depth: those that set a setting, and
// those of DeepSpeed and of the trainers around it that mean something else here. A key that is not
// in the table is an error. Reader, documentation, schema and tests are made from it.
//
// Rows come from two places: the settings (fields.h) bring their own names, and the rows below say
// what the other names mean (key_table_*.cpp).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/config/setting_row.h"

namespace zero {

enum class KeyKind : uint8_t {
  kSets,     // sets a setting
  kOldForm,  // sets a setting and tells how it is written today
  kFixed,    // LibZeRO does it in one way: the value that agrees is taken, the others are refused
  kNoted,    // asks for something that is decided elsewhere here: taken, and told by what
  kOutside,  // a feature that LibZeRO does not have: refused where it is switched on
  kSection,  // holds other keys
};

enum class ValueType : uint8_t { kAny, kSwitch, kWhole, kNumber, kText, kList, kMap };

// How a value of a key is understood by the setting.
struct Word {
  std::string_view given;
  std::string_view becomes;  // in the setting's own spelling; empty: nothing is set
  bool denies = false;       // the setting has not that value: it falls back to its default
};

using Reason = std::pair<std::string_view, std::string_view>;  // value, why it is refused

struct Key {
  std::string_view path;
  KeyKind kind;
  ValueType type = ValueType::kAny;
  std::string_view says = {};                  // notice or reason, a clause
  std::vector<std::string_view> aliases = {};  // whole paths, or flat names without '.'
  std::string_view setting = {};               // kSets, kOldForm, and sections written as a switch
  std::vector<Word> words = {};                // empty: the setting reads the value itself
  std::vector<Reason> refused = {};
  std::vector<std::string_view> one_of = {};  // kFixed: what agrees. Others: all there is
  Range range = {};                           // numbers
  int acts_at_stage = 0;                      // kNoted: below, the line says so instead
  // kOutside sections. The child that switches it; empty: it is on where it holds anything.
  std::string_view switched_by = "enabled";
  std::vector<std::string_view> children = {};  // names in it; empty: any
};

// One row of the whole table. Exactly one of `key` and `setting_row` makes it; a key that sets a
// setting has both.
struct TableRow {
  std::string path;  // "zero_optimization.offload_param.device"
  KeyKind kind;
  const Key* key = nullptr;
  const SettingRow* setting = nullptr;
  std::vector<std::string> names;  // all whole paths, `path` first
  // Names at the top of a flat file, under `strategy:` and on a command line.
  std::vector<std::string> flat_names;
};
const std::vector<TableRow>& key_table();

// `path` from the top of a file; null when there is none. A flat name is found with `flat`.
const TableRow* find_row(std::string_view path, bool flat);

// The rows whose last name is `name`, wherever they stand.
std::vector<const TableRow*> rows_named(std::string_view name);
// The names inside a section ("" is the top), without flat ones.
std::vector<std::string_view> names_in(std::string_view section);
std::vector<std::string_view> all_flat_names();

std::string_view last_name(std::string_view path);
std::string_view section_of(std::string_view path);  // "" at the top

// The parts of the table (key_table_*.cpp).
std::span<const Key> zero_keys();
std::span<const Key> training_keys();
std::span<const Key> outside_keys();
std::span<const Key> trainer_keys();

}  // namespace zero
