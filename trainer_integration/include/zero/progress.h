// SPDX-License-Identifier: Apache-2.0
// Where a training run stands, for people: one line that is written over on a terminal, plain lines
// elsewhere. A printer belongs to one thread.
#pragma once

#include <cstdint>
#include <limits>
#include <ostream>
#include <string>

namespace zero {

struct Progress {
  int64_t step = 0;
  int64_t total = 0;  // 0: not known
  double loss = 0.0;
  double tokens_per_s = 0.0;  // 0: not counted, and not shown
  int64_t device_bytes = 0;   // 0: no device, and not shown
  int64_t host_bytes = 0;
  double seconds_left = std::numeric_limits<double>::quiet_NaN();  // NaN: not known, and not shown
};

// "step 120/400  loss 2.3145  12.3k tokens/s  GPU 1.20 GiB  host 3.40 GiB  eta 1:23"
std::string format_progress(const Progress& progress);
// The same with a bar, at most `columns` long: what does not fit is cut, the bar first.
std::string format_progress_bar(const Progress& progress, int columns);

std::string format_loss(double loss);         // "2.3145"
std::string format_bytes(double bytes);       // "1.20 GiB"
std::string format_count(double count);       // "12.3k"
std::string format_duration(double seconds);  // "1:23", "2:03:04"

class ProgressPrinter {
 public:
  // terminal: `out` is one, so that a line can be written over.
  ProgressPrinter(std::ostream& out, bool terminal) : out_(out), terminal_(terminal) {}
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;
  // Leaves the cursor at the beginning of a line, also while an exception passes.
  ~ProgressPrinter();

  void show(const Progress& progress);
  // A line that stays.
  void note(const std::string& text);

 private:
  std::ostream& out_;
  bool terminal_;
  bool line_is_open_ = false;
};

}  // namespace zero
