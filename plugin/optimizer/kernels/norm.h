// SPDX-License-Identifier: Apache-2.0
// The gradient norm, in an order that nothing but the length decides.
//
// Note [Order of a sum of squares]
// Blocks of 8192 floats; in a block, lane l of 256 adds elements l, l + 256, ... in double, then
// the lanes are folded: lane l takes lane l + 128, then l + 64, ..., l + 1. The block sums are
// added by 256 lanes and folded in the same way. A float's square is exact in double, so it does
// not matter whether multiply and add are fused. CPU and CUDA give the same bits.
#pragma once

#include <cstdint>

#include "plugin/optimizer/kernels/thread_pool.h"
#include "plugin/optimizer/kernels/update.h"

namespace zero::kernels {

inline constexpr int64_t kNormBlock = 8192;  // floats
inline constexpr int kNormLanes = 256;

// The sum of squares of `values`, whatever the number of threads and the instruction set. An
// infinity or NaN among the values gives infinity or NaN; finite floats never overflow. The
// caller's floating-point mode does not matter.
double sum_of_squares_cpu(ThreadPool& pool, const float* values, int64_t length,
                          Isa isa = best_isa());

// What LibTorch's clip_grad_norm_ multiplies gradients with: max_norm / (norm + 1e-6), at most 1.
// NaN for a NaN norm.
float clip_coefficient(double norm, double max_norm);

}  // namespace zero::kernels
