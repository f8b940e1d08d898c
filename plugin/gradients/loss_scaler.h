// SPDX-License-Identifier: Apache-2.0
// The loss scale of fp16, and how many steps have overflowed.
//
// Small gradients vanish in fp16, so the loss is multiplied with a scale before backward and the
// gradients are divided by it. A dynamic scale starts high; overflows halve it, a window of steps
// without any doubles it again. Powers of two change no bit of a gradient that neither overflows
// nor vanishes. Without fp16 the scale is a static 1, and what is counted are the steps whose
// gradients were not finite. Pure logic: every rank holds one and tells it the same. Not
// thread-safe.
#pragma once

#include <cstdint>

namespace zero {

struct DynamicLossScale {
  int64_t initial_power = 16;           // the first scale is 2 to this power
  int64_t window = 1000;                // steps without overflow until the scale doubles
  int64_t hysteresis = 2;               // which overflow is the first to halve the scale
  bool consecutive_hysteresis = false;  // any step without overflow starts the hysteresis anew;
                                        // else only a full window does
  double min_scale = 1.0;               // above 0
};

class LossScaler {
 public:
  // A static scale, above 0. Throws std::invalid_argument for another one.
  explicit LossScaler(double scale = 1.0);
  // Throws std::invalid_argument for a minimum that is not above 0, or above the first scale.
  explicit LossScaler(const DynamicLossScale& options);

  // What the next loss is multiplied with.
  double scale() const { return scale_; }
  bool dynamic() const { return dynamic_; }

  // After each step, applied or not.
  void update(bool overflow);

  int64_t overflows() const { return overflows_; }
  int64_t consecutive_overflows() const { return consecutive_overflows_; }

 private:
  DynamicLossScale options_;
  bool dynamic_;
  double scale_;
  int64_t hysteresis_;       // overflows left until one halves the scale, that one included
  int64_t clean_steps_ = 0;  // since the last overflow or doubling
  int64_t overflows_ = 0;
  int64_t consecutive_overflows_ = 0;
};

}  // namespace zero
