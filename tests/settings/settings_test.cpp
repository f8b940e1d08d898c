// SPDX-License-Identifier: Apache-2.0
// No setting without effect: each field of EngineConfig is turned away from its default, one
// training run is made with it and one without it, and the part of the engine that the table names
// must have read it and what the field's row in observations.cpp names must have changed. A field
// without a row fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "plugin/config/fields.h"
#include "settings/observations.h"

namespace zero::testing {
namespace {

constexpr const char* kFieldVariable = "ZERO_TEST_FIELD";

std::vector<std::string> engine_fields() {
  std::vector<std::string> names;
  for (const auto& field : fields<EngineConfig>()) names.emplace_back(field.name);
  return names;
}

const Observation* observation_of(std::string_view field) {
  const auto& all = observations();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Observation& row) { return row.field == field; });
  return found == all.end() ? nullptr : &*found;
}

Lines shared_lines(const Observation& row) {
  Lines lines = row.with;
  if (row.field != "device") lines.push_back("device: " + test_device_name());
  return lines;
}

std::string the_line(const Observation& row) { return std::string(row.field) + ": " + row.value; }

Lines lines_with(const Observation& row) {
  Lines lines = shared_lines(row);
  lines.insert(lines.end(), row.also.begin(), row.also.end());
  lines.push_back(the_line(row));
  return lines;
}

// Both runs of a row, on the ranks that this process belongs to.
void check(const Observation& row) {
  const auto& field = *find_field<EngineConfig>(row.field);
  Lines lines_without = shared_lines(row);
  if (!row.base.empty()) lines_without.push_back(std::string(row.field) + ": " + row.base);
  const ObservedRun without = observed_run(lines_without, row.overflow_at);
  const ObservedRun with = observed_run(lines_with(row), row.overflow_at);

  EXPECT_EQ(given(field, without.config), !row.base.empty())
      << "the run without the field must not give it";
  ASSERT_TRUE(given(field, with.config));
  EXPECT_NE(value_text(field, with.config), value_text(field, EngineConfig()))
      << "the row's value is the default";
  EXPECT_TRUE(read_by_consumer(field, with.config))
      << name_of(field.consumer) << " has not read " << field.name;
  const std::string before = row.of(without);
  const std::string after = row.of(with);
  EXPECT_NE(before, after) << row.observable << " is the same with " << the_line(row);
  if (!row.expected.empty()) {
    EXPECT_EQ(after, row.expected) << row.observable;
  }
}

void check_refused(const Observation& row) {
  EXPECT_THAT(error_of([&] { observed_run(lines_with(row), row.overflow_at); }),
              ::testing::HasSubstr(row.error))
      << "a setting that acts now needs an observable in its row";
}

ZERO_RANK_BODY(a_setting_acts) { check(*observation_of(std::getenv(kFieldVariable))); }

class Settings : public ::testing::TestWithParam<std::string> {};

TEST_P(Settings, ActsWhereItSays) {
  const Observation* const row = observation_of(GetParam());
  ASSERT_NE(row, nullptr) << GetParam()
                          << " has no row in tests/settings/observations.cpp: say what it changes "
                             "that can be seen, or take it out of the table";
  if (!row->error.empty()) {
    check_refused(*row);
  } else if (row->ranks == 1) {
    check(*row);
  } else {
    on_test_ranks({row->ranks}, "a_setting_acts", {.environment = {{kFieldVariable, GetParam()}}});
  }
}

INSTANTIATE_TEST_SUITE_P(EngineConfig, Settings, ::testing::ValuesIn(engine_fields()),
                         [](const auto& info) { return info.param; });

TEST(SettingsTable, HasNoRowForAFieldThatIsNotThere) {
  std::set<std::string_view> seen;
  for (const Observation& row : observations()) {
    EXPECT_NE(find_field<EngineConfig>(row.field), nullptr) << row.field;
    EXPECT_TRUE(seen.insert(row.field).second) << row.field << " has two rows";
  }
}

}  // namespace
}  // namespace zero::testing
