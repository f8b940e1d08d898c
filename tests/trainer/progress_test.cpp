// SPDX-License-Identifier: Apache-2.0
// What people see while a run goes on.
#include "zero/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace zero {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Progress half_way() {
  Progress progress;
  progress.step = 200;
  progress.total = 400;
  progress.loss = 2.31449;
  progress.tokens_per_s = 12345;
  progress.device_bytes = int64_t{3} << 29;
  progress.host_bytes = int64_t{3} << 30;
  progress.seconds_left = 83;
  return progress;
}

TEST(Progress, APlainLineHasAllFigures) {
  EXPECT_EQ(format_progress(half_way()),
            "step 200/400  loss 2.3145  12.3k tokens/s  GPU 1.50 GiB  host 3.00 GiB  eta 1:23");
}

TEST(Progress, WhatIsNotKnownIsNotShown) {
  Progress progress;
  progress.step = 7;
  progress.host_bytes = 1 << 20;
  EXPECT_EQ(format_progress(progress), "step 7  loss 0.0000  host 1.00 MiB");
}

TEST(Progress, TheBarIsFilledByTheShareThatIsDone) {
  EXPECT_THAT(format_progress_bar(half_way(), 200),
              HasSubstr("[===============>              ]  loss"));
  Progress done = half_way();
  done.step = done.total;
  EXPECT_THAT(format_progress_bar(done, 200), HasSubstr("[==============================]"));
}

TEST(Progress, TheBarLineFitsEveryTerminal) {
  for (int columns = 0; columns < 160; ++columns) {
    EXPECT_LE(format_progress_bar(half_way(), columns).size(), static_cast<size_t>(columns));
  }
}

TEST(Progress, ANarrowTerminalLosesTheBarAndKeepsTheFigures) {
  const std::string line = format_progress_bar(half_way(), 80);
  EXPECT_THAT(line, Not(HasSubstr("[")));
  EXPECT_THAT(line, HasSubstr("eta 1:23"));
}

TEST(Progress, NumbersReadWell) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(612.0 * (1 << 20)), "612 MiB");
  EXPECT_EQ(format_bytes(45.26 * (1 << 30)), "45.3 GiB");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(999.7), "1.0k");
  EXPECT_EQ(format_count(999960), "1.00M");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(7384), "2:03:04");
  EXPECT_EQ(format_duration(-5), "0:00");
  EXPECT_EQ(format_loss(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(ProgressPrinter, ElsewhereThanOnATerminalEachUpdateIsALine) {
  std::ostringstream out;
  {
    ProgressPrinter printer(out, /*terminal=*/false);
    printer.show(half_way());
    printer.note("held-out");
    printer.show(half_way());
  }
  const std::string line = format_progress(half_way()) + "\n";
  EXPECT_EQ(out.str(), line + "held-out\n" + line);
}

TEST(ProgressPrinter, OnATerminalTheLineIsWrittenOverAndClosedAtTheEnd) {
  std::ostringstream out;
  {
    ProgressPrinter printer(out, /*terminal=*/true);
    printer.show(half_way());
    printer.show(half_way());
    EXPECT_THAT(out.str(), Not(HasSubstr("\n")));
    EXPECT_THAT(out.str(), HasSubstr("\r"));
  }
  EXPECT_EQ(out.str().back(), '\n');
}

TEST(ProgressPrinter, ANoteReplacesTheOpenLine) {
  std::ostringstream out;
  {
    ProgressPrinter printer(out, /*terminal=*/true);
    printer.show(half_way());
    printer.note("held-out");
  }
  EXPECT_TRUE(out.str().ends_with("\r\x1b[Kheld-out\n"));
}

}  // namespace
}  // namespace zero
