// SPDX-License-Identifier: Apache-2.0
// Page-shaped fp32 buffers between autograd and the reduction. Few are in use at once, because a
// page's bucket is free again as soon as its reduction has been enqueued; the ring grows to what
// the first backward needs and stays there. Not thread-safe; its owner locks.
#pragma once

#include <memory>
#include <vector>

#include "plugin/memory/buffers.h"
#include "plugin/memory/stream.h"

namespace zero {

class GradientBuckets {
 public:
  struct Bucket {
    explicit Bucket(at::Device device) : drained(device) {}
    Buffer memory;
    Event drained;  // the reduction that read the bucket before
  };

  GradientBuckets(Buffers& buffers, Ledger& ledger) : buffers_(buffers), ledger_(ledger) {}

  int64_t numel() const { return numel_; }
  // Buckets of `numel` elements from now on, enough for the largest page. None may be taken.
  void resize(int64_t numel);

  // A bucket whose contents are zero on the current stream.
  Bucket& take();
  // `bucket.drained` has been recorded behind its last reader.
  void give(Bucket& bucket) { free_.push_back(&bucket); }

 private:
  Buffers& buffers_;
  Ledger& ledger_;
  int64_t numel_ = 0;
  std::vector<std::unique_ptr<Bucket>> all_;
  std::vector<Bucket*> free_;
};

}  // namespace zero
