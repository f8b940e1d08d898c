// SPDX-License-Identifier: Apache-2.0
// The kernel of any processor, and what the others are tested against.
#include <bit>
#include <cmath>

#include "plugin/optimizer/kernels/lane_loops.h"

namespace zero::kernels {
namespace {

struct PortableLane {
  using Value = float;
  static constexpr int kWidth = 1;
  static Value broadcast(float x) { return x; }
  static Value mul(Value a, Value b) { return a * b; }
  static Value fma(Value a, Value b, Value c) { return std::fma(a, b, c); }
  static Value div(Value a, Value b) { return a / b; }
  static Value sqrt(Value a) { return std::sqrt(a); }
  static Value larger(Value a, Value b) { return a > b || a != a ? a : b; }
  static Value load(const float* from) { return *from; }
  static void store(float* to, Value x) { *to = x; }
  static Value load_split(const uint16_t* high, const int16_t* low) { return join({*high, *low}); }
  static void store_split(uint16_t* high, int16_t* low, Value x) {
    const SplitFloat parts = split(x);
    *high = parts.high;
    *low = parts.low;
  }
};

}  // namespace

constinit const IsaKernels kPortableKernels = kKernelsOf<PortableLane>;

}  // namespace zero::kernels
