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

TEST(CommandLine, SetsByPath) {
  const Flags line =
      parse_arguments({"--set", "zero_optimization.stage=3",
                       "--set=optimizer.params.betas=[0.8, 0.9]", "--set=optimizer.type=AdamW"});
  const RunConfig config = resolve_all({}, {line}).config;
  EXPECT_EQ(config.engine.stage.peek(), 3);
  EXPECT_EQ(config.engine.stage.provenance().flag, "zero_optimization.stage");
  EXPECT_THAT(config.optimizer.betas.peek(), ElementsAre(0.8, 0.9));
  EXPECT_THAT(problems({"--set", "zero_optimization.stge=3"}),
              ElementsAre(HasSubstr("zero_optimization.stge: unknown key; did you mean stage?")));
  EXPECT_THAT(problems({"--set", "stage"}), ElementsAre(HasSubstr("path=value")));
}

TEST(Environment, StandsBetweenFileAndCommandLine) {
  const Flags file = parse_config("stage: 1\nprefetch_pages: 5\n", "x.yaml");
  const Flags variable = parse_environment("zero_optimization.stage=2; prefetch_pages=6 ;");
  EngineConfig config = resolve({}, {variable, file});
  EXPECT_EQ(config.stage.peek(), 2);
  EXPECT_EQ(config.stage.provenance().where, "LIBZERO_SET");
  EXPECT_EQ(config.prefetch_pages.peek(), 6);
  config = resolve({}, {parse_arguments({"--stage=3"}), variable, file});
  EXPECT_EQ(config.stage.peek(), 3);
  EXPECT_THAT(problems_of({}, {parse_environment("stage")}), ElementsAre(HasSubstr("LIBZERO_SET")));
}

TEST(Overrides, SwitchOffWhatAFileSwitchedOn) {
  const Flags file = parse_config("bf16: {enabled: true}\n", "x.yaml");
  EXPECT_EQ(resolve({}, {file}).precision.peek(), Precision::kBf16);
  const EngineConfig config = resolve({}, {parse_arguments({"--set=bf16.enabled=false"}), file});
  EXPECT_EQ(config.precision.peek(), Precision::kFp32);
  EXPECT_EQ(config.precision.provenance().flag, "bf16.enabled");
}

TEST(CommandLine, RefusesBadValuesAndASecondTime) {
  EXPECT_THAT(problems({"--stage="}), ElementsAre(HasSubstr("--stage: has no value")));
  EXPECT_THAT(problems({"--stage=7"}), ElementsAre(HasSubstr("got 7")));
  EXPECT_THAT(
      problems({"--stage=2", "--zero_stage=3"}),
      ElementsAre(AllOf(HasSubstr("--zero_stage: means the same"), HasSubstr("as --stage"))));
}

}  // namespace
}  // namespace zero::config_test
