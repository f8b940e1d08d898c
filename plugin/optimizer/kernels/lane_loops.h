// SPDX-License-Identifier: Apache-2.0
// The loops around a CPU Lane; the three instruction sets' source files instantiate them.
#pragma once

#include <cstring>

#include "plugin/optimizer/kernels/isa_kernels.h"
#include "plugin/optimizer/kernels/norm.h"
#include "plugin/optimizer/kernels/update_rule.h"

namespace zero::kernels {

// A vector's worth of every buffer, so that the last elements of a segment take the same
// instructions as all others.
template <class Lane>
struct Tail {
  float master[Lane::kWidth] = {}, gradient[Lane::kWidth] = {};
  float moment1[Lane::kWidth] = {}, moment2[Lane::kWidth] = {}, moment3[Lane::kWidth] = {};
  uint16_t high[Lane::kWidth] = {};
  int16_t low[Lane::kWidth] = {};

  Buffers buffers() { return {master, high, low, gradient, moment1, moment2, moment3}; }
};

template <class Lane, class T>
void copy_if_there(T* to, const T* from, int64_t count) {
  if (to != nullptr && from != nullptr) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  }
}

template <class Lane>
Buffers advanced(const Buffers& b, int64_t i) {
  const auto at = [i](auto* pointer) { return pointer == nullptr ? nullptr : pointer + i; };
  return {at(b.master),  at(b.high),    at(b.low),    at(b.gradient),
          at(b.moment1), at(b.moment2), at(b.moment3)};
}

template <class Lane, Rule kRule, bool kSplit>
void update_tail(const Buffers& b, const Scalars& s, int64_t count, float gradient_scale) {
  Tail<Lane> tail;
  const Buffers t = tail.buffers();
  copy_if_there<Lane>(t.master, b.master, count);
  copy_if_there<Lane>(t.high, b.high, count);
  copy_if_there<Lane>(t.low, b.low, count);
  copy_if_there<Lane>(tail.gradient, b.gradient, count);
  copy_if_there<Lane>(t.moment1, b.moment1, count);
  copy_if_there<Lane>(t.moment2, b.moment2, count);
  copy_if_there<Lane>(t.moment3, b.moment3, count);
  auto element = load_element<Lane, kRule, kSplit>(t, s, 0);
  update_element<Lane, kRule>(s, gradient_scale, element);
  store_element<Lane, kRule, kSplit>(t, s, 0, element);
  copy_if_there<Lane>(b.master, t.master, count);
  copy_if_there<Lane>(b.high, t.high, count);
  copy_if_there<Lane>(b.low, t.low, count);
  copy_if_there<Lane>(b.moment1, t.moment1, count);
  copy_if_there<Lane>(b.moment2, t.moment2, count);
  copy_if_there<Lane>(b.moment3, t.moment3, count);
}

template <class Lane, Rule kRule, bool kSplit>
void update_elements(const Buffers& b, const Segment& segment, float gradient_scale) {
  const Scalars s = segment.scalars;  // a copy that no store can reach, so it stays in registers
  const int64_t end = segment.begin + segment.length;
  int64_t i = segment.begin;
  for (; i + Lane::kWidth <= end; i += Lane::kWidth) {
    auto element = load_element<Lane, kRule, kSplit>(b, s, i);
    update_element<Lane, kRule>(s, gradient_scale, element);
    store_element<Lane, kRule, kSplit>(b, s, i, element);
  }
  if (i < end) update_tail<Lane, kRule, kSplit>(advanced<Lane>(b, i), s, end - i, gradient_scale);
}

template <class Lane, Rule kRule>
void update_form(const Buffers& b, const Segment& segment, float gradient_scale) {
  if (b.master != nullptr) {
    update_elements<Lane, kRule, false>(b, segment, gradient_scale);
  } else {
    update_elements<Lane, kRule, true>(b, segment, gradient_scale);
  }
}

template <class Lane>
void update_segment(const Buffers& b, const Segment& segment, float gradient_scale) {
  switch (segment.rule) {
    case Rule::kAdam:
      return update_form<Lane, Rule::kAdam>(b, segment, gradient_scale);
    case Rule::kAdamW:
      return update_form<Lane, Rule::kAdamW>(b, segment, gradient_scale);
    case Rule::kSgd:
      return update_form<Lane, Rule::kSgd>(b, segment, gradient_scale);
    case Rule::kAdagrad:
      return update_form<Lane, Rule::kAdagrad>(b, segment, gradient_scale);
    case Rule::kRmsprop:
      return update_form<Lane, Rule::kRmsprop>(b, segment, gradient_scale);
  }
}

// The compiler makes vectors of it; the lanes are independent, so it cannot change the order.
template <class Lane>
double sum_of_squares_block(const float* values, int64_t length) {
  double lanes[kNormLanes] = {};
  int64_t row = 0;
  for (; row + kNormLanes <= length; row += kNormLanes) {
    for (int lane = 0; lane < kNormLanes; ++lane) {
      const double value = values[row + lane];
      lanes[lane] += value * value;
    }
  }
  for (int lane = 0; lane < length - row; ++lane) {
    const double value = values[row + lane];
    lanes[lane] += value * value;
  }
  for (int half = kNormLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

template <class Lane>
inline constexpr IsaKernels kKernelsOf = {update_segment<Lane>, sum_of_squares_block<Lane>};

}  // namespace zero::kernels
