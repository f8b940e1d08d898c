// SPDX-License-Identifier: Apache-2.0
// What the example leaves behind after a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "examples/gpt/run_outputs.h"
#include "tests/trainer/svg_check.h"

namespace gpt {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

zero::TrainSummary some_run() {
  zero::TrainSummary summary;
  summary.steps = 20;
  summary.tokens = 20000;
  summary.seconds = 10.0;
  summary.log.resize(2);
  summary.log[0].step = 1;
  summary.log[0].loss = 8.0 / kBitsPerNat;
  summary.log[1].step = 20;
  summary.log[1].loss = 2.5 / kBitsPerNat;
  summary.log[1].memory.process_rss = 77;
  summary.validations = {{0, 8.0 / kBitsPerNat}, {20, 2.0 / kBitsPerNat}};
  return summary;
}

TEST(RunOutputs, CsvHasARowAStepAndEmptyCellsForWhatIsNotKnown) {
  std::istringstream csv(metrics_csv(some_run()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(csv, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], StartsWith("step,held_out_bits_per_byte,train_bits_per_byte,"));
  EXPECT_EQ(lines[1], "0,8.00000,,,,,,,,,");
  EXPECT_THAT(lines[2], StartsWith("1,,8.00000,"));
  EXPECT_THAT(lines[3], StartsWith("20,2.00000,2.50000,"));
  for (const auto& line : lines) EXPECT_EQ(std::count(line.begin(), line.end(), ','), 10) << line;
}

TEST(RunOutputs, TheSummaryCountsTheTokensOfAllRanks) {
  EXPECT_EQ(summary_line(some_run(), 2),
            "held-out loss from 8.00 to 2.00 bits per byte, 20 steps, 10 s, 4.0k tokens/s");
}

TEST(RunOutputs, PictureAndNumbersAreWrittenIntoANewFolder) {
  const auto folder = std::filesystem::temp_directory_path() / "libzero_run_outputs_test";
  std::filesystem::remove_all(folder);
  write_outputs(folder, "A run", some_run(), {});
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("metrics.csv", "report.svg"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gpt
