// SPDX-License-Identifier: Apache-2.0
// Every byte the engine holds, by class: what was predicted from the config and the model before
// allocating, what is booked now, and what the process and the device really use.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace zero {

enum class MemoryClass : uint8_t {
  kParameterHome,    // this rank's part of the compute weights, or the whole of it below stage 3
  kParameterSlots,   // room for whole pages while they are in use
  kMaster,           // fp32 master weights, or the low halves that complete bf16 weights
  kMoments,          // optimizer state
  kGradientHome,     // reduced gradients between backward and step
  kGradientBuckets,  // page-shaped buffers between autograd and the reduction
  kStaging,          // pinned buffers for copies between device and host
  kActivations,      // what regions keep of their arguments, and saved activations that were moved:
                     // at home in host memory, and on the device on their way
};
inline constexpr int kMemoryClasses = 8;
std::string_view name_of(MemoryClass memory_class);

struct MemoryBytes {
  int64_t device = 0;  // bytes on the compute device
  int64_t host = 0;    // bytes in host memory; on a CPU rank both columns are host memory
  int64_t pinned =
      0;  // those of `host` asked to be page-locked; without a GPU nobody needs them so
};

// Pages that came and went since setup.
struct PagingCounters {
  int64_t faults = 0;       // brought in because an operator needed them now
  int64_t prefetches = 0;   // brought in ahead of their use
  int64_t evictions = 0;    // sent home to make room
  int64_t releases = 0;     // sent home right after their use (max_reuse_distance)
  int64_t write_backs = 0;  // carried home with in-place writes
};

// What has gone between ranks since setup. Bytes are those that this rank has received.
struct TrafficCounters {
  int64_t reductions = 0;  // collectives that summed gradients
  int64_t reduced_bytes = 0;
  // Pages reduced on a stream of their own (overlap_comm). On the CPU there is only one: they are
  // counted as asked for, and run in order.
  int64_t side_reductions = 0;
  int64_t weight_gathers = 0;  // collectives that brought updated weights to pages that stay whole
  int64_t gathered_bytes = 0;
};

struct MemoryReport {
  std::array<MemoryBytes, kMemoryClasses> predicted{};
  std::array<MemoryBytes, kMemoryClasses> booked{};
  int64_t live_parameter_bytes = 0;       // bytes of whole pages resident now
  int64_t permanent_parameter_bytes = 0;  // those of them that never leave
  int64_t peak_live_parameter_bytes = 0;  // the largest that has been since setup
  PagingCounters paging;
  TrafficCounters traffic;
  int64_t process_rss = 0;            // bytes, from the operating system
  int64_t process_peak_rss = 0;       // bytes
  int64_t device_allocated = 0;       // bytes, from the CUDA caching allocator; 0 on the CPU
  int64_t device_peak_allocated = 0;  // bytes
  MemoryBytes total_booked() const;
  std::string table() const;  // one line a class
};

}  // namespace zero
