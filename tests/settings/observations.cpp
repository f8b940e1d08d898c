// SPDX-License-Identifier: Apache-2.0
#include "settings/observations.h"

#include <c10/core/ScalarType.h>

#include <sstream>

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

auto pinned_as(MemoryClass memory_class) {
  return [memory_class](const ObservedRun& run) {
    return std::to_string(run.memory.booked[static_cast<size_t>(memory_class)].pinned);
  };
}

std::string moved(const ObservedRun& run) {
  return run.activations.bytes_moved > 0 ? "moved" : "not moved";
}

std::string loss_scale(const ObservedRun& run) { return std::to_string(run.step.loss_scale); }

std::string weight_gathers(const ObservedRun& run) {
  return std::to_string(run.memory.traffic.weight_gathers);
}

std::string reduced_bytes(const ObservedRun& run) {
  return std::to_string(run.memory.traffic.reduced_bytes);
}

std::string exact_norm(const ObservedRun& run) {
  std::ostringstream text;
  text << std::hexfloat << run.step.gradient_norm;
  return text.str();
}

std::string permanent_bytes(const ObservedRun& run) {
  return std::to_string(run.memory.permanent_parameter_bytes);
}

const Lines kOffloaded = {"stage: 3", "offload_parameters: true", "offload_optimizer: true"};
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
       .observable = "micro-batches that four steps took",
       .of = [](const ObservedRun& run) { return std::to_string(run.micro_batches); },
       .expected = "12"},
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
       .observable = "whether activations were moved",
       .of = moved,
       .expected = "moved"},
      {.field = "partition_activations",
       .value = "true",
       .observable = "whether activations were moved",
       .of = moved,
       .also = {"model_parallel_size: 2"},
       .ranks = 2,
       .expected = "moved"},
      {.field = "model_parallel_size",
       .value = "2",
       .observable = "whether activations were moved",
       .of = moved,
       .with = {"partition_activations: true"},
       .ranks = 2,
       .expected = "moved"},
      {.field = "contiguous_memory_optimization",
       .value = "true",
       .observable = "allocations for what is moved",
       .of = [](const ObservedRun& run) { return std::to_string(run.activations.blocks_mapped); },
       .with = {"cpu_checkpointing: true"},
       .also = {"number_checkpoints: 4"},
       .expected = "1"},
      {.field = "number_checkpoints",
       .value = "8",
       .observable = "bytes of the buffer",
       .of = booked_as(MemoryClass::kActivations),
       .with = {"cpu_checkpointing: true", "contiguous_memory_optimization: true"},
       .base = "4"},
      {.field = "synchronize_checkpoint_boundary",
       .value = "true",
       .observable = "waits at the boundaries of regions",
       .of = [](const ObservedRun& run) { return std::to_string(run.activations.boundary_waits); },
       .expected = "64"},
      {.field = "profile_activations",
       .value = "true",
       .observable = "whether regions were timed",
       .of = [](const ObservedRun& run) -> std::string {
         const auto& regions = run.activations.by_name;
         return !regions.empty() && regions.front().seconds > 0 ? "timed" : "not timed";
       },
       .expected = "timed"},
      {.field = "activation_offload_ratio",
       .value = "0.5",
       .observable = "bytes of activations that were moved",
       .of = [](const ObservedRun& run) { return std::to_string(run.activations.bytes_moved); },
       .with = {"cpu_checkpointing: true"}},
      {.field = "activation_offload_threshold",
       .value = "512",
       .observable = "tensors that stayed",
       .of = [](const ObservedRun& run) { return std::to_string(run.activations.tensors_kept); },
       .with = {"cpu_checkpointing: true"}},
      {.field = "loss_scale",
       .value = "8",
       .observable = "the loss scale",
       .of = loss_scale,
       .with = {"precision: fp16"},
       .expected = "8.000000"},
      {.field = "initial_scale_power",
       .value = "3",
       .observable = "the loss scale",
       .of = loss_scale,
       .with = {"precision: fp16"},
       .expected = "8.000000"},
      {.field = "loss_scale_window",
       .value = "2",
       .observable = "the loss scale",
       .of = loss_scale,
       .with = {"precision: fp16", "initial_scale_power: 3"}},
      {.field = "hysteresis",
       .value = "1",
       .observable = "the loss scale after one overflow",
       .of = loss_scale,
       .with = {"precision: fp16", "initial_scale_power: 3"},
       .overflow_at = {1},
       .expected = "4.000000"},
      {.field = "consecutive_hysteresis",
       .value = "true",
       .observable = "the loss scale after two overflows apart",
       .of = loss_scale,
       .with = {"precision: fp16", "initial_scale_power: 3"},
       .overflow_at = {0, 2},
       .expected = "8.000000"},
      {.field = "min_loss_scale",
       .value = "8",
       .observable = "the loss scale after an overflow",
       .of = loss_scale,
       .with = {"precision: fp16", "initial_scale_power: 3", "hysteresis: 1"},
       .overflow_at = {1},
       .expected = "8.000000"},
      {.field = "max_consecutive_overflows",
       .value = "2",
       .overflow_at = {1, 2},
       .error = "max_consecutive_overflows"},
      {.field = "nonfinite_gradients",
       .value = "apply",
       .observable = "skipped steps",
       .of = [](const ObservedRun& run) { return std::to_string(run.step.skipped); },
       .overflow_at = {1},
       .expected = "0"},
      {.field = "train_batch_size",
       .value = "8",
       .observable = "micro-batches that four steps took",
       .of = [](const ObservedRun& run) { return std::to_string(run.micro_batches); },
       .with = {"train_micro_batch_size_per_gpu: 2"},
       .expected = "16"},
      {.field = "train_micro_batch_size_per_gpu",
       .value = "2",
       .observable = "micro-batches that four steps took",
       .of = [](const ObservedRun& run) { return std::to_string(run.micro_batches); },
       .with = {"train_batch_size: 8"},
       .expected = "16"},
      {.field = "reduce_bucket_size",
       .value = "1000",
       .observable = "collectives that summed gradients",
       .of = [](const ObservedRun& run) { return std::to_string(run.memory.traffic.reductions); },
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "allgather_bucket_size",
       .value = "1000",
       .observable = "collectives that brought updated weights",
       .of = weight_gathers,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "sub_group_size",
       .value = "1000",
       .observable = "calls of the update",
       .of = [](const ObservedRun& run) { return std::to_string(run.step.update_calls); }},
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
      {.field = "reduce_scatter",
       .value = "false",
       .observable = "bytes of gradients that came in",
       .of = reduced_bytes,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "allgather_partitions",
       .value = "false",
       .observable = "collectives that brought updated weights",
       .of = weight_gathers,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "communication_data_type",
       .value = "bf16",
       .observable = "bytes of gradients that came in",
       .of = reduced_bytes,
       .with = {"stage: 2"},
       .ranks = 2},
      {.field = "gradient_accumulation_dtype",
       .value = "bf16",
       .error = "gradient_accumulation_dtype"},
      {.field = "prescale_gradients",
       .value = "true",
       .observable = "the last bits of the gradients' norm",
       .of = exact_norm,
       .ranks = 3},
      {.field = "gradient_predivide_factor",
       .value = "3",
       .observable = "the last bits of the gradients' norm",
       .of = exact_norm,
       .ranks = 2},
      {.field = "offload_parameters_pin_memory",
       .value = "false",
       .observable = "page-locked bytes of parameters' homes",
       .of = pinned_as(MemoryClass::kParameterHome),
       .with = kOffloaded,
       .expected = "0"},
      {.field = "offload_optimizer_pin_memory",
       .value = "false",
       .observable = "page-locked bytes of moments",
       .of = pinned_as(MemoryClass::kMoments),
       .with = kOffloaded,
       .expected = "0"},
      {.field = "offload_optimizer_ratio",
       .value = "0.5",
       .observable = "where the moments are",
       .of = booked_as(MemoryClass::kMoments),
       .with = {"stage: 3", "offload_parameters: true", "offload_optimizer: true",
                "page_bytes: 1MiB"}},
      {.field = "wall_clock_breakdown",
       .value = "true",
       .observable = "whether the phases were timed",
       .of = [](const ObservedRun& run) -> std::string {
         return run.step.times.backward > 0 ? "timed" : "not timed";
       },
       .expected = "timed"},
  };
  return all;
}

}  // namespace zero::testing
