// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plugin/optimizer/kernels/launch.h"
#include "plugin/optimizer/kernels/update_cuda.h"
#include "plugin/optimizer/kernels/update_rule.h"

namespace zero::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;  // loaded together, so that enough bytes are on their way
constexpr int kPerBlock = kThreads * kPerThread;
constexpr int kSegmentsPerLaunch = 40;
// A grid's largest x is 2^31 - 1; this many blocks are 2^40 elements.
constexpr int64_t kBlocksPerLaunch = int64_t{1} << 30;

struct CudaLane {
  using Value = float;
  static __device__ Value broadcast(float x) { return x; }
  static __device__ Value mul(Value a, Value b) { return __fmul_rn(a, b); }
  static __device__ Value fma(Value a, Value b, Value c) { return __fmaf_rn(a, b, c); }
  static __device__ Value div(Value a, Value b) { return __fdiv_rn(a, b); }
  static __device__ Value sqrt(Value a) { return __fsqrt_rn(a); }
  static __device__ Value larger(Value a, Value b) { return a > b || a != a ? a : b; }
  static __device__ Value load(const float* from) { return *from; }
  static __device__ void store(float* to, Value x) { *to = x; }
  static __device__ Value load_split(const uint16_t* high, const int16_t* low) {
    return __uint_as_float(join_bits({*high, *low}));
  }
  static __device__ void store_split(uint16_t* high, int16_t* low, Value x) {
    const SplitFloat parts = split_bits(__float_as_uint(x));
    *high = parts.high;
    *low = parts.low;
  }
};

struct Launch {
  Buffers buffers;
  const float* gradient_scale;
  int count = 0;
  unsigned first_block[kSegmentsPerLaunch + 1] = {};  // the last one is the number of blocks
  Segment segments[kSegmentsPerLaunch] = {};
};
static_assert(sizeof(Launch) <= 4096, "kernel arguments have 4 KiB on every device");

template <Rule kRule, bool kSplit>
__device__ void update_block(const Buffers& b, const Segment& segment, int64_t offset,
                             float gradient_scale) {
  const Scalars& s = segment.scalars;
  const int64_t end = segment.begin + segment.length;
  const int64_t first = segment.begin + offset + threadIdx.x;
  Element<CudaLane> elements[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = first + k * kThreads;
    if (i < end) elements[k] = load_element<CudaLane, kRule, kSplit>(b, s, i);
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = first + k * kThreads;
    if (i < end) {
      update_element<CudaLane, kRule>(s, gradient_scale, elements[k]);
      store_element<CudaLane, kRule, kSplit>(b, s, i, elements[k]);
    }
  }
}

template <bool kSplit>
__global__ void __launch_bounds__(kThreads) update_kernel(const __grid_constant__ Launch launch) {
  int index = 0;
  while (blockIdx.x >= launch.first_block[index + 1]) ++index;
  const Segment& segment = launch.segments[index];
  const int64_t offset = int64_t{blockIdx.x - launch.first_block[index]} * kPerBlock;
  const float scale = launch.gradient_scale == nullptr ? 1.0f : *launch.gradient_scale;
  switch (segment.rule) {
    case Rule::kAdam:
      return update_block<Rule::kAdam, kSplit>(launch.buffers, segment, offset, scale);
    case Rule::kAdamW:
      return update_block<Rule::kAdamW, kSplit>(launch.buffers, segment, offset, scale);
    case Rule::kSgd:
      return update_block<Rule::kSgd, kSplit>(launch.buffers, segment, offset, scale);
    case Rule::kAdagrad:
      return update_block<Rule::kAdagrad, kSplit>(launch.buffers, segment, offset, scale);
    case Rule::kRmsprop:
      return update_block<Rule::kRmsprop, kSplit>(launch.buffers, segment, offset, scale);
  }
}

void start(Launch& launch, cudaStream_t stream) {
  const unsigned blocks = launch.first_block[launch.count];
  if (launch.buffers.master != nullptr) {
    update_kernel<false><<<blocks, kThreads, 0, stream>>>(launch);
  } else {
    update_kernel<true><<<blocks, kThreads, 0, stream>>>(launch);
  }
  check_launch("update_cuda");
  launch.count = 0;
}

}  // namespace

void update_cuda(const Buffers& buffers, std::span<const Segment> segments,
                 const float* gradient_scale, cudaStream_t stream) {
  check_buffers(buffers, segments);
  Launch launch{buffers, gradient_scale};
  for (Segment rest : segments) {
    while (rest.length > 0) {
      const int64_t room = kBlocksPerLaunch - launch.first_block[launch.count];
      Segment& part = launch.segments[launch.count];
      part = rest;
      part.length = std::min(rest.length, room * kPerBlock);
      rest.begin += part.length;
      rest.length -= part.length;
      const int64_t blocks = (part.length + kPerBlock - 1) / kPerBlock;
      launch.first_block[launch.count + 1] =
          launch.first_block[launch.count] + static_cast<unsigned>(blocks);
      ++launch.count;
      if (launch.count == kSegmentsPerLaunch ||
          launch.first_block[launch.count] == kBlocksPerLaunch)
        start(launch, stream);
    }
  }
  if (launch.count > 0) start(launch, stream);
}

}  // namespace zero::kernels
