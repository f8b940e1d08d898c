// SPDX-License-Identifier: Apache-2.0
// From keys and values to flags: each key is looked up in the table, and its row says what becomes
// of the value. Used for a file, and key by key for a command line.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "plugin/config/key.h"
#include "zero/strategy_options.h"

namespace zero {

// A key that was met, by its path in the table.
struct Met {
  std::string path;  // as it was written
  std::string where;
  const TableRow* row = nullptr;
  const Node* node = nullptr;
};
using MetKeys = std::map<std::string, Met, std::less<>>;

class ConfigReader {
 public:
  // The nodes that are read must live until finish().
  ConfigReader(Source source, Flags& flags) : source_(source), flags_(flags) {}

  // A whole file.
  void document(const Node& root);
  // One key by its path or flat name, from `where`; `written` is what the user knows it by.
  void single(std::string_view name, const std::string& written, const Node& node,
              const std::string& where);
  // What can be said only when all keys have been met.
  void finish();

 private:
  struct Place {
    std::string section;  // path in the table
    std::string prefix;   // of the keys as they are written
    bool flat = false;    // flags may stand here without their section
  };
  void section(const Node& map, const Place& place);
  void entry(const Entry& entry, const Place& place);
  void wrapper(const Entry& entry, const std::string& path);
  void take(const TableRow& row, const Met& met);
  void take_section(const TableRow& row, const Met& met);
  void take_setting(const TableRow& row, const Met& met);
  void take_word(const TableRow& row, const Met& met);
  void give(const TableRow& row, const Met& met, const Node& node);
  void take_fixed(const Key& key, const Met& met);
  void take_noted(const Key& key, const Met& met);
  void take_outside(const Key& key, const Met& met);
  bool has_right_type(const Key& key, const Met& met);
  bool has_known_children(const Key& key, const Met& met);
  bool first_time(const TableRow& row, const Met& met);
  bool first_value(const TableRow& row, const Met& met);
  void problem(const std::string& where, const std::string& path, const std::string& reason);
  void notice(const Met& met, std::string_view says, int acts_at_stage = 0);

  Source source_;
  Flags& flags_;
  bool sections_ = false;                          // the file has DeepSpeed's sections
  MetKeys met_;                                    // by path in the table
  std::map<std::string, Met, std::less<>> given_;  // by setting
};

// Rules across the keys of one source: partners that are missing, keys that exclude each other,
// parameters of another type.
void check_rules(const MetKeys& met, bool sections, Flags& flags);

bool is_comment(std::string_view key);

}  // namespace zero
