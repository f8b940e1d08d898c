// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/kernels/norm.h"

#include <algorithm>
#include <vector>

#include "plugin/optimizer/kernels/float_mode.h"
#include "plugin/optimizer/kernels/isa_kernels.h"

namespace zero::kernels {
namespace {

// Blocks a thread takes at a time.
constexpr int64_t kBlocksPerChunk = 8;

double fold(const std::vector<double>& values) {
  double lanes[kNormLanes] = {};
  for (size_t i = 0; i < values.size(); ++i) lanes[i % kNormLanes] += values[i];
  for (int half = kNormLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace

double sum_of_squares_cpu(ThreadPool& pool, const float* values, int64_t length, Isa isa) {
  const IsaKernels& kernels = kernels_for(isa);
  const int64_t blocks = (length + kNormBlock - 1) / kNormBlock;
  std::vector<double> sums(static_cast<size_t>(blocks));
  pool.parallel_for((blocks + kBlocksPerChunk - 1) / kBlocksPerChunk, [&](int64_t chunk) {
    const DefaultFloatMode mode;
    const int64_t end = std::min(blocks, (chunk + 1) * kBlocksPerChunk);
    for (int64_t block = chunk * kBlocksPerChunk; block < end; ++block) {
      const int64_t begin = block * kNormBlock;
      sums[static_cast<size_t>(block)] =
          kernels.sum_of_squares(values + begin, std::min(kNormBlock, length - begin));
    }
  });
  const DefaultFloatMode mode;
  return fold(sums);
}

float clip_coefficient(double norm, double max_norm) {
  const double coefficient = max_norm / (norm + 1e-6);
  return static_cast<float>(coefficient > 1.0 ? 1.0 : coefficient);
}

}  // namespace zero::kernels
