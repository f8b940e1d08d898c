// SPDX-License-Identifier: Apache-2.0
// The two added lines of examples/existing_loop are all that an existing loop needs: every weight and
// every average is that of the plain program, at each stage, with offload, on two ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "trainer_integration/launch/rank_processes.h"

namespace zero::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kRanks = 2;

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Each rank works in a folder that is named after it.
void run(int ranks, const fs::path& folder, const std::string& program, const std::string& flags) {
  for (int rank = 0; rank < ranks; ++rank) fs::create_directories(folder / std::to_string(rank));
  LaunchOptions options;
  options.ranks = ranks;
  options.command = {"sh", "-c", "exec \"$0\" \"$1/$RANK\" \"$2\"", program, folder.string(),
                     flags};
  options.environment = {{"OMP_NUM_THREADS", "1"}};
  options.limit = std::chrono::seconds(120);
  RankProcesses processes(options);
  for (const RankExit& exit : processes.wait()) ASSERT_EQ(exit.code, 0) << exit.sentence();
}

std::map<std::string, at::Tensor> read(const fs::path& file,
                                       const std::vector<std::string>& names) {
  torch::serialize::InputArchive archive;
  archive.load_from(file.string());
  std::map<std::string, at::Tensor> tensors;
  for (const auto& name : names) {
    // "head.weight": read() splits modules, a list of named parameters does not.
    if (archive.try_read(name, tensors[name])) continue;
    torch::serialize::InputArchive module;
    archive.read(name.substr(0, name.find('.')), module);
    module.read(name.substr(name.find('.') + 1), tensors[name]);
  }
  return tensors;
}

const std::vector<std::string> kNames{"embedding.weight", "norm.weight", "norm.bias",
                                      "hidden.weight",    "hidden.bias", "head.weight",
                                      "head.bias"};

void expect_same_results(const fs::path& folder, const fs::path& expected) {
  for (const char* file : {"model.pt", "ema.pt"}) {
    const auto ours = read(folder / file, kNames);
    for (const auto& [name, tensor] : read(expected / file, kNames)) {
      EXPECT_TRUE(at::allclose(ours.at(name), tensor, 1e-4, 1e-6)) << file << ", " << name;
    }
  }
}

TEST(ExistingLoop, DiffersByTheAddedLinesOnly) {
  const auto plain = lines_of(fs::path(EXAMPLE_FOLDER) / "plain.cpp");
  std::vector<std::string> added;
  size_t next = 0;
  for (const auto& line : lines_of(fs::path(EXAMPLE_FOLDER) / "with_zero.cpp")) {
    if (next < plain.size() && line == plain[next]) {
      ++next;
    } else {
      added.push_back(line);
    }
  }
  EXPECT_EQ(next, plain.size()) << "nothing of the plain program is changed or left out";
  EXPECT_THAT(added, SizeIs(3));
  EXPECT_THAT(added,
              Each(AnyOf(HasSubstr("#include <zero/strategy.h>"), HasSubstr("auto strategy ="),
                         HasSubstr("strategy.setup(model, optimizer)"))));
}

TEST(ExistingLoop, TrainsAsBeforeAtEveryStage) {
  const TemporaryFolder folder;
  run(1, folder.path() / "plain", PLAIN_PROGRAM, "");
  const fs::path expected = folder.path() / "plain" / "0";
  const std::vector<std::string> flags{
      "stage: 1\n", "stage: 1\noffload_optimizer: true\n", "stage: 2\noffload_optimizer: true\n",
      "stage: 3\nparameter_budget: 48KiB\n",
      "stage: 3\noffload_optimizer: true\noffload_parameters: true\nparameter_budget: 48KiB\n"};
  for (size_t i = 0; i < flags.size(); ++i) {
    SCOPED_TRACE(flags[i]);
    const fs::path mine = folder.path() / std::to_string(i);
    fs::create_directories(mine);
    std::ofstream(mine / "flags.yaml") << flags[i] << "device: cpu\npage_bytes: 4KiB\n";
    run(kRanks, mine, ZERO_PROGRAM, mine / "flags.yaml");
    for (int rank = 0; rank < kRanks; ++rank) {
      SCOPED_TRACE(rank);
      expect_same_results(mine / std::to_string(rank), expected);
    }
  }
}

}  // namespace
}  // namespace zero::testing
