// SPDX-License-Identifier: Apache-2.0
// What one instruction set's source file gives to the rest. Those files are compiled with flags
// that not every processor understands, so they must define no function that the linker could
// choose for another file: what is inline in them has a Lane of their own, in an unnamed namespace,
// as template argument or is always inlined.
#pragma once

#include <cstdint>

#include "plugin/optimizer/kernels/update.h"

namespace zero::kernels {

struct IsaKernels {
  // One segment on the calling thread.
  void (*update)(const Buffers& buffers, const Segment& segment, float gradient_scale);
  // One block of at most kNormBlock floats; see Note [Order of a sum of squares].
  double (*sum_of_squares)(const float* values, int64_t length);
};

extern const IsaKernels kPortableKernels;
#ifdef __x86_64__
extern const IsaKernels kAvx2Kernels;
extern const IsaKernels kAvx512Kernels;
#endif

// Throws std::invalid_argument for one that supported() denies.
const IsaKernels& kernels_for(Isa isa);

}  // namespace zero::kernels
