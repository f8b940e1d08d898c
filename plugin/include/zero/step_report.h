// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace zero {

// Seconds of one step's phases (wall_clock_breakdown); 0 where they are not taken. Taking them makes
// the host wait for the device at the end of each phase.
struct StepTimes {
  double forward = 0.0;    // what came before each backward, since the step before
  double backward = 0.0;   // with the reductions that run during it
  double reduction = 0.0;  // of what was left for the step, and the norm
  double update = 0.0;
};

// What one optimizer step did.
struct StepReport {
  int64_t step = 0;      // updates applied so far, this one included when it was applied
  bool applied = false;  // false: gradients were not finite and nothing was changed
  int64_t skipped = 0;   // steps so far that changed nothing, this one included when it was skipped
  // Global 2-norm of the mean gradient, of the loss without its scale and before clipping, as it
  // is: infinite or NaN where a gradient is. NaN too when nothing asked for it: clipping is off and
  // nonfinite_gradients is apply.
  double gradient_norm = 0.0;
  double clip_coefficient = 1.0;  // what the gradients were multiplied with
  double loss_scale = 1.0;        // of the next backward
  int64_t update_calls = 0;       // of the update's kernel, on this rank (sub_group_size)
  StepTimes times;
  std::string update_kernel;  // what ran the update: avx512, avx2 or portable, cuda, or "avx2+cuda"
};

}  // namespace zero
