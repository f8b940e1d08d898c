// SPDX-License-Identifier: Apache-2.0
// `zero config check`, `explain` and `convert`.
#include <gmock/gmock.h>

#include "command_line/program.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kGood = R"({
  "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, // two ranks, accumulation 2
  "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
  bf16: {enabled: "true"},
  "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
})";

TEST_F(CommandLine, CheckTakesAFileThatIsRight) {
  const Ended ended = zero({"config", "check", write("good.json", kGood)});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("no problem found"));
}

TEST_F(CommandLine, CheckReportsEverythingAtOnceEachWithPlacePathAndReason) {
  const std::string file = write("bad.yaml",
                                 "zero_optimization:\n"
                                 "  stage: 4\n"
                                 "  offload_parm: {device: cpu}\n"
                                 "gradient_clipping: yes please\n");
  const Ended ended = zero({"config", "check", file});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, IsEmpty());
  EXPECT_THAT(lines_of(ended.err),
              ::testing::UnorderedElementsAre(
                  AllOf(StartsWith(file + ":2:10: zero_optimization.stage: "), HasSubstr("4")),
                  AllOf(StartsWith(file + ":3:3: zero_optimization.offload_parm: "),
                        HasSubstr("did you mean offload_param?")),
                  AllOf(StartsWith(file + ":4:20: gradient_clipping: "), HasSubstr("number"))));
}

TEST_F(CommandLine, NoticesAreMarkedAndAreNoFailure) {
  const std::string file = write("old.json", R"({"zero_optimization": {"stage": 2,
    "cpu_offload": true}})");
  const Ended ended = zero({"config", "check", file});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(
      lines_of(ended.err),
      ::testing::Contains(StartsWith(file + ":2:5: notice: zero_optimization.cpu_offload: ")));
}

TEST_F(CommandLine, WorldSizeChecksTheBatchNumbers) {
  const std::string file = write("batch.yaml",
                                 "train_batch_size: 8\n"
                                 "train_micro_batch_size_per_gpu: 2\n"
                                 "gradient_accumulation_steps: 1\n");
  EXPECT_EQ(zero({"config", "check", file, "--world-size", "4"}).code, 0);
  const Ended ended = zero({"config", "check", file, "--world-size", "3"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("train_batch_size"), HasSubstr("3")));
}

TEST_F(CommandLine, SetWinsOverTheFile) {
  const std::string file = write("flat.yaml", "stage: 1\n");
  const Ended ended = zero(
      {"config", "explain", file, "--set", "zero_optimization.stage=2", "--set", "precision=bf16"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(lines_of(ended.out),
              ::testing::Contains(::testing::ContainsRegex("^stage +2 +command line")));
  EXPECT_THAT(lines_of(ended.out),
              ::testing::Contains(::testing::ContainsRegex("^precision +bf16 +command line")));
}

TEST_F(CommandLine, AWrongSetIsAProblemOfTheCommandLine) {
  const std::string file = write("flat.yaml", "stage: 1\n");
  const Ended ended = zero({"config", "check", file, "--set", "stge=2"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err,
              AllOf(StartsWith("command line: stge: "), HasSubstr("did you mean stage?")));
}

TEST_F(CommandLine, ExplainShowsValueSourceAndEffectOfEverySetting) {
  const std::string file = write("good.json", kGood);
  const Ended ended = zero({"config", "explain", file});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const auto lines = lines_of(ended.out);
  EXPECT_THAT(lines, ::testing::Contains(AllOf(StartsWith("stage "), HasSubstr(file + ":3:34"),
                                               HasSubstr("what is partitioned"))));
  EXPECT_THAT(lines,
              ::testing::Contains(AllOf(StartsWith("gradient_clipping "), HasSubstr("default"))));
}

TEST_F(CommandLine, ConvertKeepsTheMeaning) {
  const std::string json = write("good.json", kGood);
  const Ended as_yaml = zero({"config", "convert", json, "--to", "yaml"});
  ASSERT_EQ(as_yaml.code, 0) << as_yaml.err;
  const std::string yaml = write("again.yaml", as_yaml.out);
  const Ended as_json = zero({"config", "convert", yaml, "--to", "json"});
  ASSERT_EQ(as_json.code, 0) << as_json.err;
  const std::string again = write("again.json", as_json.out);

  const auto values = [&](const std::string& file) {
    std::vector<std::string> cells;
    for (const std::string& line : lines_of(zero({"config", "explain", file}).out)) {
      std::istringstream words(line);
      std::string name, value;
      words >> name >> value;
      cells.push_back(name + "=" + value);
    }
    return cells;
  };
  const auto expected = values(json);
  EXPECT_THAT(expected, ::testing::Contains("offload_parameters=true"));
  EXPECT_EQ(values(yaml), expected);
  EXPECT_EQ(values(again), expected);
}

TEST_F(CommandLine, ConvertKeepsTextsTexts) {
  const std::string file =
      write("texts.json", "{\"_a\": \"yes\", \"_b\": \"# no\\tcomment: \\\"\\\\\", \"_c\": \"\"}");
  const Ended yaml = zero({"config", "convert", file, "--to", "yaml"});
  EXPECT_EQ(yaml.out, "_a: \"yes\"\n_b: \"# no\\u0009comment: \\\"\\\\\"\n_c: \"\"\n");
  const Ended json = zero({"config", "convert", write("again.yaml", yaml.out), "--to", "json"});
  EXPECT_THAT(json.out, HasSubstr("\"_b\": \"# no\\u0009comment: \\\"\\\\\""));
}

TEST_F(CommandLine, WhatCannotBeReadIsNotConverted) {
  const Ended ended =
      zero({"config", "convert", write("broken.json", "{\"a\": [1, 2"), "--to", "yaml"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, IsEmpty());
  EXPECT_THAT(ended.err, HasSubstr("broken.json:1:"));
}

TEST_F(CommandLine, AFileThatIsNotThereIsNamed) {
  const Ended ended = zero({"config", "check", "/nowhere/x.yaml"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, StartsWith("/nowhere/x.yaml: there is no such file"));
}

TEST_F(CommandLine, AWrongCommandLineExitsWithTwo) {
  EXPECT_EQ(zero({}).code, 2);
  EXPECT_EQ(zero({"config", "chek", "x"}).code, 2);
  EXPECT_EQ(zero({"config", "convert", "x.json", "--to", "toml"}).code, 2);
}

TEST_F(CommandLine, HelpListsTheSettings) {
  const Ended ended = zero({"config", "check", "--help"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("--world-size"), HasSubstr("zero_optimization.stage"),
                               HasSubstr("what is partitioned"), Not(HasSubstr("LIBZERO_CASES"))));
}

}  // namespace
}  // namespace zero::testing
