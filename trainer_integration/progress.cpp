// SPDX-License-Identifier: Apache-2.0
#include "zero/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace zero {
namespace {

constexpr const char* kEraseLine = "\r\x1b[K";
constexpr int kDefaultColumns = 80;
constexpr int kShortestBar = 8, kLongestBar = 30;

template <class... Values>
std::string print(const char* format, Values... values) {
  char text[96];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : kDefaultColumns;
}

std::string counter(const Progress& progress) {
  std::string text = std::to_string(progress.step);
  return progress.total > 0 ? text + "/" + std::to_string(progress.total) : text;
}

std::string figures(const Progress& progress) {
  std::string text = "loss " + format_loss(progress.loss);
  if (progress.tokens_per_s > 0.0) text += "  " + format_count(progress.tokens_per_s) + " tokens/s";
  if (progress.device_bytes > 0)
    text += "  GPU " + format_bytes(static_cast<double>(progress.device_bytes));
  text += "  host " + format_bytes(static_cast<double>(progress.host_bytes));
  if (!std::isnan(progress.seconds_left)) text += "  eta " + format_duration(progress.seconds_left);
  return text;
}

std::string bar(double done, int length) {
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * length);
  std::string text(static_cast<size_t>(length), ' ');
  std::fill_n(text.begin(), filled, '=');
  if (filled < length) text[static_cast<size_t>(filled)] = '>';
  return "[" + text + "]";
}

}  // namespace

std::string format_loss(double loss) { return print("%.4f", loss); }

std::string format_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; std::abs(bytes) >= 1024.0 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024.0;
  return print(unit == 0 || bytes >= 100.0 ? "%.0f %s"
               : bytes >= 10.0             ? "%.1f %s"
                                           : "%.2f %s",
               bytes, kUnits[unit]);
}

std::string format_count(double count) {
  if (count >= 999.95e3) return print("%.2fM", count / 1e6);
  if (count >= 999.5) return print("%.1fk", count / 1e3);
  return print("%.0f", count);
}

std::string format_duration(double seconds) {
  const auto all = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  const long long hours = all / 3600, minutes = all / 60 % 60;
  if (hours > 0) return print("%lld:%02lld:%02lld", hours, minutes, all % 60);
  return print("%lld:%02lld", minutes, all % 60);
}

std::string format_progress(const Progress& progress) {
  return "step " + counter(progress) + "  " + figures(progress);
}

std::string format_progress_bar(const Progress& progress, int columns) {
  const std::string before = counter(progress) + " ", after = figures(progress);
  const int room =
      columns - static_cast<int>(before.size() + after.size()) - 4;  // brackets and two spaces
  std::string text = before;
  if (progress.total > 0 && room >= kShortestBar) {
    const double done = static_cast<double>(progress.step) / static_cast<double>(progress.total);
    text += bar(done, std::min(room, kLongestBar)) + "  ";
  }
  text += after;
  return text.substr(0, static_cast<size_t>(std::max(0, columns)));
}

ProgressPrinter::~ProgressPrinter() {
  if (line_is_open_) out_ << std::endl;
}

void ProgressPrinter::show(const Progress& progress) {
  if (!terminal_) {
    out_ << format_progress(progress) << std::endl;
    return;
  }
  // One column stays free: a full last column makes some terminals wrap.
  out_ << kEraseLine << format_progress_bar(progress, terminal_columns() - 1) << std::flush;
  line_is_open_ = true;
}

void ProgressPrinter::note(const std::string& text) {
  if (line_is_open_) out_ << kEraseLine;
  out_ << text << std::endl;
  line_is_open_ = false;
}

}  // namespace zero
