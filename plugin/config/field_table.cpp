// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <tuple>
#include <type_traits>

#include "plugin/config/fields.h"

namespace zero {
namespace {

// All members of the structs. A member that is added or taken away stops these bindings from
// compiling; the new count then stops the table below until the table has it too.
auto members(EngineConfig& c) {
  auto& [a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14] = c;
  return std::tie(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14);
}
auto members(TrainerSettings& s) {
  auto& [a1, a2, a3] = s;
  return std::tie(a1, a2, a3);
}
template <class Config>
constexpr size_t kMembers = std::tuple_size_v<decltype(members(std::declval<Config&>()))>;

using E = EngineConfig;
using T = TrainerSettings;
constexpr std::string_view kWithTrainer = "when zero::Trainer runs the loop";
constexpr std::string_view kCpuUpdate = "when the update runs on the CPU";

}  // namespace

std::span<const Field<EngineConfig>> fields_of(const EngineConfig*) {
  static const Field<E> kTable[] = {
      {.name = "stage",
       .member = &E::stage,
       .consumer = Consumer::kPaging,
       .help = "what is partitioned: 0 nothing, 1 optimizer, 2 and gradients, 3 and parameters",
       .aliases = {"zero_stage"},
       .range = {0, 3}},
      {.name = "offload_parameters",
       .member = &E::offload_parameters,
       .consumer = Consumer::kPaging,
       .help = "parameter pages live in host memory",
       .aliases = {"offload_params"},
       .needs_stage = 3,
       .acts_when = "at stage 3"},
      {.name = "offload_optimizer",
       .member = &E::offload_optimizer,
       .consumer = Consumer::kOptimizer,
       .help = "master weights and optimizer state live in host memory",
       .needs_stage = 1,
       .acts_when = "when an optimizer is set up at stage 1 or above"},
      {.name = "cpu_checkpointing",
       .member = &E::cpu_checkpointing,
       .consumer = Consumer::kActivations,
       .help = "checkpointed activations live in host memory",
       .aliases = {"checkpoint_in_cpu"},
       .not_yet = "activations cannot be kept in host memory, this is not supported yet"},
      {.name = "partition_activations",
       .member = &E::partition_activations,
       .consumer = Consumer::kActivations,
       .help = "checkpointed activations are split over the model-parallel group",
       .not_yet = "activations cannot be partitioned, this is not supported yet"},
      {.name = "precision",
       .member = &E::precision,
       .consumer = Consumer::kPaging,
       .help = "type of the compute weights; the masters stay fp32"},
      {.name = "gradient_clipping",
       .member = &E::gradient_clipping,
       .consumer = Consumer::kGradients,
       .help = "largest global 2-norm of the mean gradient, 0 is off",
       .acts_when = "in strategy.step()"},
      {.name = "gradient_accumulation_steps",
       .member = &E::gradient_accumulation_steps,
       .consumer = Consumer::kTrainer,
       .help = "micro batches an optimizer step",
       .range = {.min = 1},
       .acts_when = kWithTrainer},
      {.name = "page_bytes",
       .member = &E::page_bytes,
       .consumer = Consumer::kPaging,
       .help = "parameters are moved in pages of about this size",
       .unit = Unit::kBytes,
       .range = {.min = 4096}},
      {.name = "parameter_budget",
       .member = &E::parameter_budget,
       .consumer = Consumer::kPaging,
       .help = "whole parameter pages on the device at once, 0 is automatic",
       .unit = Unit::kBytes,
       .acts_when = "at stage 3"},
      {.name = "prefetch_pages",
       .member = &E::prefetch_pages,
       .consumer = Consumer::kPaging,
       .help = "pages fetched ahead of their use",
       .acts_when = "at stage 3"},
      {.name = "device",
       .member = &E::device,
       .consumer = Consumer::kPartition,
       .help = "where the model computes; auto takes CUDA where there is one"},
      {.name = "update_kernel",
       .member = &E::update_kernel,
       .consumer = Consumer::kOptimizer,
       .help = "CPU kernel of the update; auto takes the fastest this CPU has",
       .acts_when = kCpuUpdate},
      {.name = "update_threads",
       .member = &E::update_threads,
       .consumer = Consumer::kOptimizer,
       .help = "threads of the CPU update, 0 is automatic",
       .range = {.max = 1024},
       .acts_when = kCpuUpdate},
  };
  static_assert(std::size(kTable) == kMembers<E>, "each EngineConfig member needs one row here");
  return kTable;
}

std::span<const Field<TrainerSettings>> fields_of(const TrainerSettings*) {
  static const Field<T> kTable[] = {
      {.name = "steps",
       .member = &T::steps,
       .consumer = Consumer::kTrainer,
       .help = "optimizer steps to run, 0 is one pass over the data",
       .acts_when = kWithTrainer},
      {.name = "log_every",
       .member = &T::log_every,
       .consumer = Consumer::kTrainer,
       .help = "optimizer steps between two log lines, 0 is never",
       .acts_when = kWithTrainer},
      {.name = "validate_every",
       .member = &T::validate_every,
       .consumer = Consumer::kTrainer,
       .help = "optimizer steps between two validations, 0 is only the first and the last one",
       .acts_when = kWithTrainer},
  };
  static_assert(std::size(kTable) == kMembers<T>, "each TrainerSettings member needs one row here");
  return kTable;
}

}  // namespace zero
