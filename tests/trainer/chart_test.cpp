// SPDX-License-Identifier: Apache-2.0
// The picture is well formed for every input and shows what it was given.
#include "zero/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/trainer/svg_check.h"
#include "trainer_integration/svg_canvas.h"

namespace zero {
namespace {

using testing::count_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::is_well_formed;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

CurvePanel panel_of(std::vector<Curve> curves) {
  return {"Loss", "step", "bits per byte", std::move(curves)};
}

std::string picture(std::vector<Curve> curves, const MemoryReport& report = {}) {
  return chart_svg("title", panel_of(std::move(curves)), memory_bars(report));
}

MemoryReport some_memory() {
  MemoryReport report;
  report.predicted[0] = {1 << 20, 2 << 20};
  report.booked[0] = {1 << 20, 3 << 20};
  report.booked[3] = {0, 6 << 20};
  report.peak_live_parameter_bytes = 3 << 20;
  report.process_rss = int64_t{612} << 20;
  report.process_peak_rss = int64_t{640} << 20;
  return report;
}

TEST(Chart, WithoutAnyDataBothPanelsSaySo) {
  const std::string svg = picture({});
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(count_of(svg, ">no data<"), 2);
}

TEST(Chart, EachCurveIsALineWithItsNameInTheLegend) {
  const std::string svg =
      picture({{"training", {{1, 8.0}, {2, 4.0}}}, {"held-out", {{1, 8.1}, {2, 4.2}}}});
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(count_of(svg, "<polyline"), 2);
  for (const char* text : {">training<", ">held-out<", ">step<", ">bits per byte<", ">Loss<"}) {
    EXPECT_EQ(count_of(svg, text), 1) << text;
  }
}

TEST(Chart, OnePointIsADot) {
  const std::string svg = picture({{"only", {{1, 5.0}}}});
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(count_of(svg, "<circle"), 1);
  EXPECT_EQ(count_of(svg, "<polyline"), 0);
}

TEST(Chart, ValuesThatAreNotFiniteLeaveAGap) {
  const std::string svg =
      picture({{"gap", {{1, 5}, {2, 4}, {3, kNan}, {4, kInf}, {5, 3}, {6, 2}}}});
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(count_of(svg, "<polyline"), 2);
}

TEST(Chart, OnlyValuesThatAreNotFiniteAreNoData) {
  const std::string svg = picture({{"gone", {{1, kNan}, {2, -kInf}}}}, some_memory());
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(count_of(svg, ">no data<"), 1);
}

TEST(Chart, TextIsEscaped) {
  const std::string svg = chart_svg("a < b & \"c\" \x01", panel_of({}), {});
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; &quot;c&quot; <"));
}

TEST(Chart, MemoryBarsNameEveryClassThatHasBytesAndTheWholeProcess) {
  const std::string svg = picture({}, some_memory());
  EXPECT_TRUE(is_well_formed(svg));
  for (int i = 0; i < kMemoryClasses; ++i) {
    const std::string name(name_of(static_cast<MemoryClass>(i)));
    const int times = i == 0 || i == 3 ? 1 : 0;
    EXPECT_EQ(count_of(svg, std::string(">").append(name).append("<")), times) << name;
  }
  for (const char* text : {">9.00 MiB<", ">2.00 MiB<", ">1.00 MiB<", ">predicted<", ">booked<"}) {
    EXPECT_GE(count_of(svg, text), 1) << text;
  }
  EXPECT_THAT(svg, HasSubstr("whole parameters: at most 3.00 MiB at once"));
  EXPECT_THAT(svg, HasSubstr("whole process: 612 MiB resident, peak 640 MiB"));
}

TEST(Chart, BarsThatAreNotFiniteOrNegativeAreNotDrawn) {
  BarPanel bars{"Memory", {"a"}, {{"one", {kNan}}, {"two", {-5.0}}, {"three", {kInf}}}, ""};
  const std::string svg = chart_svg("title", panel_of({}), bars);
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(count_of(svg, ">no data<"), 2);
}

TEST(Chart, LossCurvesAreScaledAndKeepTheirSteps) {
  TrainSummary summary;
  summary.log.resize(1);
  summary.log[0].step = 10;
  summary.log[0].loss = 2.0;
  summary.validations = {{0, 4.0}, {10, 1.5}};
  const CurvePanel panel = loss_curves(summary, 2.0, "doubled");
  EXPECT_EQ(panel.y_label, "doubled");
  EXPECT_THAT(panel.curves.at(0).points, ElementsAre(std::pair(10.0, 4.0)));
  EXPECT_THAT(panel.curves.at(1).points, ElementsAre(std::pair(0.0, 8.0), std::pair(10.0, 3.0)));
}

TEST(Chart, TicksAreRoundAndEncloseTheValues) {
  EXPECT_THAT(svg::round_ticks(2.3, 7.9, 6).values, ElementsAre(2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(svg::round_ticks(0.0, 0.3, 3).decimals, 1);
  const svg::Ticks flat = svg::round_ticks(5.0, 5.0, 4);
  EXPECT_LT(flat.values.front(), 5.0);
  EXPECT_GT(flat.values.back(), 5.0);
}

TEST(Chart, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  const auto folder = std::filesystem::temp_directory_path();
  const auto file = folder / "libzero_chart_test.svg";
  write_text_file(file, "text");
  std::stringstream read;
  read << std::ifstream(file).rdbuf();
  EXPECT_EQ(read.str(), "text");
  std::filesystem::remove(file);
  try {
    write_text_file(folder / "no_such_folder_of_libzero" / "x.svg", "text");
    FAIL() << "expected an error";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no_such_folder_of_libzero"));
  }
}

}  // namespace
}  // namespace zero
