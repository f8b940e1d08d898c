// SPDX-License-Identifier: Apache-2.0
// Files: unknown and misplaced keys, sections, comments, and files that are no configuration at
// all.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(UnknownKey, GetsTheNearestName) {
  EXPECT_THAT(problems_in("grandient_clipping: 1.0\n"),
              ElementsAre(AllOf(StartsWith("x.yaml:1:1: grandient_clipping: unknown key"),
                                EndsWith("did you mean gradient_clipping?"))));
  EXPECT_THAT(problems_in("strategy:\n  offload-optimizer: true\n"),
              ElementsAre(AllOf(StartsWith("x.yaml:2:3: strategy.offload-optimizer: unknown key"),
                                EndsWith("did you mean offload_optimizer?"))));
  EXPECT_THAT(problems_in("Strategi:\n  stage: 1\n"),
              ElementsAre(EndsWith("did you mean strategy?")));
}

TEST(UnknownKey, FarFromAllNamesListsThem) {
  EXPECT_THAT(problems_in("qqqqqq: 1\n"), ElementsAre(AllOf(HasSubstr("known here are stage"),
                                                            Not(HasSubstr("did you mean")))));
}

TEST(UnknownKey, OfTheOtherSectionIsSentThere) {
  EXPECT_THAT(problems_in("log_every: 5\n"), ElementsAre(HasSubstr("belongs in trainer")));
  EXPECT_THAT(problems_in("trainer:\n  gradient_accumulation_steps: 2\n"),
              ElementsAre(AllOf(HasSubstr("trainer.gradient_accumulation_steps"),
                                HasSubstr("belongs at the top level"))));
}

TEST(UnknownKey, OfAnotherToolGetsTheNameHere) {
  const std::map<std::string, std::string> taught = {
      {"max_grad_norm: 1.0", "gradient_clipping"},
      {"lr_scheduler: {type: cosine}", "did you mean scheduler?"},
      {"gradient_checkpointing: true", "activation_checkpointing"},
      {"per_device_train_batch_size: 4", "train_micro_batch_size_per_gpu"},
  };
  for (const auto& [yaml, advice] : taught) {
    EXPECT_THAT(problems_in(yaml), ElementsAre(AllOf(HasSubstr("unknown key"), HasSubstr(advice))));
  }
}

TEST(UnknownKey, InsideASectionIsNamedByItsWholePath) {
  EXPECT_THAT(problems_in("strategy:\n  strategy:\n    stage: 3\n"),
              ElementsAre(StartsWith("x.yaml:2:3: strategy.strategy: unknown key")));
}

TEST(Duplicate, AcrossTopLevelAndStrategyMapNamesBothPlaces) {
  EXPECT_THAT(problems_in("stage: 3\nstrategy:\n  stage: 3\n"),
              ElementsAre(AllOf(StartsWith("x.yaml:3:3: strategy.stage: "),
                                HasSubstr("same as stage at x.yaml:1:1"))));
}

TEST(Duplicate, SectionNamesBothPlaces) {
  EXPECT_THAT(
      problems_in("strategy: {stage: 1}\nstrategy: {device: cpu}\n"),
      ElementsAre(AllOf(StartsWith("x.yaml:2:1: strategy: "), HasSubstr("first at x.yaml:1:1"))));
}

TEST(Section, MustBeAMap) {
  EXPECT_THAT(problems_in("strategy: true\n"),
              ElementsAre(StartsWith("x.yaml:1:11: strategy: must be a map")));
  EXPECT_THAT(problems_in("stage: 1\ntrainer:\n"),
              ElementsAre(StartsWith("x.yaml:2:1: trainer: must be a map")));
}

TEST(Comment, KeysMayHoldAnythingAtAnyPlace) {
  const EngineConfig config = config_from(
      "_note: [any, {thing: 1}]\nstage: 1\nstrategy:\n  _why: because\n  device: cpu\n"
      "trainer: {_: ~}\n");
  EXPECT_EQ(config.stage.peek(), 1);
  EXPECT_EQ(config.device.peek(), DeviceChoice::kCpu);
}

