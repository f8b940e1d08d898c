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
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "zero/run_config.h"

namespace zero {

// The flags of one source: what was given, and what was wrong with it.
struct Flags {
  RunConfig values;
  std::vector<std::string> problems;

  // What was taken in another way than it was written, or does nothing here, and why.
  struct Notice {
    std::string where;
    std::string key;
    std::string says;
    int acts_at_stage = 0;  // below, that is what is said
  };
  std::vector<Notice> notices;

  // `bf16.enabled: false` sets no precision, but takes bf16 back from a weaker source.
  struct Denial {
    std::string setting;
    std::string value;
    Provenance from;
  };
  std::vector<Denial> denials;
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
#define ZERO_FLAG(T, flag)                         \
  template <FlagValue<T> V>                        \
  StrategyOptions& flag(V value) {                 \
    give(#flag, flags_.values.engine.flag, value); \
    return *this;                                  \
  }                                                \
  T flag() const { return flags_.values.engine.flag.peek(); }
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
  ZERO_FLAG(bool, cpu_checkpointing)       // activations that are kept live in host memory
  ZERO_FLAG(bool, partition_activations)   // and are split over the model-parallel group
  ZERO_FLAG(int64_t, model_parallel_size)  // consecutive ranks with the same activations
  ZERO_FLAG(bool, contiguous_memory_optimization)
  ZERO_FLAG(int64_t, number_checkpoints)
  ZERO_FLAG(bool, synchronize_checkpoint_boundary)
  ZERO_FLAG(bool, profile_activations)
  ZERO_FLAG(double, activation_offload_ratio)               // 0 to 1
  ZERO_FLAG_OR_TEXT(int64_t, activation_offload_threshold)  // "256KiB"
  ZERO_FLAG_OR_TEXT(Precision, precision)                   // "fp32", "bf16", "fp16"
  ZERO_FLAG(double, loss_scale)                             // of fp16; 0: dynamic
  ZERO_FLAG(int64_t, initial_scale_power)
  ZERO_FLAG(int64_t, loss_scale_window)
  ZERO_FLAG(int64_t, hysteresis)
  ZERO_FLAG(bool, consecutive_hysteresis)
  ZERO_FLAG(double, min_loss_scale)
  ZERO_FLAG(int64_t, max_consecutive_overflows)
  ZERO_FLAG_OR_TEXT(NonfiniteGradients, nonfinite_gradients)  // "skip", "error", "apply"
  ZERO_FLAG(double, gradient_clipping)                        // largest global 2-norm; 0: off
  ZERO_FLAG(int64_t, gradient_accumulation_steps)
  ZERO_FLAG(int64_t, train_batch_size)                // samples a step of all ranks
  ZERO_FLAG(int64_t, train_micro_batch_size_per_gpu)  // samples a backward of one rank
  ZERO_FLAG_OR_TEXT(int64_t, page_bytes)              // "32MiB"
  ZERO_FLAG_OR_TEXT(int64_t, parameter_budget)        // "2GiB"; 0: automatic
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

// What is wrong with these flags whatever else is given: what could not be read, and values that
// cannot be right by themselves.
std::vector<std::string> problems_of(const Flags& flags);

// What surrounds a configuration, as far as it is known.
struct Surroundings {
  std::optional<int> world_size;  // checks and fills the three batch numbers
};

struct Resolved {
  RunConfig config;
  // One line each: what was translated, rounded, decided elsewhere or acts at another stage only.
  std::vector<std::string> notices;
};

// Puts all sources together: default < preset < file < environment < command line < code. `layers`
// may come in any order; of two with the same source the later wins. Throws ConfigError with
// everything that is wrong in any of them.
Resolved resolve_all(const StrategyOptions& code, std::vector<Flags> layers = {},
                     const Surroundings& around = {});
// The engine's part alone.
EngineConfig resolve(const StrategyOptions& code, std::vector<Flags> layers = {});

}  // namespace zero
