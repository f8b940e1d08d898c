// SPDX-License-Identifier: Apache-2.0
#include "examples/boring_model/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/cuda.h>

#include <atomic>

namespace boring {

// LibTorch tells a profiler of each allocation.
class MemoryMeter::Counter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, int64_t size, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device device) override {
    if (device.is_cpu()) bytes_ += size;
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t bytes() const { return bytes_; }

 private:
  std::atomic<int64_t> bytes_{0};
};

MemoryMeter::MemoryMeter(zero::Strategy& strategy) : strategy_(strategy) {
  if (!strategy_.device().is_cpu()) return;
  counter_ = std::make_shared<Counter>();
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, counter_);
}

MemoryMeter::~MemoryMeter() {
  if (counter_) c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
}

int64_t MemoryMeter::bytes() const {
  const zero::MemoryReport report = strategy_.memory_report();
  if (!counter_) return report.device_allocated;
  return counter_->bytes() - report.booked[static_cast<int>(zero::MemoryClass::kActivations)].host;
}

void MemoryMeter::wait_for_device() const {
  if (strategy_.device().is_cuda()) torch::cuda::synchronize(strategy_.device().index());
}

}  // namespace boring
