// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plugin/optimizer/kernels/launch.h"
#include "plugin/optimizer/kernels/norm.h"
#include "plugin/optimizer/kernels/update_cuda.h"

namespace zero::kernels {
namespace {

// Thread l is lane l of Note [Order of a sum of squares]. The sum is thread 0's.
__device__ double fold(double sum) {
  __shared__ double lanes[kNormLanes];
  lanes[threadIdx.x] = sum;
  for (int half = kNormLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      lanes[threadIdx.x] = __dadd_rn(lanes[threadIdx.x], lanes[threadIdx.x + half]);
    }
  }
  return lanes[0];
}

__global__ void __launch_bounds__(kNormLanes)
    square_blocks(const float* __restrict__ values, int64_t length, double* __restrict__ sums) {
  const int64_t begin = int64_t{blockIdx.x} * kNormBlock;
  double sum = 0;
#pragma unroll
  for (int row = 0; row < kNormBlock / kNormLanes; ++row) {
    const int64_t i = begin + row * kNormLanes + threadIdx.x;
    // A zero where the values end changes no bit: no lane is ever -0.
    const double value = i < length ? values[i] : 0.0f;
    sum = __dadd_rn(sum, __dmul_rn(value, value));
  }
  sum = fold(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kNormLanes)
    add_blocks(const double* __restrict__ sums, int64_t count, double* __restrict__ result) {
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += kNormLanes) sum = __dadd_rn(sum, sums[i]);
  sum = fold(sum);
  if (threadIdx.x == 0) *result = __dadd_rn(*result, sum);
}

__global__ void clip(const double* sum_of_squares, double max_norm, float* coefficient,
                     double* norm) {
  *norm = __dsqrt_rn(*sum_of_squares);
  const double ratio = __ddiv_rn(max_norm, __dadd_rn(*norm, 1e-6));
  *coefficient = __double2float_rn(ratio > 1.0 ? 1.0 : ratio);
}

}  // namespace

int64_t sum_of_squares_scratch(int64_t length) { return (length + kNormBlock - 1) / kNormBlock; }

void sum_of_squares_cuda(const float* values, int64_t length, double* scratch, double* result,
                         cudaStream_t stream) {
  const int64_t blocks = sum_of_squares_scratch(length);
  if (blocks == 0) return;
  square_blocks<<<static_cast<unsigned>(blocks), kNormLanes, 0, stream>>>(values, length, scratch);
  check_launch("sum_of_squares_cuda");
  add_blocks<<<1, kNormLanes, 0, stream>>>(scratch, blocks, result);
  check_launch("sum_of_squares_cuda");
}

void clip_coefficient_cuda(const double* sum_of_squares, double max_norm, float* coefficient,
                           double* norm, cudaStream_t stream) {
  clip<<<1, 1, 0, stream>>>(sum_of_squares, max_norm, coefficient, norm);
  check_launch("clip_coefficient_cuda");
}

}  // namespace zero::kernels
