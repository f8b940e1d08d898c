// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace zero {

// What one optimizer step did.
struct StepReport {
  int64_t step = 0;      // updates applied so far, this one included when it was applied
  bool applied = false;  // false: gradients were not finite and nothing was changed
  double gradient_norm =
      0.0;  // global 2-norm of the mean gradient before clipping; NaN when clipping is off
  double clip_coefficient = 1.0;  // what the gradients were multiplied with
  std::string update_kernel;  // what ran the update: avx512, avx2 or portable, cuda, or "avx2+cuda"
};

}  // namespace zero
