// SPDX-License-Identifier: Apache-2.0
#include "plugin/gradients/gradient_buckets.h"

namespace zero {

void GradientBuckets::resize(int64_t numel) {
  constexpr int64_t kInUseAtOnce = 2;  // one is filled while another one is reduced
  const int64_t more = kInUseAtOnce * (numel - numel_) * static_cast<int64_t>(sizeof(float));
  ledger_.predict(MemoryClass::kGradientBuckets, Place::kDevice, more);
  numel_ = numel;
  for (const auto& bucket : all_) bucket->drained.synchronize();
  free_.clear();
  all_.clear();
}

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
