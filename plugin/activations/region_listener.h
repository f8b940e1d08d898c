// SPDX-License-Identifier: Apache-2.0
// Hears of each run of a checkpointed region in this process. Calls come from the thread that runs.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace zero {

class RegionListener {
 public:
  virtual ~RegionListener() = default;
  // `again`: for backward.
  virtual void run_begins(const std::string& region, bool again) = 0;
  virtual void run_ends(const std::string& region, bool again,
                        std::chrono::steady_clock::time_point begun) = 0;
};

// Empty: nobody listens.
void set_region_listener(std::shared_ptr<RegionListener> listener);

// Tells the listener of a run, which lasts as long as this lives.
class ObservedRun {
 public:
  ObservedRun(const std::string& region, bool again);
  ObservedRun(const ObservedRun&) = delete;
  ObservedRun& operator=(const ObservedRun&) = delete;
  ~ObservedRun();

 private:
  const std::string region_;
  const bool again_;
  std::shared_ptr<RegionListener> listener_;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace zero
