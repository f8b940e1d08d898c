// SPDX-License-Identifier: Apache-2.0
// Allocates the engine's own memory, zeroed, of exactly the size asked for, and books it.
//
// Device memory comes from LibTorch's allocator. Host memory that a GPU copies from and to is
// mapped by itself, backed by huge pages where the system has them, and registered with CUDA:
// LibTorch's pinned allocator rounds each block up to a power of two, and cudaHostAlloc took 3.8 s
// for 8 GiB where this way took 1.0 s.
#pragma once

#include <ATen/core/Tensor.h>

#include "plugin/memory/ledger.h"

namespace zero {

// A flat tensor and the booking of its bytes; both end together.
struct Buffer {
  at::Tensor tensor;  // 1-D
  Ledger::Booking booking;
};

// Which host memory is page-locked, so that a GPU copies from and to it at full speed and beside the
// host's work.
struct Pinning {
  bool parameters = true;  // homes of parameters
  bool optimizer = true;   // masters, moments, gradients and what is staged for them
};

class Buffers {
 public:
  Buffers(Ledger& ledger, at::Device device, Pinning pinning = {})
      : ledger_(ledger), device_(device), pinning_(pinning) {}

  // `numel` zeros of `dtype`. Throws when host memory cannot be mapped, with the class and the
  // size.
  [[nodiscard]] Buffer allocate(MemoryClass memory_class, Place place, int64_t numel,
                                at::ScalarType dtype);

  at::Device device() const { return device_; }
  at::Device device_of(Place place) const {
    return place == Place::kDevice ? device_ : at::Device(at::kCPU);
  }

 private:
  Ledger& ledger_;
  at::Device device_;
  Pinning pinning_;
};

// Fills in what LibTorch's CUDA allocator holds; nothing on the CPU.
void read_device(MemoryReport& report, at::Device device);

}  // namespace zero
