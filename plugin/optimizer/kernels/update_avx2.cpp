// SPDX-License-Identifier: Apache-2.0
// Compiled with -mavx2 -mfma; isa_kernels.h says what that forbids here.
#include <immintrin.h>

#include "plugin/optimizer/kernels/lane_loops.h"

namespace zero::kernels {
namespace {

struct Avx2Lane {
  using Value = __m256;
  static constexpr int kWidth = 8;
  static Value broadcast(float x) { return _mm256_set1_ps(x); }
  static Value mul(Value a, Value b) { return _mm256_mul_ps(a, b); }
  static Value fma(Value a, Value b, Value c) { return _mm256_fmadd_ps(a, b, c); }
  static Value div(Value a, Value b) { return _mm256_div_ps(a, b); }
  static Value sqrt(Value a) { return _mm256_sqrt_ps(a); }
  static Value larger(Value a, Value b) {
    const Value keep = _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ), is_nan(a));
    return _mm256_blendv_ps(b, a, keep);
  }
  static Value load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Value x) { _mm256_storeu_ps(to, x); }

  static Value load_split(const uint16_t* high, const int16_t* low) {
    const __m256i upper = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_8x16(high)), 16);
    const __m256i lower = _mm256_cvtepi16_epi32(load_8x16(low));
    return _mm256_castsi256_ps(_mm256_add_epi32(upper, lower));
  }
  static void store_split(uint16_t* high, int16_t* low, Value x) {
    const __m256i nan = _mm256_set1_epi32(static_cast<int>(kQuietNan));
    const __m256i bits =
        _mm256_castps_si256(_mm256_blendv_ps(x, _mm256_castsi256_ps(nan), is_nan(x)));
    const __m256i half = _mm256_set1_epi32(static_cast<int>(kHalfOfHigh));
    store_8x16(high, _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16));
    store_8x16(low, _mm256_and_si256(bits, _mm256_set1_epi32(0xFFFF)));
  }

 private:
  static Value is_nan(Value a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
  static __m128i load_8x16(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
  // Eight 32-bit values below 65536.
  static void store_8x16(void* to, __m256i values) {
    const __m256i in_halves = _mm256_packus_epi32(values, values);
    const __m256i together = _mm256_permute4x64_epi64(in_halves, _MM_SHUFFLE(3, 1, 2, 0));
    _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_castsi256_si128(together));
  }
};

}  // namespace

constinit const IsaKernels kAvx2Kernels = kKernelsOf<Avx2Lane>;

}  // namespace zero::kernels
