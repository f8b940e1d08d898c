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
  auto& [a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20,
         a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34] = c;
  return std::tie(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18,
                  a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34);
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
constexpr std::string_view kStage3 = "at stage 3";
constexpr std::string_view kWithGradients = "when an optimizer is set up";
constexpr std::string_view kWithStep = "in strategy.step()";
constexpr std::string_view kOffloadedOptimizer = "when offload_optimizer is true";

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
       .acts_when = kStage3},
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
       .acts_when = kWithStep},
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
       .acts_when = kStage3},
      {.name = "prefetch_pages",
       .member = &E::prefetch_pages,
       .consumer = Consumer::kPaging,
       .help = "pages fetched ahead of their use",
       .acts_when = kStage3},
      {.name = "prefetch_bucket_size",
       .member = &E::prefetch_bucket_size,
       .consumer = Consumer::kPaging,
       .help = "elements fetched ahead of their use; instead of prefetch_pages, or both limits "
               "where both are given",
       .aliases = {"stage3_prefetch_bucket_size"},
       .unit = Unit::kElements,
       .acts_when = kStage3},
      {.name = "max_live_parameters",
       .member = &E::max_live_parameters,
       .consumer = Consumer::kPaging,
       .help = "parameters whole on the device at once, as parameter_budget in elements of the "
               "compute type; 0 leaves it to that",
       .aliases = {"stage3_max_live_parameters"},
       .unit = Unit::kElements,
       .acts_when = kStage3},
      {.name = "max_reuse_distance",
       .member = &E::max_reuse_distance,
       .consumer = Consumer::kPaging,
       .help =
           "a page whose next expected use is more elements away is released right after its use",
       .aliases = {"stage3_max_reuse_distance"},
       .unit = Unit::kElements,
       .acts_when = kStage3},
      {.name = "persistence_threshold",
       .member = &E::persistence_threshold,
       .consumer = Consumer::kPaging,
       .help = "parameters of at most this many elements stay whole on the device",
       .aliases = {"stage3_param_persistence_threshold"},
       .unit = Unit::kElements,
       .acts_when = kStage3},
      {.name = "model_persistence_threshold",
       .member = &E::model_persistence_threshold,
       .consumer = Consumer::kPaging,
       .help = "elements that persistence_threshold may keep on the device in all",
       .aliases = {"stage3_model_persistence_threshold"},
       .unit = Unit::kElements,
       .acts_when = kStage3},
      {.name = "reduce_bucket_size",
       .member = &E::reduce_bucket_size,
       .consumer = Consumer::kGradients,
       .help = "gradients are reduced over ranks in pieces of at most this many elements",
       .unit = Unit::kElements,
       .range = {.min = 1},
       .acts_when = kWithGradients},
      {.name = "allgather_bucket_size",
       .member = &E::allgather_bucket_size,
       .consumer = Consumer::kPaging,
       .help =
           "updated weights that stay whole are gathered in pieces of at most this many elements",
       .unit = Unit::kElements,
       .range = {.min = 1},
       .acts_when = kWithGradients},
      {.name = "sub_group_size",
       .member = &E::sub_group_size,
       .consumer = Consumer::kOptimizer,
       .help = "elements that one call of the update handles at most, 0 is one parameter a call",
       .unit = Unit::kElements,
       .acts_when = kWithStep},
      {.name = "overlap_comm",
       .member = &E::overlap_comm,
       .consumer = Consumer::kGradients,
       .help = "reductions run beside backward on a stream of their own; false: in order with it",
       .acts_when = kWithGradients},
      {.name = "reduce_scatter",
       .member = &E::reduce_scatter,
       .consumer = Consumer::kGradients,
       .help = "each rank receives its part of the sums only; false: all of them, by all-reduce",
       .acts_when = kWithGradients},
      {.name = "allgather_partitions",
       .member = &E::allgather_partitions,
       .consumer = Consumer::kPaging,
       .help = "updated weights that stay whole come by all-gather; false: by a broadcast from "
               "each rank",
       .acts_when = kWithGradients},
      {.name = "communication_data_type",
       .member = &E::communication_data_type,
       .consumer = Consumer::kGradients,
       .help = "type in which gradients travel between ranks; sums are taken in fp32",
       .acts_when = kWithGradients},
      {.name = "gradient_accumulation_dtype",
       .member = &E::gradient_accumulation_dtype,
       .consumer = Consumer::kGradients,
       .help = "type in which reduced gradients are kept and added up, fp32 or bf16",
       .aliases = {"grad_accum_dtype"},
       .acts_when = kWithGradients},
      {.name = "prescale_gradients",
       .member = &E::prescale_gradients,
       .consumer = Consumer::kGradients,
       .help = "gradients are divided by the number of ranks before the reduction; false: after it",
       .acts_when = kWithGradients},
      {.name = "gradient_predivide_factor",
       .member = &E::gradient_predivide_factor,
       .consumer = Consumer::kGradients,
       .help = "gradients are divided by this before the reduction, and by the rest of the number "
               "of ranks after it",
       .range = {.min = 1e-6},
       .acts_when = kWithGradients},
      {.name = "offload_parameters_pin_memory",
       .member = &E::offload_parameters_pin_memory,
       .consumer = Consumer::kMemory,
       .help = "host memory of offloaded parameters is page-locked",
       .acts_when = "when offload_parameters is true"},
      {.name = "offload_optimizer_pin_memory",
       .member = &E::offload_optimizer_pin_memory,
       .consumer = Consumer::kMemory,
       .help = "host memory of the offloaded optimizer and its gradients is page-locked",
       .acts_when = kOffloadedOptimizer},
      {.name = "offload_optimizer_ratio",
       .member = &E::offload_optimizer_ratio,
       .consumer = Consumer::kOptimizer,
       .help = "part of the optimizer that is offloaded; the first layers of the model keep theirs "
               "on the device",
       .range = {0, 1},
       .acts_when = kOffloadedOptimizer},
      {.name = "wall_clock_breakdown",
       .member = &E::wall_clock_breakdown,
       .consumer = Consumer::kOptimizer,
       .help = "times of forward, backward, reduction and update in each StepReport; the host "
               "waits for the device to take them",
       .acts_when = kWithStep},
      {.name = "zero_allow_untested_optimizer",
       .member = &E::zero_allow_untested_optimizer,
       .consumer = Consumer::kOptimizer,
       .help = "take any optimizer that updates each element by itself; its own step runs",
       .aliases = {"allow_untested_optimizer"},
       .acts_when = kWithGradients},
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
