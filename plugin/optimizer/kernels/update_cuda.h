// SPDX-License-Identifier: Apache-2.0
// The CUDA twins of update.h and norm.h: the same bits, on device buffers. In builds with
// LIBZERO_CUDA only.
//
// Each call enqueues on `stream` of the current device and returns: no allocation, no
// synchronisation, nothing read on the host but the arguments. All pointers are device pointers,
// and live until the stream has passed the work. A launch that CUDA refuses throws
// std::runtime_error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "plugin/optimizer/kernels/update.h"

namespace zero::kernels {

// As update_cpu. The scale is read on the device when the update runs, so that it may come from
// clip_coefficient_cuda before it; null means 1. Segments travel as kernel arguments, some forty a
// launch.
void update_cuda(const Buffers& buffers, std::span<const Segment> segments,
                 const float* gradient_scale, cudaStream_t stream);

// How many doubles of scratch a sum over `length` floats needs.
int64_t sum_of_squares_scratch(int64_t length);

// Adds the sum of squares to *result, so that several shards make one sum in the stream's order;
// set it to zero first.
void sum_of_squares_cuda(const float* values, int64_t length, double* scratch, double* result,
                         cudaStream_t stream);

// *norm = sqrt(*sum_of_squares); *coefficient = clip_coefficient(*norm, max_norm).
void clip_coefficient_cuda(const double* sum_of_squares, double max_norm, float* coefficient,
                           double* norm, cudaStream_t stream);

}  // namespace zero::kernels
