// SPDX-License-Identifier: Apache-2.0
// The split form of an fp32 master weight: `high` is the bf16 weight that forward and backward
// compute with, `low` is what must be added to it to get the exact fp32 value back. Together 4
// bytes, where a master and a copy take 6.
//
//   high = the fp32 bits rounded to the nearest bf16, ties away from zero
//   low  = the 16 bits that rounding took away, as a signed difference in units of the fp32's last
//   place
//
// join(split(x)) == x bit for bit for every zero, denormal, normal and infinity. A finite x that no
// bf16 is near enough to (above 3.39e38) has high = infinity, as rounding demands, and still joins
// to x. Every NaN becomes the one quiet NaN 0x7FC00000: with its payload kept, rounding could turn
// it into an infinity or a zero.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define ZERO_LANE_INLINE __host__ __device__ __forceinline__
#else
#define ZERO_LANE_INLINE [[gnu::always_inline]] inline
#endif

namespace zero::kernels {

inline constexpr uint32_t kQuietNan = 0x7FC00000u;
inline constexpr uint32_t kHalfOfHigh = 0x8000u;

struct SplitFloat {
  uint16_t high;  // bf16 bits
  int16_t low;
};

ZERO_LANE_INLINE SplitFloat split_bits(uint32_t bits) {
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) bits = kQuietNan;
  return {static_cast<uint16_t>((bits + kHalfOfHigh) >> 16), static_cast<int16_t>(bits)};
}

ZERO_LANE_INLINE uint32_t join_bits(SplitFloat value) {
  return (static_cast<uint32_t>(value.high) << 16) +
         static_cast<uint32_t>(static_cast<int32_t>(value.low));
}

inline SplitFloat split(float value) { return split_bits(std::bit_cast<uint32_t>(value)); }
inline float join(SplitFloat value) { return std::bit_cast<float>(join_bits(value)); }

}  // namespace zero::kernels
