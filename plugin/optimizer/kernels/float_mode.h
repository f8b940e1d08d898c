// SPDX-License-Identifier: Apache-2.0
// The default floating-point mode (denormals kept, rounding to nearest) while it lives, the old one
// afterwards. Threads inherit their creator's mode, and a flush-to-zero mode
// (torch::set_flush_denormal) would make bits that no GPU makes.
#pragma once

#include <cfenv>

namespace zero::kernels {

class DefaultFloatMode {
 public:
  DefaultFloatMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatMode() { std::fesetenv(&saved_); }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace zero::kernels