TEST(Json, IsReadAsTheYamlItIs) {
  const EngineConfig config = config_from(R"({"stage": 3, "offload_parameters": true,
    "page_bytes": "16MiB", "precision": "bf16"})");
  EXPECT_TRUE(config.offload_parameters.peek());
  EXPECT_EQ(config.page_bytes.peek(), 16 << 20);
  EXPECT_EQ(config.precision.peek(), Precision::kBf16);
}

TEST(NotAConfiguration, IsRefusedInASentence) {
  EXPECT_THAT(problems_in(""), ElementsAre(HasSubstr("x.yaml: holds no settings")));
  EXPECT_THAT(problems_in("# stage: 3\n"), ElementsAre(HasSubstr("holds no settings")));
  EXPECT_THAT(problems_in("- stage: 3\n"), ElementsAre(HasSubstr("x.yaml:1:1: must be a map")));
  EXPECT_THAT(problems_in("stage 3\n"), ElementsAre(HasSubstr("x.yaml:1:1: must be a map")));
  EXPECT_THAT(problems_in("stage: 3\n---\nstage: 2\n"),
              ElementsAre(HasSubstr("more than one YAML document")));
  EXPECT_THAT(problems_in("[a, b]: 3\nstage: 1\n"),
              ElementsAre(HasSubstr("x.yaml:1:1: a key must be a name")));
  EXPECT_THAT(problems_in("<<: {stage: 3}\n"), ElementsAre(HasSubstr("<<: unknown key")));
}

TEST(NotAConfiguration, StrayTextAroundTheFlagsIsRefused) {
  EXPECT_THAT(problems_in(",stage: 3\n"), ElementsAre(HasSubstr("stray text")));
  EXPECT_THAT(problems_in("{stage: 3}\n}\n"), Not(IsEmpty()));
  EXPECT_THAT(problems_in("{stage: 3} device\n"), Not(IsEmpty()));
}

TEST(NotAConfiguration, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_THAT(problems_in("stage: 3\ndevice: a: b\n"),
              ElementsAre(AllOf(StartsWith("x.yaml:2:10: not valid YAML: "))));
  EXPECT_THAT(problems_in("stage: [3\n"), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(problems_in("stage: *nowhere\n"), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(problems_in("stage:\n\t- 3\n"), ElementsAre(HasSubstr("not valid YAML")));
}

TEST(NotAConfiguration, DeepAndSelfContainingDocumentsEnd) {
  EXPECT_THAT(problems_in(std::string(5000, '[')), ElementsAre(HasSubstr("nested too deeply")));
  EXPECT_THAT(problems_in("strategy: &s\n  strategy: *s\n"), Not(IsEmpty()));
}

class OnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("zero_yaml_file_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::vector<std::string> problems(const std::filesystem::path& file) const {
    return problems_of({}, {read_config_file(file)});
  }
  std::filesystem::path folder_;
};

TEST_F(OnDisk, FlagsCarryTheFilesName) {
  const std::filesystem::path file = folder_ / "run.yaml";
  std::ofstream(file) << "device: cpu\nstage: 2\n";
  const EngineConfig config = resolve({}, {read_config_file(file)});
  EXPECT_EQ(config.stage.peek(), 2);
  EXPECT_EQ(config.stage.provenance().where, file.string() + ":2:8");
}

TEST_F(OnDisk, MissingFilesFoldersAndEmptyFilesAreRefusedByName) {
  const std::filesystem::path missing = folder_ / "missing.yaml";
  EXPECT_THAT(problems(missing),
              ElementsAre(StartsWith(missing.string() + ": there is no such file")));
  EXPECT_THAT(problems(folder_), ElementsAre(StartsWith(folder_.string() + ": is a folder")));
  const std::filesystem::path empty = folder_ / "empty.yaml";
  std::ofstream(empty).close();
  EXPECT_THAT(problems(empty), ElementsAre(StartsWith(empty.string() + ": holds no settings")));
}

TEST_F(OnDisk, AnUnreadableFileIsRefusedByName) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every file";
  const std::filesystem::path file = folder_ / "locked.yaml";
  std::ofstream(file) << "stage: 2\n";
  std::filesystem::permissions(file, std::filesystem::perms::none);
  EXPECT_THAT(problems(file), ElementsAre(StartsWith(file.string() + ": cannot be read")));
}

}  // namespace
}  // namespace zero::config_test
