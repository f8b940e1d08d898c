// SPDX-License-Identifier: Apache-2.0
// The report shows each flag's way: as given, as the engine knows it, value, source, consumer, read
// or not.
#include <sstream>

#include "strategy/forwarded.h"
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::vector<std::string>> table(const RunConfig& config) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream report(forwarded_report(config));
  for (std::string line; std::getline(report, line);) {
    std::vector<std::string> cells;
    // Two blanks or more part columns.
    for (size_t at = 0; at < line.size();) {
      const size_t end = std::min(line.find("  ", at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = std::min(line.find_first_not_of(' ', end), line.size());
    }
    rows.push_back(cells);
  }
  return rows;
}

TEST(ForwardedReport, HasAHeadingAndOneRowASetting) {
  const auto rows = table(resolve_all({}).config);
  ASSERT_EQ(rows.size(), 1 + fields<EngineConfig>().size());
  EXPECT_THAT(rows[0], ElementsAre("flag", "engine key", "value", "source", "consumer", "read"));
  EXPECT_THAT(rows[1], ElementsAre("-", "stage", "0", "default", "paging", "not yet"));
}

TEST(ForwardedReport, ShowsTheWayOfAFlagFromFileToReader) {
  const RunConfig config =
      resolve_all(
          StrategyOptions().page_bytes("1MiB"),
          {parse_config("strategy:\n  checkpoint_in_cpu: false\n  zero_stage: 3\n", "x.yaml")})
          .config;
  config.engine.stage.read(Consumer::kPaging);
  const auto rows = table(config);
  EXPECT_THAT(rows, ::testing::IsSupersetOf(std::vector<std::vector<std::string>>{
                        {"strategy.zero_stage", "stage", "3", "x.yaml:3:15", "paging", "yes"},
                        {"strategy.checkpoint_in_cpu", "cpu_checkpointing", "false", "x.yaml:2:22",
                         "activations", "not yet"},
                        {"page_bytes", "page_bytes", "1MiB", "code", "paging", "not yet"},
                        {"-", "device", "auto", "default", "partition", "not yet"}}));
}

TEST(ForwardedReport, IsAligned) {
  std::istringstream report(forwarded_report(resolve_all(StrategyOptions().stage(1)).config));
  std::string line;
  std::getline(report, line);
  const size_t column = line.find("engine key");
  while (std::getline(report, line)) {
    EXPECT_EQ(line[column - 1], ' ') << line;
    EXPECT_NE(line[column], ' ') << line;
  }
}

TEST(ForwardedReport, ShowsOtherGroupsWhereTheyAreGiven) {
  const RunConfig config =
      resolve_all({}, {parse_config("trainer: {steps: 5}\n", "x.yaml")}).config;
  EXPECT_THAT(table(config), ::testing::Contains(ElementsAre("trainer.steps", "steps", "5",
                                                             "x.yaml:1:18", "trainer", "not yet")));
}

TEST(ForwardedReport, IsThereAsJson) {
  const Flags file = parse_config("zero_optimization: {stage: 2}\n", "a \"quoted\" name.yaml");
  const std::string json = forwarded_json(resolve_all({}, {file}).config);
  EXPECT_THAT(json, ::testing::HasSubstr(
                        R"({"flag": "zero_optimization.stage", "key": "stage", "value": "2", )"
                        R"("source": "file", "where": "a \"quoted\" name.yaml:1:28", )"
                        R"("consumer": "paging", "read": false})"));
  EXPECT_THAT(json, ::testing::HasSubstr(R"({"flag": null, "key": "device", "value": "auto")"));
  EXPECT_TRUE(parse_json("{\"rows\": " + json + "}", "report").problems.empty());
}

TEST(ForwardedReport, RecordsNoRead) {
  const RunConfig config = resolve_all(StrategyOptions().stage(2)).config;
  forwarded_report(config);
  forwarded_json(config);
  EXPECT_EQ(unread_settings(config.engine).size(), 1U);
}

}  // namespace
}  // namespace zero::config_test
