// SPDX-License-Identifier: Apache-2.0
// The `trainer:` map of a file: nothing in it is dropped.
#include <set>

#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& field : fields<TrainerSettings>()) result.emplace_back(field.name);
  return result;
}

class EveryTrainerSetting : public ::testing::TestWithParam<std::string> {
 protected:
  const Field<TrainerSettings>& field() const { return *find_field<TrainerSettings>(GetParam()); }
};

TEST_P(EveryTrainerSetting, ArrivesWithItsPlace) {
  const Flags file = parse_config("trainer:\n  " + GetParam() + ": 37\n", "x.yaml");
  EXPECT_THAT(file.problems, IsEmpty());
  EXPECT_EQ(value_text(field(), file.values.trainer), "37");
  EXPECT_EQ(provenance_of(field(), file.values.trainer).flag, "trainer." + GetParam());
  EXPECT_THAT(provenance_of(field(), file.values.trainer).where, StartsWith("x.yaml:2:"));
}

TEST_P(EveryTrainerSetting, IsRefusedOutOfRangeAndOfAnotherType) {
  for (const std::string value : {"-1", "1.5", "often"}) {
    EXPECT_THAT(problems_in("trainer:\n  " + GetParam() + ": " + value + "\n"),
                ElementsAre(HasSubstr("trainer." + GetParam() + ": must be a whole number")))
        << value;
  }
}

TEST_P(EveryTrainerSetting, IsNamedUntilTheTrainerReadsIt) {
  const Flags file = parse_config("trainer:\n  " + GetParam() + ": 37\n", "x.yaml");
  EXPECT_THAT(unread_settings(file.values.trainer), ElementsAre(HasSubstr(GetParam() + " = 37")));
  with_setting(field(), file.values.trainer,
               [](const auto& setting) { setting.read(Consumer::kTrainer); });
  EXPECT_THAT(unread_settings(file.values.trainer), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Table, EveryTrainerSetting, ::testing::ValuesIn(names()), test_name);

TEST(TrainerSettings, UnknownAndDoubleKeysAreRefused) {
  EXPECT_THAT(
      problems_in("trainer:\n  step: 3\n"),
      ElementsAre(StartsWith("x.yaml:2:3: trainer.step: unknown key; did you mean steps?")));
  EXPECT_THAT(problems_in("trainer:\n  steps: 3\n  steps: 4\n"),
              ElementsAre(HasSubstr("first at x.yaml:2:3")));
}

TEST(TrainerSettings, EachRowOfTheTableDescribesAnotherMember) {
  const TrainerSettings settings;
  std::set<const void*> members;
  for (const auto& field : fields<TrainerSettings>()) {
    members.insert(std::visit(
        [&](auto member) { return static_cast<const void*>(&(settings.*member)); }, field.member));
  }
  EXPECT_EQ(members.size(), fields<TrainerSettings>().size());
}

}  // namespace
}  // namespace zero::config_test
