// SPDX-License-Identifier: Apache-2.0
// EngineConfig: the typed result of all flags, and the record of which part of the engine has read
// them.
//
// Each setting knows its value, where the value came from and who has read it. Rooms of the engine
// call `config.page_bytes.read(Consumer::kPaging)`; reports call `peek()`. After the first step
// unread_settings() names every flag that was given and that its consumer has not read, so no flag
// can be without effect in silence. The defaults stand here; names, ranges, help and consumers
// stand in plugin/config/field_table.cpp.
//
// Threads: any number of threads may read and peek at the same time; set() and assignment need the
// object alone. A copy starts with what was recorded in the original and goes its own way; rooms
// therefore hold a reference.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace zero {

enum class Precision : uint8_t { kFp32, kBf16, kFp16 };
// What numbers are kept or sent in.
enum class NumberType : uint8_t { kFp32, kBf16, kFp16 };
enum class DeviceChoice : uint8_t { kAuto, kCpu, kCuda };
// What a step does whose gradients hold an infinity or a NaN on some rank.
enum class NonfiniteGradients : uint8_t { kSkip, kError, kApply };
enum class UpdateKernel : uint8_t { kAuto, kAvx512, kAvx2, kPortable };

// Later ones win over earlier ones.
enum class Source : uint8_t { kDefault, kPreset, kFile, kEnvironment, kCommandLine, kCode };

struct Provenance {
  Source source = Source::kDefault;
  std::string where =
      "default";          // "configs/x.yaml:3:8", "preset zero_stage_2", "--stage=3", "code"
  std::string flag = {};  // the name as the user spelled it; empty where nobody did
};

// The part of the engine that acts on a setting.
enum class Consumer : uint8_t {
  kPartition,
  kPaging,
  kGradients,
  kOptimizer,
  kActivations,
  kMemory,
  kStrategy,  // what is checked and derived before the engine starts
  kScheduler,
  kTrainer,
};
const char* name_of(Consumer consumer);

template <class T>
class Setting {
 public:
  Setting(T value) : value_(std::move(value)) {}  // NOLINT: a default is written as a plain value
  Setting(const Setting& other)
      : value_(other.value_),
        provenance_(other.provenance_),
        automatic_(other.automatic_),
        readers_(other.readers_.load()) {}
  Setting& operator=(const Setting& other) {
    value_ = other.value_;
    provenance_ = other.provenance_;
    automatic_ = other.automatic_;
    readers_ = other.readers_.load();
    return *this;
  }

  // The engine's read: records that `by` has it.
  const T& read(Consumer by) const {
    readers_.fetch_or(bit(by), std::memory_order_relaxed);
    return value_;
  }
  // For reports and checks: records nothing.
  const T& peek() const { return value_; }

  // Somebody chose this value, even if it equals the default.
  bool given() const { return provenance_.source != Source::kDefault; }
  const Provenance& provenance() const { return provenance_; }
  bool read_by(Consumer by) const {
    return (readers_.load(std::memory_order_relaxed) & bit(by)) != 0;
  }

  // A new value has no readers yet.
  void set(T value, Provenance provenance) {
    value_ = std::move(value);
    provenance_ = std::move(provenance);
    automatic_ = false;
    readers_ = 0;
  }

  // "auto" was written: the value comes from the model, the loader or the optimizer, by fill(),
  // before anybody reads it.
  void set_auto(Provenance provenance) {
    set(std::move(value_), std::move(provenance));
    automatic_ = true;
  }
  bool automatic() const { return automatic_; }
  // `from`: what the value was taken from.
  void fill(T value, const std::string& from) {
    value_ = std::move(value);
    provenance_.where += ", auto from " + from;
    automatic_ = false;
  }

 private:
  static uint32_t bit(Consumer by) { return 1U << static_cast<uint32_t>(by); }

