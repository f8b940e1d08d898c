// SPDX-License-Identifier: Apache-2.0
// The formulas, once. They are written over a Lane, which is one float (portable, CUDA) or a vector
// of them; see Note [Same bits everywhere] in update.h. A Lane has:
//
//   Value, kWidth                      kWidth floats (the CPU loops ask for kWidth, CUDA has 1)
//   broadcast(float)                   the same float in all
//   mul, fma(a, b, c) = a * b + c, div, sqrt     correctly rounded, fma once; no approximations
//   larger(a, b)                       a if a > b or a is NaN, else b
//   load, store                        kWidth floats, unaligned
//   load_split, store_split            kWidth weights in the form of split_master.h, unaligned
//
// What is never used is not read: a buffer that a rule does not need may be null.
#pragma once

#include "plugin/optimizer/kernels/split_master.h"
#include "plugin/optimizer/kernels/update.h"

namespace zero::kernels {

template <class Lane>
struct Element {
  typename Lane::Value weight, gradient, moment1, moment2, moment3;
};

//   g  = g + weight_decay * p                            Adam with weight decay
//   p  = p * decay                                       AdamW
//   m  = beta1 * m + (1 - beta1) * g
//   v  = beta2 * v + ((1 - beta2) * g) * g
//   v' = max(v', v) with amsgrad, else v
//   p  = p - step_size * (m / (sqrt(v') * inverse_root_correction2 + eps))
template <class Lane, bool kDecoupled>
ZERO_LANE_INLINE void apply_adam(const Scalars& s, Element<Lane>& e) {
  if constexpr (kDecoupled) {
    e.weight = Lane::mul(e.weight, Lane::broadcast(s.decay));
  } else if (s.weight_decay != 0) {
    e.gradient = Lane::fma(Lane::broadcast(s.weight_decay), e.weight, e.gradient);
  }
  const auto new1 = Lane::mul(Lane::broadcast(s.one_minus_beta1), e.gradient);
  e.moment1 = Lane::fma(Lane::broadcast(s.beta1), e.moment1, new1);
  const auto scaled = Lane::mul(Lane::broadcast(s.one_minus_beta2), e.gradient);
  const auto new2 = Lane::mul(scaled, e.gradient);
  e.moment2 = Lane::fma(Lane::broadcast(s.beta2), e.moment2, new2);
  auto second = e.moment2;
  if (s.amsgrad) {
    e.moment3 = Lane::larger(e.moment3, e.moment2);
    second = e.moment3;
  }
  const auto denominator = Lane::fma(
      Lane::sqrt(second), Lane::broadcast(s.inverse_root_correction2), Lane::broadcast(s.eps));
  const auto direction = Lane::div(e.moment1, denominator);
  e.weight = Lane::fma(Lane::broadcast(-s.step_size), direction, e.weight);
}

//   g = g + weight_decay * p                             with weight decay
//   b = g on the first step, else momentum * b + (1 - dampening) * g
//   d = g + momentum * b with nesterov, b with momentum, else g
//   p = p - step_size * d
template <class Lane>
ZERO_LANE_INLINE void apply_sgd(const Scalars& s, Element<Lane>& e) {
  if (s.weight_decay != 0) {
    e.gradient = Lane::fma(Lane::broadcast(s.weight_decay), e.weight, e.gradient);
  }
  auto direction = e.gradient;
  if (s.momentum != 0) {
    if (s.first_step) {
      e.moment1 = e.gradient;
    } else {
      const auto fresh = Lane::mul(Lane::broadcast(s.one_minus_dampening), e.gradient);
      e.moment1 = Lane::fma(Lane::broadcast(s.momentum), e.moment1, fresh);
    }
    direction =
        s.nesterov ? Lane::fma(Lane::broadcast(s.momentum), e.moment1, e.gradient) : e.moment1;
  }
  e.weight = Lane::fma(Lane::broadcast(-s.step_size), direction, e.weight);
}

//   g = g + weight_decay * p                             with weight decay
//   a = a + g * g
//   p = p - step_size * (g / (sqrt(a) + eps))
template <class Lane>
ZERO_LANE_INLINE void apply_adagrad(const Scalars& s, Element<Lane>& e) {
  if (s.weight_decay != 0) {
    e.gradient = Lane::fma(Lane::broadcast(s.weight_decay), e.weight, e.gradient);
  }
  e.moment2 = Lane::fma(e.gradient, e.gradient, e.moment2);
  const auto denominator =
      Lane::fma(Lane::sqrt(e.moment2), Lane::broadcast(1.0f), Lane::broadcast(s.eps));
  const auto direction = Lane::div(e.gradient, denominator);
  e.weight = Lane::fma(Lane::broadcast(-s.step_size), direction, e.weight);
}

//   g = g + weight_decay * p                             with weight decay
//   v = beta2 * v + ((1 - beta2) * g) * g
//   m = beta2 * m + (1 - beta2) * g                      centered
//   s = v - m * m when centered, else v
//   d = g / (sqrt(s) + eps)
//   b = momentum * b + d, d = b                          with momentum
//   p = p - step_size * d
template <class Lane>
ZERO_LANE_INLINE void apply_rmsprop(const Scalars& s, Element<Lane>& e) {
  if (s.weight_decay != 0) {
    e.gradient = Lane::fma(Lane::broadcast(s.weight_decay), e.weight, e.gradient);
  }
  const auto scaled = Lane::mul(Lane::broadcast(s.one_minus_beta2), e.gradient);
  e.moment2 = Lane::fma(Lane::broadcast(s.beta2), e.moment2, Lane::mul(scaled, e.gradient));
  auto square = e.moment2;
  if (s.centered) {
    e.moment3 = Lane::fma(Lane::broadcast(s.beta2), e.moment3, scaled);
    const auto negative = Lane::mul(Lane::broadcast(-1.0f), e.moment3);
    square = Lane::fma(negative, e.moment3, square);
  }
  const auto denominator =
      Lane::fma(Lane::sqrt(square), Lane::broadcast(1.0f), Lane::broadcast(s.eps));
  auto direction = Lane::div(e.gradient, denominator);
  if (s.momentum != 0) {
    e.moment1 = Lane::fma(Lane::broadcast(s.momentum), e.moment1, direction);
    direction = e.moment1;
  }
  e.weight = Lane::fma(Lane::broadcast(-s.step_size), direction, e.weight);
}

// Which moments an element's update reads and writes. SGD's first step writes its buffer without
// reading it.
template <Rule kRule>
ZERO_LANE_INLINE constexpr bool uses_moment1(const Scalars& s) {
  if constexpr (kRule == Rule::kSgd || kRule == Rule::kRmsprop) return s.momentum != 0;
  return kRule != Rule::kAdagrad;
}
template <Rule kRule>
ZERO_LANE_INLINE constexpr bool uses_moment2() {
  return kRule != Rule::kSgd;
}
template <Rule kRule>
ZERO_LANE_INLINE constexpr bool uses_moment3(const Scalars& s) {
  if constexpr (kRule == Rule::kRmsprop) return s.centered;
  if constexpr (kRule == Rule::kAdam || kRule == Rule::kAdamW) return s.amsgrad;
  return false;
}

template <class Lane, Rule kRule, bool kSplit>
ZERO_LANE_INLINE Element<Lane> load_element(const Buffers& b, const Scalars& s, int64_t i) {
  const auto zero = Lane::broadcast(0.0f);
  Element<Lane> e{zero, zero, zero, zero, zero};
  if constexpr (kSplit) {
    e.weight = Lane::load_split(b.high + i, b.low + i);
  } else {
    e.weight = Lane::load(b.master + i);
  }
  e.gradient = Lane::load(b.gradient + i);
  if (uses_moment1<kRule>(s) && !s.first_step) e.moment1 = Lane::load(b.moment1 + i);
  if (uses_moment2<kRule>()) e.moment2 = Lane::load(b.moment2 + i);
  if (uses_moment3<kRule>(s)) e.moment3 = Lane::load(b.moment3 + i);
  return e;
}

template <class Lane, Rule kRule>
ZERO_LANE_INLINE void update_element(const Scalars& s, float gradient_scale, Element<Lane>& e) {
  e.gradient = Lane::mul(e.gradient, Lane::broadcast(gradient_scale));
  if constexpr (kRule == Rule::kSgd) {
    apply_sgd<Lane>(s, e);
  } else if constexpr (kRule == Rule::kAdagrad) {
    apply_adagrad<Lane>(s, e);
  } else if constexpr (kRule == Rule::kRmsprop) {
    apply_rmsprop<Lane>(s, e);
  } else {
    apply_adam<Lane, kRule == Rule::kAdamW>(s, e);
  }
}

template <class Lane, Rule kRule, bool kSplit>
ZERO_LANE_INLINE void store_element(const Buffers& b, const Scalars& s, int64_t i,
                                    const Element<Lane>& e) {
  if constexpr (kSplit) {
    Lane::store_split(b.high + i, b.low + i, e.weight);
  } else {
    Lane::store(b.master + i, e.weight);
  }
  if (uses_moment1<kRule>(s)) Lane::store(b.moment1 + i, e.moment1);
  if (uses_moment2<kRule>()) Lane::store(b.moment2 + i, e.moment2);
  if (uses_moment3<kRule>(s)) Lane::store(b.moment3 + i, e.moment3);
}

}  // namespace zero::kernels
