// SPDX-License-Identifier: Apache-2.0
// Times of the phases of a step (wall_clock_breakdown). The host waits for the device where a phase
// ends, so that each is charged with its own work. Any thread: another model's pass may run beside
// our step.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <mutex>

#include "zero/step_report.h"

namespace zero {

class StepClock {
 public:
  explicit StepClock(at::Device device);

  // A backward pass of any model begins, or has completed.
  void pass_begins();
  void pass_ends();
  // The pass that runs has brought a gradient of our model.
  void pass_is_ours();

  void step_begins();
  // All gradients are reduced and their norm is taken.
  void reduced();
  // The times of the step that ends here.
  StepTimes step_ends();

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::lock_guard<std::mutex>;
  // Seconds since the last call.
  double lap(const Lock& lock);

  at::Device device_;
  std::mutex mutex_;
  Clock::time_point last_;
  double before_pass_ = 0.0;  // seconds
  bool ours_ = false;
  StepTimes times_;
};

}  // namespace zero
