// SPDX-License-Identifier: Apache-2.0
#include "zero/activation_report.h"

#include <cstdio>

namespace zero {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

template <class... Values>
std::string line(const char* format, Values... values) {
  char text[240];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

std::string ActivationReport::table() const {
  std::string text =
      line("regions: %ld runs; %ld tensors moved, %.2f MiB out, %.2f MiB back, %ld kept\n",
           static_cast<long>(regions), static_cast<long>(tensors_moved), bytes_moved / kMiB,
           bytes_returned / kMiB, static_cast<long>(tensors_kept));
  for (const RegionReport& region : by_name) {
    text += line("%-32.60s %8ld runs %12.3f ms %8ld again %12.3f ms\n", region.name.c_str(),
                 static_cast<long>(region.runs), 1e3 * region.seconds,
                 static_cast<long>(region.runs_again), 1e3 * region.seconds_again);
  }
  return text;
}

}  // namespace zero
