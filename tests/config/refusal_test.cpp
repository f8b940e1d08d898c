// SPDX-License-Identifier: Apache-2.0
// What cannot be right is refused: with the place, the whole path of the key, the reason and the
// remedy.
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Case {
  std::string name;
  std::string yaml;
  std::string at;                 // the line's start: place and path
  std::vector<std::string> says;  // parts of reason and remedy
};

std::vector<Case> cases() {
  return {
      {"StageOutOfRange", "stage: 4\n", "x.yaml:1:8: stage: ", {"0, 1, 2 or 3", "got 4"}},
      {"NegativeStage", "stage: -1\n", "x.yaml:1:8: stage: ", {"0, 1, 2 or 3", "got -1"}},
      {"StageAsWord", "stage: two\n", "x.yaml:1:8: stage: ", {"0, 1, 2 or 3", "got two"}},
      {"FractionForAWholeNumber",
       "stage: 3\nprefetch_pages: 2.4\n",
       "x.yaml:2:17: prefetch_pages: ",
       {"whole number", "did you mean 2?"}},
      {"TextForABoolean",
       "stage: 3\noffload_parameters: \"to the host\"\n",
       "x.yaml:2:21: offload_parameters: ",
       {"true or false", "the string \"to the host\""}},
      {"NumberForABoolean",
       "stage: 3\noffload_optimizer: 2\n",
       "x.yaml:2:20: offload_optimizer: ",
       {"true or false", "got 2"}},
      {"MapForABoolean",
       "stage: 3\noffload_optimizer: {device: cpu}\n",
       "x.yaml:2:20: offload_optimizer: ",
       {"true or false", "got a map"}},
      {"BooleanForANumber",
       "gradient_clipping: true\n",
       "x.yaml:1:20: gradient_clipping: ",
       {"a number of at least 0", "got true", "did you mean 1.0?"}},
      {"AutoWithNobodyToFillIt",
       "gradient_clipping: auto\n",
       "x.yaml:1:20: gradient_clipping: ",
       {"a number", "got auto"}},
      {"NegativeClipping",
       "gradient_clipping: -1\n",
       "x.yaml:1:20: gradient_clipping: ",
       {"got -1"}},
      {"ClippingNotANumber",
       "gradient_clipping: .nan\n",
       "x.yaml:1:20: gradient_clipping: ",
       {"got .nan"}},
      {"ZeroAccumulation",
       "gradient_accumulation_steps: 0\n",
       "x.yaml:1:30: gradient_accumulation_steps: ",
       {"at least 1", "got 0"}},
      {"ZeroSize", "page_bytes: 0\n", "x.yaml:1:13: page_bytes: ", {"at least 4KiB", "got 0"}},
      {"SizeWithAnUnknownUnit",
       "page_bytes: 3 parsecs\n",
       "x.yaml:1:13: page_bytes: ",
       {"32MiB", "got 3 parsecs"}},
      {"SizeWithUnderscores",
       "page_bytes: 1_000_000\n",
       "x.yaml:1:13: page_bytes: ",
       {"got 1_000_000"}},
      {"SizeBeyondAllMemory", "page_bytes: 1e30\n", "x.yaml:1:13: page_bytes: ", {"too large"}},
      {"HalfPrecision",
       "precision: fp61\n",
       "x.yaml:1:12: precision: ",
       {"fp32, bf16 or fp16", "did you mean fp16?"}},
      {"LossScaleThatMayFallToZero",
       "min_loss_scale: 0\n",
       "x.yaml:1:17: min_loss_scale: ",
       {"a number above 0", "got 0"}},
      {"ValueOutsideTheList",
       "update_kernel: AVX512\n",
       "x.yaml:1:16: update_kernel: ",
       {"auto, avx512, avx2 or portable", "did you mean avx512?"}},
      {"RatioAboveOne",
       "activation_offload_ratio: 1.5\n",
       "x.yaml:1:27: activation_offload_ratio: ",
       {"a number from 0 to 1", "got 1.5"}},
      {"OffloadParametersBelowStageThree",
       "stage: 2\noffload_parameters: true\n",
       "x.yaml:2:21: offload_parameters: ",
       {"needs stage 3", "stage is 2 (x.yaml:1:8)", "set stage to 3"}},
      {"OffloadParametersWithoutAStage",
       "offload_parameters: true\n",
       "x.yaml:1:21: offload_parameters: ",
       {"needs stage 3", "stage is 0 (default)"}},
      {"OffloadOptimizerAtStageZero",
       "stage: 0\noffload_optimizer: true\n",
       "x.yaml:2:20: offload_optimizer: ",
       {"needs stage 1 or above", "stage is 0 (x.yaml:1:8)"}},
  };
}

