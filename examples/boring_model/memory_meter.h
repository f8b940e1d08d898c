// SPDX-License-Identifier: Apache-2.0
// Bytes that LibTorch holds on the device now.
#pragma once

#include <zero/strategy.h>

#include <cstdint>
#include <memory>

namespace boring {

// On a GPU: what the CUDA allocator has handed out. On the CPU there is one memory for everything:
// bytes that LibTorch has allocated on this thread since the meter was made, less what the strategy
// keeps for activations in host memory.
class MemoryMeter {
 public:
  explicit MemoryMeter(zero::Strategy& strategy);
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;
  ~MemoryMeter();

  int64_t bytes() const;
  void wait_for_device() const;

 private:
  class Counter;
  zero::Strategy& strategy_;
  std::shared_ptr<Counter> counter_;  // on the CPU
};

}  // namespace boring
