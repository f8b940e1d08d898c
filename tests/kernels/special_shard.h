// SPDX-License-Identifier: Apache-2.0
// A shard of zeros, denormals, large values, infinities and NaNs in every combination.
#pragma once

#include <limits>

#include "tests/kernels/shard.h"

namespace zero::kernels::testing {

inline constexpr float kTiny = std::numeric_limits<float>::denorm_min();

// Every pair of special weight and gradient, with moments that are special too.
inline Shard special_shard(Form form) {
  const std::vector<float> values = {0.0f,       -0.0f,     kTiny,
                                     -3 * kTiny, 1e-40f,    std::numeric_limits<float>::min(),
                                     1.0f,       -1e30f,    std::numeric_limits<float>::max(),
                                     INFINITY,   -INFINITY, NAN};
  Shard shard(static_cast<int64_t>(values.size() * values.size() * values.size()), form, 1);
  size_t i = 0;
  for (float weight : values) {
    for (float gradient : values) {
      for (float moment : values) {
        shard.master[i] = weight;
        if (form == Form::kSplit) {
          shard.high[i] = split(weight).high;
          shard.low[i] = split(weight).low;
        }
        shard.gradient[i] = gradient;
        shard.moment1[i] = moment;
        shard.moment2[i] = std::abs(moment);
        shard.moment3[i] = std::abs(weight);
        ++i;
      }
    }
  }
  return shard;
}

}  // namespace zero::kernels::testing