class Refusal : public ::testing::TestWithParam<Case> {};

TEST_P(Refusal, NamesPlacePathReasonAndRemedy) {
  const std::vector<std::string> problems = problems_in(GetParam().yaml);
  ASSERT_EQ(problems.size(), 1U) << ::testing::PrintToString(problems);
  EXPECT_THAT(problems[0], StartsWith(GetParam().at));
  for (const std::string& part : GetParam().says) EXPECT_THAT(problems[0], HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(Values, Refusal, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Refusals, AreReportedAllTogetherFromAllSources) {
  const Flags file = parse_config("stage: 9\nstagee: 1\ndevice: tpu\n", "x.yaml");
  const Flags line = parse_arguments({"--prefetch_pages=-1"});
  const auto problems = problems_of(StrategyOptions().precision("fp8").page_bytes(1), {file, line});
  EXPECT_THAT(problems,
              ::testing::UnorderedElementsAre(
                  HasSubstr("x.yaml:1:8: stage: "), HasSubstr("x.yaml:2:1: stagee: "),
                  HasSubstr("x.yaml:3:9: device: "), HasSubstr("command line: --prefetch_pages: "),
                  HasSubstr("code: precision: "), HasSubstr("code: page_bytes: ")));
}

TEST(Refusals, StandInTheTextOfTheException) {
  try {
    resolve(StrategyOptions().stage(4).gradient_clipping(-0.5));
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("2 problems"), HasSubstr("code: stage: "),
                                    HasSubstr("code: gradient_clipping: ")));
  }
}

TEST(Refusals, OfCodeNameTheFlag) {
  EXPECT_THAT(
      problems_of(StrategyOptions().offload_parameters(true).stage(1)),
      ElementsAre(AllOf(StartsWith("code: offload_parameters: "), HasSubstr("stage is 1 (code)"))));
  EXPECT_THAT(problems_of(StrategyOptions().stage(int64_t{1} << 40)),
              ElementsAre(StartsWith("code: stage: ")));
  EXPECT_THAT(problems_of(StrategyOptions().precision(static_cast<Precision>(7))),
              ElementsAre(StartsWith("code: precision: must be fp32, bf16 or fp16")));
  EXPECT_THAT(
      problems_of(StrategyOptions().gradient_clipping(std::numeric_limits<double>::infinity())),
      ElementsAre(StartsWith("code: gradient_clipping: ")));
}

TEST(Refusals, HoldForAValueThatAStrongerSourceReplaces) {
  const Flags file = parse_config("stage: 4\n", "x.yaml");
  EXPECT_THAT(problems_of(StrategyOptions().stage(3), {file}),
              ElementsAre(StartsWith("x.yaml:1:8: stage: ")));
}

TEST(Refusals, SpareSwitchesThatAreOff) {
  EXPECT_THAT(problems_in("offload_parameters: false\noffload_optimizer: no\n"
                          "cpu_checkpointing: false\npartition_activations: off\n"),
              IsEmpty());
}

}  // namespace
}  // namespace zero::config_test
