// SPDX-License-Identifier: Apache-2.0
// What the tests of the flag surface share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plugin/config/document.h"
#include "plugin/config/fields.h"
#include "plugin/config/setting_row.h"
#include "strategy/auto_values.h"
#include "strategy/config_file.h"
#include "zero/strategy_options.h"

namespace zero::config_test {

// A legal value of each flag that is not its default, as text and as the call that gives it in
// code.
struct Example {
  std::string text;
  std::string printed;
  std::function<StrategyOptions&(StrategyOptions&)> give;
};

inline const std::map<std::string_view, Example>& examples() {
  using O = StrategyOptions;
  static const std::map<std::string_view, Example> all = {
      {"stage", {"2", "2", [](O& o) -> O& { return o.stage(2); }}},
      {"offload_parameters",
       {"true", "true", [](O& o) -> O& { return o.offload_parameters(true); }}},
      {"offload_optimizer", {"yes", "true", [](O& o) -> O& { return o.offload_optimizer(true); }}},
      {"cpu_checkpointing", {"on", "true", [](O& o) -> O& { return o.cpu_checkpointing(true); }}},
      {"partition_activations",
       {"true", "true", [](O& o) -> O& { return o.partition_activations(true); }}},
      {"model_parallel_size", {"2", "2", [](O& o) -> O& { return o.model_parallel_size(2); }}},
      {"contiguous_memory_optimization",
       {"true", "true", [](O& o) -> O& { return o.contiguous_memory_optimization(true); }}},
      {"number_checkpoints", {"12", "12", [](O& o) -> O& { return o.number_checkpoints(12); }}},
      {"synchronize_checkpoint_boundary",
       {"true", "true", [](O& o) -> O& { return o.synchronize_checkpoint_boundary(true); }}},
      {"profile_activations",
       {"true", "true", [](O& o) -> O& { return o.profile_activations(true); }}},
      {"activation_offload_ratio",
       {"0.5", "0.5", [](O& o) -> O& { return o.activation_offload_ratio(0.5); }}},
      {"activation_offload_threshold",
       {"1 MiB", "1MiB", [](O& o) -> O& { return o.activation_offload_threshold(1 << 20); }}},
      {"precision", {"bf16", "bf16", [](O& o) -> O& { return o.precision(Precision::kBf16); }}},
      {"loss_scale", {"128", "128", [](O& o) -> O& { return o.loss_scale(128); }}},
      {"initial_scale_power", {"8", "8", [](O& o) -> O& { return o.initial_scale_power(8); }}},
      {"loss_scale_window", {"2000", "2000", [](O& o) -> O& { return o.loss_scale_window(2000); }}},
      {"hysteresis", {"1", "1", [](O& o) -> O& { return o.hysteresis(1); }}},
      {"consecutive_hysteresis",
       {"true", "true", [](O& o) -> O& { return o.consecutive_hysteresis(true); }}},
      {"min_loss_scale", {"0.5", "0.5", [](O& o) -> O& { return o.min_loss_scale(0.5); }}},
      {"max_consecutive_overflows",
       {"9", "9", [](O& o) -> O& { return o.max_consecutive_overflows(9); }}},
      {"nonfinite_gradients",
       {"error", "error",
        [](O& o) -> O& { return o.nonfinite_gradients(NonfiniteGradients::kError); }}},
      {"gradient_clipping", {"0.5", "0.5", [](O& o) -> O& { return o.gradient_clipping(0.5); }}},
      {"gradient_accumulation_steps",
       {"4", "4", [](O& o) -> O& { return o.gradient_accumulation_steps(4); }}},
      {"train_batch_size", {"64", "64", [](O& o) -> O& { return o.train_batch_size(64); }}},
      {"train_micro_batch_size_per_gpu",
       {"8", "8", [](O& o) -> O& { return o.train_micro_batch_size_per_gpu(8); }}},
      {"page_bytes", {"1 MiB", "1MiB", [](O& o) -> O& { return o.page_bytes(1 << 20); }}},
      {"parameter_budget",
       {"5e8", "500000000", [](O& o) -> O& { return o.parameter_budget(500000000); }}},
      {"prefetch_pages", {"7", "7", [](O& o) -> O& { return o.prefetch_pages(7); }}},
      {"prefetch_bucket_size",
       {"5e7", "50000000", [](O& o) -> O& { return o.prefetch_bucket_size(50000000); }}},
      {"max_live_parameters",
       {"1e9", "1000000000", [](O& o) -> O& { return o.max_live_parameters(1000000000); }}},
      {"max_reuse_distance",
       {"1e9", "1000000000", [](O& o) -> O& { return o.max_reuse_distance(1000000000); }}},
      {"persistence_threshold",
       {"1e5", "100000", [](O& o) -> O& { return o.persistence_threshold(100000); }}},
      {"model_persistence_threshold",
       {"2e6", "2000000", [](O& o) -> O& { return o.model_persistence_threshold(2000000); }}},
      {"reduce_bucket_size",
       {"1000", "1000", [](O& o) -> O& { return o.reduce_bucket_size(1000); }}},
      {"allgather_bucket_size",
       {"2e8", "200000000", [](O& o) -> O& { return o.allgather_bucket_size(200000000); }}},
      {"sub_group_size", {"0", "0", [](O& o) -> O& { return o.sub_group_size(0); }}},
      {"overlap_comm", {"off", "false", [](O& o) -> O& { return o.overlap_comm(false); }}},
      {"reduce_scatter", {"false", "false", [](O& o) -> O& { return o.reduce_scatter(false); }}},
      {"allgather_partitions",
       {"false", "false", [](O& o) -> O& { return o.allgather_partitions(false); }}},
      {"communication_data_type",
       {"bf16", "bf16", [](O& o) -> O& { return o.communication_data_type(NumberType::kBf16); }}},
      {"gradient_accumulation_dtype",
       {"bf16", "bf16",
        [](O& o) -> O& { return o.gradient_accumulation_dtype(NumberType::kBf16); }}},
      {"prescale_gradients",
       {"true", "true", [](O& o) -> O& { return o.prescale_gradients(true); }}},
      {"gradient_predivide_factor",
       {"2.5", "2.5", [](O& o) -> O& { return o.gradient_predivide_factor(2.5); }}},
      {"offload_parameters_pin_memory",
       {"false", "false", [](O& o) -> O& { return o.offload_parameters_pin_memory(false); }}},
      {"offload_optimizer_pin_memory",
       {"no", "false", [](O& o) -> O& { return o.offload_optimizer_pin_memory(false); }}},
      {"offload_optimizer_ratio",
       {"0.25", "0.25", [](O& o) -> O& { return o.offload_optimizer_ratio(0.25); }}},
      {"wall_clock_breakdown",
       {"true", "true", [](O& o) -> O& { return o.wall_clock_breakdown(true); }}},
      {"zero_allow_untested_optimizer",
       {"true", "true", [](O& o) -> O& { return o.zero_allow_untested_optimizer(true); }}},
      {"device", {"cuda", "cuda", [](O& o) -> O& { return o.device(DeviceChoice::kCuda); }}},
      {"update_kernel",
       {"avx2", "avx2", [](O& o) -> O& { return o.update_kernel(UpdateKernel::kAvx2); }}},
      {"update_threads", {"3", "3", [](O& o) -> O& { return o.update_threads(3); }}},
  };
  return all;
}

inline std::vector<std::string> problems_of(const StrategyOptions& code,
                                            const std::vector<Flags>& layers = {}) {
  try {
    resolve(code, layers);
  } catch (const ConfigError& error) {
    return error.problems();
  }
  return {};
}

inline std::vector<std::string> problems_in(const std::string& yaml) {
  return problems_of({}, {parse_config(yaml, "x.yaml")});
}

inline EngineConfig config_from(const std::string& yaml) {
  return resolve({}, {parse_config(yaml, "x.yaml")});
}

// gtest names hold letters, digits and '_' only.
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

inline std::vector<std::string> engine_field_names() {
  std::vector<std::string> names;
  for (const auto& field : fields<EngineConfig>()) names.emplace_back(field.name);
  return names;
}

}  // namespace zero::config_test
