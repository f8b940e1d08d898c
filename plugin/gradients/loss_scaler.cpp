// SPDX-License-Identifier: Apache-2.0
#include "plugin/gradients/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace zero {

namespace {

// Scale and its inverse are normal fp32 numbers, so that neither loses bits.
constexpr double kMaxScale = 0x1p126;
constexpr double kFactor = 2.0;

}  // namespace

LossScaler::LossScaler(double scale) : dynamic_(false), scale_(scale), hysteresis_(0) {
  if (!(scale > 0 && scale <= kMaxScale)) {
    throw std::invalid_argument("a static loss scale lies above 0 and not above 2^126, not at " +
                                std::to_string(scale));
  }
}

LossScaler::LossScaler(const DynamicLossScale& options)
    : options_(options),
      dynamic_(true),
      scale_(std::exp2(static_cast<double>(options.initial_power))),
      hysteresis_(options.hysteresis) {
  if (!(options.min_scale > 0 && options.min_scale <= scale_) || scale_ > kMaxScale) {
    throw std::invalid_argument(
        "the dynamic loss scale starts at 2^" + std::to_string(options.initial_power) +
        " and does not fall below min_loss_scale = " + std::to_string(options.min_scale) +
        "; that minimum must be above 0 and not above the start");
  }
}

void LossScaler::update(bool overflow) {
  if (overflow) {
    ++overflows_;
    ++consecutive_overflows_;
    clean_steps_ = 0;
    if (!dynamic_) return;
    if (hysteresis_ > 1) {
      --hysteresis_;
    } else {
      scale_ = std::max(scale_ / kFactor, options_.min_scale);
    }
    return;
  }
  consecutive_overflows_ = 0;
  if (!dynamic_) return;
  if (options_.consecutive_hysteresis) hysteresis_ = options_.hysteresis;
  if (++clean_steps_ < options_.window) return;
  clean_steps_ = 0;
  hysteresis_ = options_.hysteresis;
  scale_ = std::min(scale_ * kFactor, kMaxScale);
}

}  // namespace zero