  T value_;
  Provenance provenance_;
  bool automatic_ = false;
  mutable std::atomic<uint32_t> readers_{0};  // one bit a Consumer
};

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// What the engine is built from. 0 is plain data parallel training; who wants partitioning says so.
struct EngineConfig {
  Setting<int> stage{0};
  Setting<bool> offload_parameters{false};
  Setting<bool> offload_optimizer{false};
  Setting<bool> cpu_checkpointing{false};
  Setting<bool> partition_activations{false};
  Setting<int64_t> model_parallel_size{1};  // ranks
  Setting<bool> contiguous_memory_optimization{false};
  Setting<int64_t> number_checkpoints{1};  // regions
  Setting<bool> synchronize_checkpoint_boundary{false};
  Setting<bool> profile_activations{false};
  Setting<double> activation_offload_ratio{1.0};
  Setting<int64_t> activation_offload_threshold{int64_t{256} << 10};  // bytes
  Setting<Precision> precision{Precision::kFp32};
  Setting<double> loss_scale{0.0};  // of fp16; 0: dynamic
  Setting<int64_t> initial_scale_power{16};
  Setting<int64_t> loss_scale_window{1000};  // steps
  Setting<int64_t> hysteresis{2};            // overflows
  Setting<bool> consecutive_hysteresis{false};
  Setting<double> min_loss_scale{1.0};
  Setting<int64_t> max_consecutive_overflows{50};  // steps
  Setting<NonfiniteGradients> nonfinite_gradients{NonfiniteGradients::kSkip};
  Setting<double> gradient_clipping{0.0};  // global 2-norm; 0: off
  Setting<int64_t> gradient_accumulation_steps{1};
  Setting<int64_t> train_batch_size{0};  // samples an optimizer step, all ranks
  Setting<int64_t> train_micro_batch_size_per_gpu{
      0};  // samples a backward, one rank; 0: the loader's
  Setting<int64_t> page_bytes{int64_t{32} << 20};
  Setting<int64_t> parameter_budget{0};  // bytes; 0: automatic
  Setting<int64_t> prefetch_pages{2};
  // Sizes in elements, as DeepSpeed counts.
  Setting<int64_t> prefetch_bucket_size{kNoLimit};
  Setting<int64_t> max_live_parameters{0};  // 0: parameter_budget says it
  Setting<int64_t> max_reuse_distance{kNoLimit};
  Setting<int64_t> persistence_threshold{0};
  Setting<int64_t> model_persistence_threshold{kNoLimit};
  Setting<int64_t> reduce_bucket_size{500'000'000};
  Setting<int64_t> allgather_bucket_size{500'000'000};
  Setting<int64_t> sub_group_size{1'000'000'000};
  Setting<bool> overlap_comm{true};
  Setting<bool> reduce_scatter{true};
  Setting<bool> allgather_partitions{true};
  Setting<NumberType> communication_data_type{NumberType::kFp32};
  Setting<NumberType> gradient_accumulation_dtype{NumberType::kFp32};
  Setting<bool> prescale_gradients{false};
  Setting<double> gradient_predivide_factor{1.0};
  Setting<bool> offload_parameters_pin_memory{true};
  Setting<bool> offload_optimizer_pin_memory{true};
  Setting<double> offload_optimizer_ratio{1.0};  // part of the optimizer's state that is offloaded
  Setting<bool> wall_clock_breakdown{false};
  Setting<bool> zero_allow_untested_optimizer{false};
  Setting<DeviceChoice> device{DeviceChoice::kAuto};
  Setting<UpdateKernel> update_kernel{UpdateKernel::kAuto};
  Setting<int64_t> update_threads{0};  // 0: automatic
};

// One sentence for each setting that was given, whatever its value, and that its consumer has not
// read: the flag, where it was given, who should have read it, and what to do. A setting that acts
// at a higher stage only was told about when the configuration was read, and is left out.
std::vector<std::string> unread_settings(const EngineConfig& config);

// Everything that is wrong with a configuration, found in one go.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<std::string> problems);
  // Each one: place, key, reason, remedy.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

}  // namespace zero
