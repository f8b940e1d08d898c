// SPDX-License-Identifier: Apache-2.0
// The whole table: each row is found by all its names and takes what its kind says; no name stands
// for two things.
#include <map>
#include <set>

#include "plugin/config/key.h"
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// The text of a file that holds `value` at `path`.
std::string at_path(const std::string& path, const std::string& value) {
  std::string text;
  std::string rest = path;
  std::string ends;
  for (size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
    text.append("{\"").append(rest, 0, dot).append("\": ");
    ends += "}";
    rest.erase(0, dot + 1);
  }
  return text + "{\"" + rest + "\": " + value + "}" + ends;
}

class EveryKey : public ::testing::TestWithParam<size_t> {
 protected:
  const TableRow& row() const { return key_table()[GetParam()]; }
  Flags read(const std::string& path, const std::string& value) const {
    return parse_json_config(at_path(path, value), "x.json");
  }
  bool is_wrapper() const { return row().path == "strategy" || row().path == "deepspeed_config"; }
};

TEST_P(EveryKey, IsFoundByAllItsNames) {
  for (const std::string& name : row().names) EXPECT_EQ(find_row(name, false), &row()) << name;
  for (const std::string& name : row().flat_names) {
    EXPECT_TRUE(find_row(name, true) == &row() || find_row(name, false) != nullptr) << name;
  }
}

TEST_P(EveryKey, StandsInASectionOfTheTable) {
  for (const std::string& name : row().names) {
    const std::string_view section = section_of(name);
    if (section.empty()) continue;
    const TableRow* const around = find_row(section, false);
    ASSERT_NE(around, nullptr) << name;
    EXPECT_EQ(around->kind, KeyKind::kSection) << name;
  }
}

TEST_P(EveryKey, SaysWhatBecomesOfIt) {
  if (row().key == nullptr) {
    ASSERT_NE(row().setting, nullptr);
    EXPECT_FALSE(row().setting->help().empty());
    return;
  }
  const Key& key = *row().key;
  switch (row().kind) {
    case KeyKind::kSets:
      EXPECT_NE(row().setting, nullptr);
      break;
    case KeyKind::kOldForm:
      EXPECT_NE(row().setting, nullptr);
      EXPECT_FALSE(key.says.empty());
      break;
    case KeyKind::kFixed:
      EXPECT_FALSE(key.one_of.empty());
      EXPECT_FALSE(key.says.empty());
      break;
    case KeyKind::kNoted:
      EXPECT_TRUE(!key.says.empty() || row().path.starts_with("bf16."));
      break;
    case KeyKind::kOutside:
      EXPECT_FALSE(key.says.empty());
      break;
    case KeyKind::kSection:
      EXPECT_TRUE(key.words.empty() || row().setting != nullptr);
      break;
  }
}

TEST_P(EveryKey, IsNotSetByNull) {
  if (is_wrapper() || row().path == "trainer") return;  // our own maps, which must hold something
  for (const std::string& name : row().names) {
    const Flags flags = read(name, "null");
    EXPECT_THAT(flags.problems, ::testing::IsEmpty()) << name;
    if (row().setting != nullptr) {
      EXPECT_FALSE(row().setting->given(flags.values)) << name;
    }
  }
}

TEST_P(EveryKey, OfAWrongTypeIsRefusedByItsPath) {
  if (row().kind == KeyKind::kOutside || row().kind == KeyKind::kSection) return;
  if (row().key != nullptr && row().key->type == ValueType::kAny) return;
  const bool takes_map = row().key != nullptr && row().key->type == ValueType::kMap;
  for (const std::string& name : row().names) {
    const Flags flags = read(name, takes_map ? "[1]" : "{\"surprise\": [1]}");
    EXPECT_THAT(flags.problems, Contains(AllOf(HasSubstr(": " + name + ": "), HasSubstr("must be "),
                                               HasSubstr(takes_map ? "got a list" : "got a map"))))
        << name;
  }
}

TEST_P(EveryKey, SwitchedOnIsRefusedWhereItIsOutside) {
  if (row().kind != KeyKind::kOutside) return;
  const Key& key = *row().key;
  std::string on = "true";
  if (key.type == ValueType::kMap) {
    const std::string name(key.switched_by.empty() ? (key.children.empty() ? "x" : key.children[0])
                                                   : key.switched_by);
    on = "{\"" + name + "\": true}";
  } else if (key.type == ValueType::kText) {
    on = "\"fp16\"";
  }
  for (const std::string& name : row().names) {
    EXPECT_THAT(read(name, on).problems,
                Contains(AllOf(HasSubstr(": " + name + ": "), HasSubstr("remove it"))))
        << name;
    const Flags off = read(name, key.type == ValueType::kMap ? "{}" : "false");
    EXPECT_THAT(off.problems, ::testing::IsEmpty()) << name;
    EXPECT_FALSE(off.notices.empty()) << name;
  }
}

TEST_P(EveryKey, HasTheNeighboursForASuggestion) {
  if (is_wrapper()) return;
  for (const std::string& name : row().names) {
    const std::string wrong = name + "x";
    if (find_row(wrong, false) != nullptr || last_name(name).size() < 3) continue;
    EXPECT_THAT(read(wrong, "\"auto\"").problems, Contains(HasSubstr("unknown key; "))) << wrong;
  }
}

std::vector<size_t> all_rows() {
  std::vector<size_t> rows(key_table().size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryKey, ::testing::ValuesIn(all_rows()), [](const auto& info) {
  std::string name = key_table()[info.param].path;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name + "_" + std::to_string(info.param);
});

TEST(KeyTable, NoNameStandsForTwoRows) {
  std::set<std::string> names;
  for (const TableRow& row : key_table()) {
    for (const std::string& name : row.names) EXPECT_TRUE(names.insert(name).second) << name;
  }
  std::map<std::string, std::string> flat;
  for (const TableRow& row : key_table()) {
    for (const std::string& name : row.flat_names) {
      const auto [first, fresh] = flat.emplace(name, row.path);
      EXPECT_TRUE(fresh) << name << ": " << first->second << " and " << row.path;
    }
  }
}

TEST(KeyTable, EachSettingOfTheEngineHasExactlyOneRowOfItsOwn) {
  std::map<const SettingRow*, int> rows;
  for (const TableRow& row : key_table()) {
    if (row.key == nullptr) ++rows[row.setting];
  }
  for (const SettingRow* const setting : setting_rows()) EXPECT_EQ(rows[setting], 1);
}

}  // namespace
}  // namespace zero::config_test
