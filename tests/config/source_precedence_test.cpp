// SPDX-License-Identifier: Apache-2.0
// default < preset < file < command line < code, whatever the order in which they are handed over.
#include "strategy/presets.h"
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

const Flags kPreset = preset_flags("zero_stage_1");
const Flags kFile = parse_config("stage: 2\n", "x.yaml");
const Flags kLine = parse_arguments({"--stage=3"});
const StrategyOptions kCode = StrategyOptions().stage(0);

void expect_stage(const EngineConfig& config, int stage, Source source) {
  EXPECT_EQ(config.stage.peek(), stage);
  EXPECT_EQ(config.stage.provenance().source, source);
}

TEST(Precedence, TheStrongestSourceThatGivesAFlagWins) {
  expect_stage(resolve({}), 0, Source::kDefault);
  expect_stage(resolve({}, {kPreset}), 1, Source::kPreset);
  expect_stage(resolve({}, {kPreset, kFile}), 2, Source::kFile);
  expect_stage(resolve({}, {kPreset, kFile, kLine}), 3, Source::kCommandLine);
  expect_stage(resolve(kCode, {kPreset, kFile, kLine}), 0, Source::kCode);
}

TEST(Precedence, DoesNotDependOnTheOrderOfLayers) {
  expect_stage(resolve({}, {kLine, kFile, kPreset}), 3, Source::kCommandLine);
  expect_stage(resolve({}, {kFile, kPreset}), 2, Source::kFile);
}

TEST(Precedence, TheLaterOfTwoFilesWins) {
  const Flags other = parse_config("stage: 1\n", "y.yaml");
  EXPECT_EQ(resolve({}, {kFile, other}).stage.provenance().where, "y.yaml:1:8");
}

TEST(Precedence, IsDecidedFlagByFlag) {
  const EngineConfig config =
      resolve(StrategyOptions().prefetch_pages(4), {preset_flags("zero_stage_3_offload"), kLine});
  expect_stage(config, 3, Source::kCommandLine);
  EXPECT_EQ(config.offload_parameters.provenance().source, Source::kPreset);
  EXPECT_EQ(config.prefetch_pages.provenance().source, Source::kCode);
}

TEST(Precedence, ConflictsAreJudgedOnTheResultAlone) {
  EXPECT_TRUE(resolve({}, {parse_config("offload_parameters: true\n", "x.yaml"), kLine})
                  .offload_parameters.peek());
  EXPECT_THAT(problems_of(StrategyOptions().stage(2), {preset_flags("zero_stage_3_offload")}),
              ::testing::ElementsAre(
                  ::testing::AllOf(::testing::StartsWith("preset zero_stage_3_offload: "
                                                         "offload_parameters: needs stage 3"),
                                   ::testing::HasSubstr("stage is 2 (code)"))));
}

}  // namespace
}  // namespace zero::config_test
