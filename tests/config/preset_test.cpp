// SPDX-License-Identifier: Apache-2.0
// Presets by name, and the files in configs/ that say the same.
#include <filesystem>

#include "strategy/presets.h"
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names() {
  const auto views = preset_names();
  return {views.begin(), views.end()};
}

class EveryPreset : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryPreset, SaysTheSameAsItsFile) {
  const EngineConfig compiled = preset(GetParam());
  const std::filesystem::path file =
      std::filesystem::path(LIBZERO_CONFIGS) / (GetParam() + ".yaml");
  const EngineConfig written = resolve({}, {read_config_file(file)});
  for (const auto& field : fields<EngineConfig>()) {
    EXPECT_EQ(given(field, compiled), given(field, written)) << field.name;
    EXPECT_EQ(value_text(field, compiled), value_text(field, written)) << field.name;
  }
}

TEST_P(EveryPreset, IsKnownByItsDeepSpeedNameToo) {
  const std::string other = "deepspeed_" + GetParam().substr(std::string("zero_").size());
  const EngineConfig ours = preset(GetParam());
  const EngineConfig theirs = preset(other);
  for (const auto& field : fields<EngineConfig>()) {
    EXPECT_EQ(value_text(field, ours), value_text(field, theirs)) << field.name;
  }
  EXPECT_EQ(theirs.stage.provenance().where, "preset " + other);
}

INSTANTIATE_TEST_SUITE_P(All, EveryPreset, ::testing::ValuesIn(names()), test_name);

TEST(Preset, SetsWhatItsNameSays) {
  EXPECT_EQ(preset("zero_stage_1").stage.peek(), 1);
  const EngineConfig two = preset("zero_stage_2_offload");
  EXPECT_EQ(two.stage.peek(), 2);
  EXPECT_TRUE(two.offload_optimizer.peek());
  EXPECT_FALSE(two.offload_parameters.given());
  const EngineConfig three = preset("zero_stage_3_offload");
  EXPECT_EQ(three.stage.peek(), 3);
  EXPECT_TRUE(three.offload_optimizer.peek());
  EXPECT_TRUE(three.offload_parameters.peek());
}

TEST(Preset, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(
      problems_of({}, {preset_flags("zero_stage3")}),
      ElementsAre(AllOf(HasSubstr("preset: zero_stage3: "), HasSubstr("did you mean zero_stage_3?"),
                        HasSubstr("zero_stage_1, zero_stage_2, zero_stage_3, "
                                  "zero_stage_1_offload, zero_stage_2_offload or "
                                  "zero_stage_3_offload"))));
  EXPECT_THROW(preset("ddp"), ConfigError);
}

TEST(Preset, OfATrainerWithoutAStageIsStageTwo) { EXPECT_EQ(preset("deepspeed").stage.peek(), 2); }

TEST(Preset, WithHomesOnNvmeIsRefusedByName) {
  for (const std::string name : {"zero_stage_3_offload_nvme", "deepspeed_stage_3_offload_nvme"}) {
    EXPECT_THAT(problems_of({}, {preset_flags(name)}),
                ElementsAre(AllOf(HasSubstr(name), HasSubstr("NVMe are not supported yet"),
                                  HasSubstr("use zero_stage_3_offload"))));
  }
}

TEST(Configs, EachFileIsAcceptedAndEachPresetHasOne) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LIBZERO_CONFIGS)) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    EXPECT_NO_THROW(resolve({}, {read_config_file(entry.path())})) << entry.path();
  }
  EXPECT_GT(files, preset_names().size());
}

TEST(Configs, TheGptExampleTurnsOnWhatItPromises) {
  const Flags file =
      read_config_file(std::filesystem::path(LIBZERO_CONFIGS) / "gpt_zero3_offload.yaml");
  const EngineConfig config = resolve({}, {file});
  EXPECT_EQ(config.stage.peek(), 3);
  EXPECT_TRUE(config.offload_parameters.peek());
  EXPECT_TRUE(config.offload_optimizer.peek());
  EXPECT_EQ(config.precision.peek(), Precision::kBf16);
  EXPECT_GT(config.gradient_clipping.peek(), 0.0);
  EXPECT_GE(config.parameter_budget.peek(),
            config.page_bytes.peek() * (1 + config.prefetch_pages.peek()));
  EXPECT_GT(file.values.trainer.steps.peek(), 0);
}

}  // namespace
}  // namespace zero::config_test
