// SPDX-License-Identifier: Apache-2.0
#include "settings/observations.h"

#include <c10/core/ScalarType.h>

namespace zero::testing {
namespace {

std::string booked(const ObservedRun& run, MemoryClass memory_class) {
  const MemoryBytes& bytes = run.memory.booked[static_cast<size_t>(memory_class)];
  return std::to_string(bytes.device) + " on the device, " + std::to_string(bytes.host) +
         " in host memory";
}

auto booked_as(MemoryClass memory_class) {
  return [memory_class](const ObservedRun& run) { return booked(run, memory_class); };
}

std::string permanent_bytes(const ObservedRun& run) {
  return std::to_string(run.memory.permanent_parameter_bytes);
}

std::string gathers(const ObservedRun& run) {
  return std::to_string(run.memory.traffic.weight_gathers);
}

std::string reduced_bytes(const ObservedRun& run) {
  return std::to_string(run.memory.traffic.reduced_bytes);
}

auto pinned_as(MemoryClass memory_class) {
  return [memory_class](const ObservedRun& run) {
    return std::to_string(run.memory.booked[static_cast<size_t>(memory_class)].pinned);
  };
}

// A fingerprint of all their bits.
std::string weights(const ObservedRun& run) {
  int64_t sum = 0;
  for (const at::Tensor& weight : run.weights)
    sum += weight.view(at::kInt).sum(at::kLong).item<int64_t>();
  return std::to_string(sum);
}

const Lines kSmallPages = {"stage: 3", "offload_parameters: true", "page_bytes: 1MiB"};
const Lines kPaged = {"stage: 3", "offload_parameters: true", "page_bytes: 1MiB",
                      "parameter_budget: 3MiB"};

Observation device_row() {
  if (!torch::cuda::is_available()) {
    return {.field = "device", .value = "cuda", .error = "device is set to cuda"};
  }
  return {.field = "device",
          .value = "cpu",
          .observable = "where the model computes",
          .of = [](const ObservedRun& run) { return run.device.str(); },
          .expected = "cpu"};
}

}  // namespace

const std::vector<Observation>& observations() {
  static const std::vector<Observation> all = {
      {.field = "stage",
       .value = "1",
       .observable = "bytes of moments on this rank",
       .of = booked_as(MemoryClass::kMoments),
       .ranks = 2},
      {.field = "offload_parameters",
       .value = "true",
       .observable = "where the parameters' homes are",
       .of = booked_as(MemoryClass::kParameterHome),
       .with = {"stage: 3"}},
      {.field = "offload_optimizer",
       .value = "true",
       .observable = "where the moments are",
       .of = booked_as(MemoryClass::kMoments),
       .with = {"stage: 1"}},
      {.field = "precision",
       .value = "bf16",
       .observable = "type of the model's weights",
       .of = [](const ObservedRun& run) { return std::string(c10::toString(run.weight_type)); },
       .expected = "BFloat16"},
      {.field = "gradient_clipping",
       .value = "1e-6",
       .observable = "whether gradients were scaled",
       .of =
           [](const ObservedRun& run) {
             return run.step.clip_coefficient < 1.0 ? "scaled" : "as they were";
           },
       .expected = "scaled"},
      {.field = "gradient_accumulation_steps",
       .value = "3",
       .observable = "micro-batches that two steps took",
       .of = [](const ObservedRun& run) { return std::to_string(run.micro_batches); },
       .expected = "6"},
      {.field = "page_bytes",
       .value = "1MiB",
       .observable = "how often a page came in",
       .of =
           [](const ObservedRun& run) {
             return std::to_string(run.memory.paging.faults + run.memory.paging.prefetches);
           },
       .with = {"stage: 3", "offload_parameters: true"}},
      {.field = "parameter_budget",
       .value = "2MiB",
       .observable = "bytes of slots for whole pages",
       .of = booked_as(MemoryClass::kParameterSlots),
       .with = kSmallPages},
      {.field = "prefetch_pages",
       .value = "0",
       .observable = "pages fetched ahead",
       .of = [](const ObservedRun& run) { return std::to_string(run.memory.paging.prefetches); },
       .with = kPaged,
       .expected = "0"},
      {.field = "prefetch_bucket_size",
       .value = "0",
       .observable = "pages fetched ahead",
       .of = [](const ObservedRun& run) { return std::to_string(run.memory.paging.prefetches); },
       .with = kPaged,
       .expected = "0"},
      {.field = "max_live_parameters",
       .value = "524288",
       .observable = "bytes of slots for whole pages",
       .of = booked_as(MemoryClass::kParameterSlots),
       .with = kSmallPages},
      {.field = "max_reuse_distance",
       .value = "1",
       .observable = "pages released right after their use",
       .of = [](const ObservedRun& run) { return std::to_string(run.memory.paging.releases); },
       .with = kSmallPages},
      {.field = "persistence_threshold",
       .value = "262144",
       .observable = "bytes of parameters that never leave",
       .of = permanent_bytes,
       .with = kSmallPages,
       .expected = "4194304"},
      {.field = "model_persistence_threshold",
       .value = "300000",
       .observable = "bytes of parameters that never leave",
       .of = permanent_bytes,
       .with = {"stage: 3", "offload_parameters: true", "page_bytes: 1MiB",
                "persistence_threshold: 262144"},
       .expected = "1048576"},
      {.field = "update_kernel",
       .value = "portable",
       .observable = "the kernel that ran the update",
       .of = [](const ObservedRun& run) { return run.step.update_kernel; },
       .with = {"stage: 1", "offload_optimizer: true"},
       .expected = "portable"},
      {.field = "update_threads",
       .value = "7",
       .observable = "threads that setup started",
       .of = [](const ObservedRun& run) { return std::to_string(run.threads_started); }},
      {.field = "zero_allow_untested_optimizer",
       .value = "true",
       .observable = "whether an optimizer class of the user's own is taken",
       .of = [](const ObservedRun& run) { return run.takes_own_optimizer ? "taken" : "refused"; },
       .expected = "taken"},
      device_row(),
      {.field = "cpu_checkpointing",
       .value = "true",
       .observable = "where activations are",
       .of = booked_as(MemoryClass::kActivations),
       .regions = true},
      {.field = "partition_activations",
       .value = "true\nmodel_parallel_size: 2",
       .observable = "bytes of activations that this rank keeps",
       .of = booked_as(MemoryClass::kActivations),
       .ranks = 2,
       .regions = true},
      {.field = "model_parallel_size",
       .value = "2",
       .observable = "bytes of activations that this rank keeps",
       .of = booked_as(MemoryClass::kActivations),
       .with = {"partition_activations: true"},
       .ranks = 2,
       .regions = true},
      {.field = "contiguous_memory_optimization",
       .value = "true\nnumber_checkpoints: 9",
       .observable = "bytes for activations in host memory",
       .of = booked_as(MemoryClass::kActivations),
       .with = {"cpu_checkpointing: true"},
       .regions = true},
      {.field = "number_checkpoints",
       .value = "9\ncontiguous_memory_optimization: true",
       .observable = "bytes for activations in host memory",
       .of = booked_as(MemoryClass::kActivations),
       .with = {"cpu_checkpointing: true"},
       .regions = true},
      {.field = "synchronize_checkpoint_boundary",
       .value = "true",
       .observable = "how often a region's ends waited for the device",
       .of = [](const ObservedRun& run) { return std::to_string(run.activations.boundary_waits); },
       .regions = true},
      {.field = "profile_activations",
       .value = "true",
       .observable = "whether regions have times",
       .of =
           [](const ObservedRun& run) {
             const auto& regions = run.activations.by_name;
             return !regions.empty() && regions[0].seconds > 0 ? "times" : "none";
           },
       .regions = true,
       .expected = "times"},
      {.field = "activation_offload_ratio",
       .value = "0.5",
       .observable = "tensors that were moved",
       .of = [](const ObservedRun& run) { return std::to_string(run.activations.tensors_moved); },
       .with = {"cpu_checkpointing: true"},
       .regions = true},
      {.field = "activation_offload_threshold",
       .value = "1KiB",
       .observable = "tensors that were moved",
       .of = [](const ObservedRun& run) { return std::to_string(run.activations.tensors_moved); },
       .with = {"cpu_checkpointing: true"},
       .regions = true},
      {.field = "reduce_bucket_size",
       .value = "1000",
       .observable = "collectives that reduced gradients",
       .of = [](const ObservedRun& run) { return std::to_string(run.memory.traffic.reductions); },
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "allgather_bucket_size",
       .value = "1000",
       .observable = "collectives that gathered updated weights",
       .of = gathers,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "allgather_partitions",
       .value = "false",
       .observable = "collectives that gathered updated weights",
       .of = gathers,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "reduce_scatter",
       .value = "false",
       .observable = "bytes received to reduce gradients",
       .of = reduced_bytes,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "communication_data_type",
       .value = "bf16",
       .observable = "bytes received to reduce gradients",
       .of = reduced_bytes,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "overlap_comm",
       .value = "false",
       .observable = "pages reduced on a stream of their own",
       .of =
           [](const ObservedRun& run) {
             return std::to_string(run.memory.traffic.side_reductions);
           },
       .with = {"stage: 2"},
       .ranks = 2,
       .expected = "0"},
      {.field = "prescale_gradients",
       .value = "true",
       .observable = "rounding of the gradients",
       .of = weights,
       .with = {"stage: 2"},
       .ranks = 3},
      {.field = "gradient_predivide_factor",
       .value = "3",
       .observable = "rounding of the gradients",
       .of = weights,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "sub_group_size",
       .value = "1000",
       .observable = "calls of the update",
       .of = [](const ObservedRun& run) { return std::to_string(run.step.update_calls); },
       .with = {"stage: 2"}},
      {.field = "wall_clock_breakdown",
       .value = "true",
       .observable = "whether the phases of a step were timed",
       .of =
           [](const ObservedRun& run) {
             return run.step.times.backward > 0 ? "timed" : "not timed";
           },
       .with = {"stage: 2"},
       .expected = "timed"},
      {.field = "offload_parameters_pin_memory",
       .value = "false",
       .observable = "page-locked bytes of the parameters' homes",
       .of = pinned_as(MemoryClass::kParameterHome),
       .with = {"stage: 3", "offload_parameters: true", "offload_optimizer: true"},
       .expected = "0"},
      {.field = "offload_optimizer_pin_memory",
       .value = "false",
       .observable = "page-locked bytes of the moments",
       .of = pinned_as(MemoryClass::kMoments),
       .with = {"stage: 3", "offload_parameters: true", "offload_optimizer: true"},
       .expected = "0"},
      {.field = "offload_optimizer_ratio",
       .value = "0.5",
       .observable = "where the moments are",
       .of = booked_as(MemoryClass::kMoments),
       .with = {"stage: 3", "page_bytes: 1MiB", "offload_parameters: true",
                "offload_optimizer: true"}},
      {.field = "gradient_accumulation_dtype",
       .value = "bf16",
       .with = {"stage: 2"},
       .error = "gradient_accumulation_dtype"},
  };
  return all;
}

}  // namespace zero::testing
