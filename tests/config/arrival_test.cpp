// SPDX-License-Identifier: Apache-2.0
// Every flag arrives in EngineConfig by every way in, with the place it came from.
#include <set>

#include "tests/config/support.h"

namespace zero::config_test {
namespace {

class EveryFlag : public ::testing::TestWithParam<std::string> {
 protected:
  const Field<EngineConfig>& field() const { return *find_field<EngineConfig>(GetParam()); }
  const Example& example() const { return examples().at(GetParam()); }
  std::string stage_line() const {
    return field().needs_stage == 0 ? "" : "stage: " + std::to_string(field().needs_stage) + "\n";
  }
  std::string value_line(std::string_view name) const {
    return std::string(name) + ": " + example().text + "\n";
  }
};

TEST_P(EveryFlag, IsNotGivenByDefault) {
  const EngineConfig config = resolve({});
  EXPECT_FALSE(given(field(), config));
  EXPECT_EQ(provenance_of(field(), config).source, Source::kDefault);
  EXPECT_EQ(value_problem(field(), config), "");
}

TEST_P(EveryFlag, ArrivesFromCode) {
  StrategyOptions options;
  if (field().needs_stage > 0) options.stage(field().needs_stage);
  const EngineConfig config = resolve(example().give(options));
  EXPECT_EQ(value_text(field(), config), example().printed);
  EXPECT_TRUE(given(field(), config));
  EXPECT_EQ(provenance_of(field(), config).source, Source::kCode);
  EXPECT_EQ(provenance_of(field(), config).flag, GetParam());
}

TEST_P(EveryFlag, ArrivesFromTheTopLevelOfAFile) {
  const EngineConfig config = config_from(value_line(field().name) + stage_line());
  EXPECT_EQ(value_text(field(), config), example().printed);
  EXPECT_EQ(provenance_of(field(), config).source, Source::kFile);
  EXPECT_EQ(provenance_of(field(), config).where,
            "x.yaml:1:" + std::to_string(field().name.size() + 3));
}

TEST_P(EveryFlag, ArrivesFromTheStrategyMapOfAFile) {
  const EngineConfig config =
      config_from(stage_line() + "strategy:\n  " + value_line(field().name));
  EXPECT_EQ(value_text(field(), config), example().printed);
  EXPECT_EQ(provenance_of(field(), config).flag, "strategy." + GetParam());
}

TEST_P(EveryFlag, ArrivesByEachAlias) {
  for (const std::string_view alias : field().aliases) {
    const EngineConfig config = config_from(value_line(alias) + stage_line());
    EXPECT_EQ(value_text(field(), config), example().printed);
    EXPECT_EQ(provenance_of(field(), config).flag, alias);
  }
}

TEST_P(EveryFlag, ArrivesFromTheCommandLine) {
  std::vector<std::string> arguments = {"--" + GetParam() + "=" + example().text};
  if (field().needs_stage > 0) {
    arguments.push_back("--stage=" + std::to_string(field().needs_stage));
  }
  const EngineConfig config = resolve({}, {parse_arguments(arguments)});
  EXPECT_EQ(value_text(field(), config), example().printed);
  EXPECT_EQ(provenance_of(field(), config).source, Source::kCommandLine);
}

TEST_P(EveryFlag, LeavesAllOthersAlone) {
  const EngineConfig config = config_from(value_line(field().name) + stage_line());
  const EngineConfig untouched;
  for (const auto& other : fields<EngineConfig>()) {
    if (other.name == field().name || other.name == "stage") continue;
    EXPECT_FALSE(given(other, config)) << other.name;
    EXPECT_EQ(value_text(other, config), value_text(other, untouched)) << other.name;
  }
}

TEST_P(EveryFlag, IsRefusedTwiceInOneFile) {
  const auto problems = problems_in(value_line(field().name) + value_line(field().name));
  EXPECT_THAT(problems, ::testing::Contains(
                            ::testing::AllOf(::testing::HasSubstr("x.yaml:2:1: " + GetParam()),
                                             ::testing::HasSubstr("first at x.yaml:1:1"))));
}

TEST_P(EveryFlag, IsRefusedBesideItsAliasInOneFile) {
  for (const std::string_view alias : field().aliases) {
    const auto problems = problems_in(value_line(field().name) + value_line(alias));
    EXPECT_THAT(problems, ::testing::Contains(::testing::AllOf(
                              ::testing::HasSubstr("x.yaml:2:1: " + std::string(alias)),
                              ::testing::HasSubstr(GetParam() + " at x.yaml:1:1"))));
  }
}

TEST_P(EveryFlag, IsNotSetByNull) {
  const Flags file = parse_config(GetParam() + ": ~\n", "x.yaml");
  const Resolved resolved = resolve_all({}, {file});
  EXPECT_FALSE(given(field(), resolved.config.engine));
  EXPECT_THAT(resolved.notices,
              ::testing::ElementsAre(::testing::HasSubstr("x.yaml:1:1: " + GetParam() + ": null")));
}

TEST_P(EveryFlag, IsRefusedAsAListAndAsAMap) {
  for (const std::string value : {"[1, 2]", "{enabled: true}"}) {
    const auto problems = problems_in(GetParam() + ": " + value + "\n");
    ASSERT_EQ(problems.size(), 1U) << value;
    EXPECT_THAT(problems[0], ::testing::HasSubstr(GetParam() + ": must be "));
    EXPECT_THAT(problems[0], ::testing::HasSubstr(allowed_values(field())));
  }
}

TEST_P(EveryFlag, IsRefusedAsAutoUnlessSomebodyFillsIt) {
  const auto problems = problems_in(GetParam() + ": auto\n");
  if (allowed_values(field()).starts_with("auto")) {
    EXPECT_THAT(problems, ::testing::IsEmpty());
  } else if (field().auto_from == AutoFrom::kNobody) {
    EXPECT_THAT(problems, ::testing::ElementsAre(::testing::HasSubstr("got auto")));
  } else if (field().auto_from == AutoFrom::kBatch) {
    EXPECT_THAT(problems, ::testing::ElementsAre(::testing::HasSubstr("auto can be filled only")));
  } else {
    EXPECT_THAT(problems, ::testing::IsEmpty());
  }
}

TEST_P(EveryFlag, AsAutoIsReplacedByAStrongerSource) {
  const Flags file = parse_config(GetParam() + ": auto\n" + stage_line(), "x.yaml");
  StrategyOptions options;
  example().give(options);
  const EngineConfig config = resolve(options, {file});
  EXPECT_EQ(value_text(field(), config), example().printed);
}

INSTANTIATE_TEST_SUITE_P(Table, EveryFlag, ::testing::ValuesIn(engine_field_names()), test_name);

TEST(FieldTable, EachRowDescribesAnotherMember) {
  const EngineConfig config;
  std::set<const void*> members;
  for (const auto& field : fields<EngineConfig>()) {
    members.insert(std::visit(
        [&](auto member) { return static_cast<const void*>(&(config.*member)); }, field.member));
  }
  EXPECT_EQ(members.size(), fields<EngineConfig>().size());
}

TEST(FieldTable, NoNameOrAliasStandsForTwoFlags) {
  const auto names = field_names<EngineConfig>();
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
}

TEST(FieldTable, EachFlagHasAnExampleHere) {
  EXPECT_EQ(examples().size(), fields<EngineConfig>().size());
}

TEST(FieldTable, EachRowTellsWhatTheFlagDoes) {
  for (const auto& field : fields<EngineConfig>()) EXPECT_GT(field.help.size(), 10U) << field.name;
}

TEST(StrategyOptions, TellTheValuesThatStandInThem) {
  const auto options = StrategyOptions().stage(3).offload_parameters(true).precision("bf16");
  EXPECT_EQ(options.stage(), 3);
  EXPECT_TRUE(options.offload_parameters());
  EXPECT_EQ(options.precision(), Precision::kBf16);
  EXPECT_EQ(options.prefetch_pages(), 2);
}

TEST(StrategyOptions, TakeTextsWhereAFileDoes) {
  const auto options =
      StrategyOptions().page_bytes("1 MiB").parameter_budget("2GB").device("cpu").update_kernel(
          "portable");
  EXPECT_EQ(options.page_bytes(), 1 << 20);
  EXPECT_EQ(options.parameter_budget(), 2000000000);
  EXPECT_EQ(options.device(), DeviceChoice::kCpu);
  EXPECT_EQ(options.update_kernel(), UpdateKernel::kPortable);
}

template <class V>
concept StageTakes = requires(StrategyOptions o, V v) {
  o.stage(v);
};
template <class V>
concept OffloadTakes = requires(StrategyOptions o, V v) {
  o.offload_parameters(v);
};
template <class V>
concept ClippingTakes = requires(StrategyOptions o, V v) {
  o.gradient_clipping(v);
};

TEST(StrategyOptions, DoNotCompileWithATypeThatWouldBeConverted) {
  EXPECT_TRUE(StageTakes<int> && StageTakes<int64_t> && StageTakes<unsigned>);
  EXPECT_FALSE(StageTakes<double> || StageTakes<bool> || StageTakes<const char*>);
  EXPECT_TRUE(OffloadTakes<bool>);
  EXPECT_FALSE(OffloadTakes<int> || OffloadTakes<const char*>);
  EXPECT_TRUE(ClippingTakes<double> && ClippingTakes<float> && ClippingTakes<int>);
  EXPECT_FALSE(ClippingTakes<bool>);
}

}  // namespace
}  // namespace zero::config_test
