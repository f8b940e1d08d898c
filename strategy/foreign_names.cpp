// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "strategy/key_advice.h"

namespace zero {

std::string_view advice_for_foreign_name(std::string_view key) {
  constexpr std::string_view kCheckpointing =
      "it is an argument of Hugging Face's trainer; write activation_checkpointing, and checkpoint "
      "the layers in the model";
  constexpr std::string_view kClipping = "write gradient_clipping";
  static constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
      {"max_grad_norm", kClipping},
      {"clip_grad_norm", kClipping},
      {"lr_scheduler", "did you mean scheduler?"},
      {"learning_rate", "write optimizer.params.lr"},
      {"gradient_checkpointing", kCheckpointing},
      {"gradient_accumulation", "did you mean gradient_accumulation_steps?"},
      {"per_device_train_batch_size", "did you mean train_micro_batch_size_per_gpu?"},
      {"micro_batch_size", "did you mean train_micro_batch_size_per_gpu?"},
      {"opt_level", "it belongs in amp, which is not supported; remove it"},
      {"disable_fused_adam", "the update is always fused; remove it"},
      {"dtype", "write bf16.enabled"},
      {"monitor", "tensorboard, csv_monitor and wandb belong at the top level"},
  };
  for (const auto& [name, advice] : kAdvice) {
    if (name == key) return advice;
  }
  return {};
}

}  // namespace zero
