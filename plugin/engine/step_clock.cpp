// SPDX-License-Identifier: Apache-2.0
#include "plugin/engine/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace zero {

StepClock::StepClock(at::Device device) : device_(device), last_(Clock::now()) {}

double StepClock::lap(const Lock&) {
  if (!device_.is_cpu()) {
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  }
  const auto now = Clock::now();
  return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
}

void StepClock::pass_begins() {
  const Lock lock(mutex_);
  before_pass_ += lap(lock);
  ours_ = false;
}

void StepClock::pass_is_ours() {
  const Lock lock(mutex_);
  ours_ = true;
}

// Another model's pass is a part of what goes on before ours.
void StepClock::pass_ends() {
  const Lock lock(mutex_);
  const double pass = lap(lock);
  if (!ours_) {
    before_pass_ += pass;
    return;
  }
  times_.forward += std::exchange(before_pass_, 0.0);
  times_.backward += pass;
}

void StepClock::step_begins() {
  const Lock lock(mutex_);
  lap(lock);
}

void StepClock::reduced() {
  const Lock lock(mutex_);
  times_.reduction += lap(lock);
}

StepTimes StepClock::step_ends() {
  const Lock lock(mutex_);
  times_.update += lap(lock);
  before_pass_ = 0.0;
  return std::exchange(times_, {});
}

}  // namespace zero
