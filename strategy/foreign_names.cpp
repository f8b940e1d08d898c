// SPDX-License-Identifier: Apache-2.0
#include "strategy/foreign_names.h"

#include <utility>

namespace zero {

std::string_view advice_for_foreign_name(std::string_view key) {
  constexpr std::string_view kSections =
      "flags are flat here: write stage, offload_parameters and offload_optimizer at the top level "
      "or under strategy:";
  constexpr std::string_view kBatch =
      "the batch size is the data loader's, only gradient_accumulation_steps is set here";
  constexpr std::string_view kMadeInCode = "optimizer and learning rate are made in code";
  constexpr std::string_view kCheckpointing =
      "write cpu_checkpointing and partition_activations at the top level or under strategy:";
  static constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
      {"zero_optimization", kSections},
      {"offload_param", "write offload_parameters: true"},
      {"cpu_offload", "write offload_optimizer: true, and offload_parameters: true at stage 3"},
      {"cpu_offload_params", "write offload_parameters: true"},
      {"fp16", "write precision: fp16"},
      {"bf16", "write precision: bf16"},
      {"torch_autocast", "write precision: bf16"},
      {"max_grad_norm", "write gradient_clipping"},
      {"gradient_clip_val", "write gradient_clipping"},
      {"accumulate_grad_batches", "write gradient_accumulation_steps"},
      {"train_batch_size", kBatch},
      {"train_micro_batch_size_per_gpu", kBatch},
      {"optimizer", kMadeInCode},
      {"scheduler", kMadeInCode},
      {"lr_scheduler", kMadeInCode},
      {"activation_checkpointing", kCheckpointing},
      {"gradient_checkpointing", kCheckpointing},
  };
  for (const auto& [name, advice] : kAdvice) {
    if (name == key) return advice;
  }
  return {};
}

}  // namespace zero
