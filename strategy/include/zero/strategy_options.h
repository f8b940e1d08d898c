// SPDX-License-Identifier: Apache-2.0
// StrategyOptions: flags given in code. Chained like LibTorch's own options; remembers which flags
// were given.
//
//   zero::StrategyOptions().stage(3).offload_parameters(true).precision("bf16").page_bytes("16MiB")
//
// A setter takes exactly its type: stage(2.5) or offload_parameters("no") do not compile. Values
// that cannot be right are kept and reported by resolve(), together with everything else that is
// wrong.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "zero/engine_config.h"

namespace zero {

// The flags of one source: what was given, and what was wrong with it.
struct Flags {
  EngineConfig values;
  std::vector<std::string> problems;
};

// No conversion may change what the user wrote: bools from bools, whole numbers from whole numbers.
template <class V, class T>
concept FlagValue = (std::same_as<T, bool> && std::same_as<V, bool>) ||
                    (std::integral<T> && !std::same_as<T, bool> && std::integral<V> &&
                     !std::same_as<V, bool>) ||
                    (std::floating_point<T> && std::is_arithmetic_v<V> && !std::same_as<V, bool>) ||
                    (std::is_enum_v<T> && std::same_as<V, T>);

class StrategyOptions {
 public:
// flag(value) gives it, flag() tells the value that stands here.
#define ZERO_FLAG(T, flag)                  \
  template <FlagValue<T> V>                 \
  StrategyOptions& flag(V value) {          \
    give(#flag, flags_.values.flag, value); \
    return *this;                           \
  }                                         \
  T flag() const { return flags_.values.flag.peek(); }
// The same, and a text is understood as in a file.
#define ZERO_FLAG_OR_TEXT(T, flag)                 \
  ZERO_FLAG(T, flag)                               \
  StrategyOptions& flag(const std::string& text) { \
    give_text(#flag, text);                        \
    return *this;                                  \
  }

  ZERO_FLAG(int, stage)                    // 0 to 3
  ZERO_FLAG(bool, offload_parameters)      // pages live in host memory; stage 3
  ZERO_FLAG(bool, offload_optimizer)       // masters and moments live in host memory; stage >= 1
  ZERO_FLAG(bool, cpu_checkpointing)       // only false is accepted so far
  ZERO_FLAG(bool, partition_activations)   // only false is accepted so far
  ZERO_FLAG_OR_TEXT(Precision, precision)  // "fp32", "bf16"
  ZERO_FLAG(double, gradient_clipping)     // largest global 2-norm; 0: off
  ZERO_FLAG(int64_t, gradient_accumulation_steps)
  ZERO_FLAG_OR_TEXT(int64_t, page_bytes)        // "32MiB"
  ZERO_FLAG_OR_TEXT(int64_t, parameter_budget)  // "2GiB"; 0: automatic
  ZERO_FLAG(int64_t, prefetch_pages)
  ZERO_FLAG_OR_TEXT(int64_t, prefetch_bucket_size)         // elements; "5e7"
  ZERO_FLAG_OR_TEXT(int64_t, max_live_parameters)          // elements; 0: parameter_budget says it
  ZERO_FLAG_OR_TEXT(int64_t, max_reuse_distance)           // elements
  ZERO_FLAG_OR_TEXT(int64_t, persistence_threshold)        // elements
  ZERO_FLAG_OR_TEXT(int64_t, model_persistence_threshold)  // elements
  ZERO_FLAG_OR_TEXT(int64_t, reduce_bucket_size)           // elements
  ZERO_FLAG_OR_TEXT(int64_t, allgather_bucket_size)        // elements
  ZERO_FLAG_OR_TEXT(int64_t, sub_group_size)               // elements
  ZERO_FLAG(bool, overlap_comm)
  ZERO_FLAG(bool, reduce_scatter)
  ZERO_FLAG(bool, allgather_partitions)
  ZERO_FLAG_OR_TEXT(NumberType, communication_data_type)      // "fp32", "bf16", "fp16"
  ZERO_FLAG_OR_TEXT(NumberType, gradient_accumulation_dtype)  // "fp32", "bf16"
  ZERO_FLAG(bool, prescale_gradients)
  ZERO_FLAG(double, gradient_predivide_factor)
  ZERO_FLAG(bool, offload_parameters_pin_memory)
  ZERO_FLAG(bool, offload_optimizer_pin_memory)
  ZERO_FLAG(double, offload_optimizer_ratio)  // 0 to 1
  ZERO_FLAG(bool, wall_clock_breakdown)
  ZERO_FLAG(bool, zero_allow_untested_optimizer)
  ZERO_FLAG_OR_TEXT(DeviceChoice, device)         // "auto", "cpu", "cuda"
  ZERO_FLAG_OR_TEXT(UpdateKernel, update_kernel)  // "auto", "avx512", "avx2", "portable"
  ZERO_FLAG(int64_t, update_threads)              // 0: automatic

#undef ZERO_FLAG_OR_TEXT
#undef ZERO_FLAG

  const Flags& flags() const { return flags_; }

 private:
  template <class T, class V>
  void give(const char* flag, Setting<T>& setting, V value) {
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      if (!std::in_range<T>(value)) {
        flags_.problems.push_back(std::string("code: ") + flag + ": " + std::to_string(value) +
                                  " is far out of range");
        return;
      }
    }
    setting.set(static_cast<T>(value), {Source::kCode, "code", flag});
  }
  void give_text(const char* flag, const std::string& text);

  Flags flags_;
};

// Puts all sources together: default < preset < file < command line < code. `layers` may come in
// any order; of two with the same source the later wins. Throws ConfigError with everything that is
// wrong in any of them.
EngineConfig resolve(const StrategyOptions& code, std::vector<Flags> layers = {});

}  // namespace zero
