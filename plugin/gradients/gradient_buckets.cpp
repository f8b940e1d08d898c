// SPDX-License-Identifier: Apache-2.0
#include "plugin/gradients/gradient_buckets.h"

namespace zero {

GradientBuckets::Bucket& GradientBuckets::take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Bucket>(buffers_.device()));
    all_.back()->memory =
        buffers_.allocate(MemoryClass::kGradientBuckets, Place::kDevice, numel_, at::kFloat);
    return *all_.back();
  }
  Bucket& bucket = *free_.front();
  free_.erase(free_.begin());
  bucket.drained.wait();
  bucket.memory.tensor.zero_();
  return bucket;
}

}  // namespace zero
