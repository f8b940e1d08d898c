// SPDX-License-Identifier: Apache-2.0
// Flags of a command line are judged as strictly as those of a file.
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> problems(const std::vector<std::string>& arguments) {
  return problems_of({}, {parse_arguments(arguments)});
}

TEST(CommandLine, RefusesOtherForms) {
  EXPECT_THAT(problems({"stage=2"}), ElementsAre(HasSubstr("--flag=value")));
  EXPECT_THAT(problems({"--stage"}), ElementsAre(HasSubstr("--flag=value")));
}

TEST(CommandLine, SuggestsNames) {
  EXPECT_THAT(problems({"--page-bytes=1MiB"}),
              ElementsAre(AllOf(HasSubstr("command line: --page-bytes: unknown key"),
                                HasSubstr("did you mean page_bytes?"))));
}

TEST(CommandLine, RefusesBadValuesAndASecondTime) {
  EXPECT_THAT(problems({"--stage="}), ElementsAre(HasSubstr("--stage: must be")));
  EXPECT_THAT(problems({"--stage=7"}), ElementsAre(HasSubstr("got 7")));
  EXPECT_THAT(problems({"--stage=2", "--zero_stage=3"}),
              ElementsAre(AllOf(HasSubstr("--zero_stage=3"), HasSubstr("before as --stage=2"))));
}

}  // namespace
}  // namespace zero::config_test
