// SPDX-License-Identifier: Apache-2.0
// Compiled with -mavx512f and its companions; isa_kernels.h says what that forbids here.
#include <immintrin.h>

#include "plugin/optimizer/kernels/lane_loops.h"

namespace zero::kernels {
namespace {

struct Avx512Lane {
  using Value = __m512;
  static constexpr int kWidth = 16;
  static Value broadcast(float x) { return _mm512_set1_ps(x); }
  static Value mul(Value a, Value b) { return _mm512_mul_ps(a, b); }
  static Value fma(Value a, Value b, Value c) { return _mm512_fmadd_ps(a, b, c); }
  static Value div(Value a, Value b) { return _mm512_div_ps(a, b); }
  static Value sqrt(Value a) { return _mm512_sqrt_ps(a); }
  static Value larger(Value a, Value b) {
    const __mmask16 keep = _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) | is_nan(a);
    return _mm512_mask_blend_ps(keep, b, a);
  }
  static Value load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Value x) { _mm512_storeu_ps(to, x); }

  static Value load_split(const uint16_t* high, const int16_t* low) {
    const __m512i upper = _mm512_slli_epi32(_mm512_cvtepu16_epi32(load_16x16(high)), 16);
    const __m512i lower = _mm512_cvtepi16_epi32(load_16x16(low));
    return _mm512_castsi512_ps(_mm512_add_epi32(upper, lower));
  }
  static void store_split(uint16_t* high, int16_t* low, Value x) {
    const __m512i nan = _mm512_set1_epi32(static_cast<int>(kQuietNan));
    const __m512i bits = _mm512_mask_blend_epi32(is_nan(x), _mm512_castps_si512(x), nan);
    const __m512i half = _mm512_set1_epi32(static_cast<int>(kHalfOfHigh));
    store_16x16(high, _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16));
    store_16x16(low, bits);
  }

 private:
  static __mmask16 is_nan(Value a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
  static __m256i load_16x16(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  // The low halves of sixteen 32-bit values.
  static void store_16x16(void* to, __m512i values) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_cvtepi32_epi16(values));
  }
};

}  // namespace

constinit const IsaKernels kAvx512Kernels = kKernelsOf<Avx512Lane>;

}  // namespace zero::kernels
