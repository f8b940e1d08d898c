// SPDX-License-Identifier: Apache-2.0
#include "plugin/engine/plan.h"

#include <stdexcept>

#include "plugin/config/fields.h"

namespace zero {

namespace {

kernels::Isa isa_of(UpdateKernel choice) {
  const auto require = [](kernels::Isa isa, const char* name) {
    TORCH_CHECK(kernels::supported(isa), "LibZeRO: update_kernel is ", name,
                ", which this processor or build does not have. Use auto or portable.");
    return isa;
  };
  switch (choice) {
    case UpdateKernel::kAvx512:
      return require(kernels::Isa::kAvx512, "avx512");
    case UpdateKernel::kAvx2:
      return require(kernels::Isa::kAvx2, "avx2");
    case UpdateKernel::kPortable:
      return kernels::Isa::kPortable;
    case UpdateKernel::kAuto:
      break;
  }
  return kernels::best_isa();
}

at::ScalarType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return at::kBFloat16;
    case Precision::kFp16:
      return at::kHalf;
    case Precision::kFp32:
      break;
  }
  return at::kFloat;
}

// parameter_budget and max_live_parameters say the same in other units.
void plan_budget(const EngineConfig& config, PagingOptions& paging) {
  paging.parameter_budget = config.parameter_budget.read(Consumer::kPaging);
  const int64_t elements = config.max_live_parameters.read(Consumer::kPaging);
  if (elements == 0) return;
  const auto element =
      static_cast<int64_t>(c10::elementSize(paging.compute_dtype.value_or(at::kFloat)));
  const int64_t bytes = elements > kNoLimit / element ? kNoLimit : elements * element;
  TORCH_CHECK(paging.parameter_budget == 0 || paging.parameter_budget == bytes,
              "LibZeRO: parameter_budget (", config.parameter_budget.provenance().where, ") is ",
              paging.parameter_budget, " bytes, but max_live_parameters (",
              config.max_live_parameters.provenance().where, ") is ", elements,
              " elements, which are ", bytes,
              " bytes. Both limit the whole pages on the device; keep one of them.");
  paging.parameter_budget = bytes;
  paging.budget_flag = "max_live_parameters";
}

// What comes, goes and stays at stage 3.
void plan_residency(const EngineConfig& config, PagingOptions& paging) {
  plan_budget(config, paging);
  paging.prefetch_pages = config.prefetch_pages.read(Consumer::kPaging);
  paging.prefetch_elements = config.prefetch_bucket_size.read(Consumer::kPaging);
  if (config.prefetch_bucket_size.given() && !config.prefetch_pages.given())
    paging.prefetch_pages = kNoLimit;
  paging.reuse_elements = config.max_reuse_distance.read(Consumer::kPaging);
  paging.stays_up_to = config.persistence_threshold.read(Consumer::kPaging);
  paging.stays_in_all = config.model_persistence_threshold.read(Consumer::kPaging);
}

at::ScalarType scalar_type(NumberType type) {
  switch (type) {
    case NumberType::kBf16:
      return at::kBFloat16;
    case NumberType::kFp16:
      return at::kHalf;
    case NumberType::kFp32:
      break;
  }
  return at::kFloat;
}

ReductionOptions reduction_of(const EngineConfig& config) {
  ReductionOptions reduction;
  reduction.piece = config.reduce_bucket_size.read(Consumer::kGradients);
  reduction.wire = scalar_type(config.communication_data_type.read(Consumer::kGradients));
  reduction.scatter = config.reduce_scatter.read(Consumer::kGradients);
  reduction.prescale = config.prescale_gradients.read(Consumer::kGradients);
  reduction.predivide = config.gradient_predivide_factor.read(Consumer::kGradients);
  TORCH_CHECK(!reduction.prescale || reduction.predivide == 1.0, "LibZeRO: prescale_gradients (",
              config.prescale_gradients.provenance().where,
              ") divides gradients by the number of ranks before the reduction, "
              "gradient_predivide_factor (",
              config.gradient_predivide_factor.provenance().where, ") by ", reduction.predivide,
              ". Keep one of them.");
  TORCH_CHECK(config.gradient_accumulation_dtype.read(Consumer::kGradients) == NumberType::kFp32,
              "LibZeRO: gradient_accumulation_dtype (",
              config.gradient_accumulation_dtype.provenance().where,
              ") must be fp32: gradients are added up in fp32 only. Set it to fp32 or remove it.");
  return reduction;
}

}  // namespace

// All flags but those that choose how a rank does its own work.
std::string flags_text(const EngineConfig& config) {
  std::string text;
  for (const auto& field : fields<EngineConfig>()) {
    if (field.name == "device" || field.name == "update_kernel" || field.name == "update_threads")
      continue;
    text.append(field.name).append(" ").append(value_text(field, config)).append("\n");
  }
  return text;
}

Plan make_plan(const EngineConfig& config, const World& world) {
  const int stage = config.stage.read(Consumer::kPaging);
  const int world_size = world.world_size();
  Plan plan;
  auto& paging = plan.paging;
  paging.page_bytes = config.page_bytes.read(Consumer::kPaging);
  const bool offload_parameters = config.offload_parameters.read(Consumer::kPaging);
  paging.whole_pages_stay = stage < 3 || (world_size == 1 && !offload_parameters);
  paging.home = offload_parameters ? Place::kHost : Place::kDevice;
  if (stage > 0) paging.shard = {world.rank(), world_size};
  paging.compute_dtype = compute_dtype(config.precision.read(Consumer::kPaging));
  if (stage == 3) plan_residency(config, paging);  // below, whole pages always stay

  paging.weight_gather = {config.allgather_bucket_size.read(Consumer::kPaging),
                          !config.allgather_partitions.read(Consumer::kPaging)};

  auto& optimizer = plan.optimizer;
  optimizer.masters = {paging.shard, paging.home};
  optimizer.allow_untested = config.zero_allow_untested_optimizer.read(Consumer::kOptimizer);
  optimizer.call_elements = config.sub_group_size.read(Consumer::kOptimizer);
  optimizer.isa = isa_of(config.update_kernel.read(Consumer::kOptimizer));
  if (config.offload_optimizer.read(Consumer::kOptimizer)) {
    paging.offloaded_optimizer = config.offload_optimizer_ratio.read(Consumer::kOptimizer);
    plan.pinning.optimizer = config.offload_optimizer_pin_memory.read(Consumer::kMemory);
  }
  if (offload_parameters) {
    plan.pinning.parameters = config.offload_parameters_pin_memory.read(Consumer::kMemory);
  }

  auto& gradients = plan.gradients;
  gradients.stage = stage;
  gradients.world_size = world_size;
  gradients.shard = paging.shard;
  gradients.beside_backward = config.overlap_comm.read(Consumer::kGradients);
  gradients.reduction = reduction_of(config);
  if (stage > 0 && world_size == 1) {
    TORCH_WARN_ONCE("LibZeRO: one process: stage ", stage,
                    " shards nothing here; offload and precision act as usual.");
  }
  return plan;
}

LossScaler make_scaler(const EngineConfig& config) {
  if (config.precision.peek() != Precision::kFp16) return LossScaler();
  TORCH_CHECK(config.nonfinite_gradients.peek() != NonfiniteGradients::kApply,
              "LibZeRO: nonfinite_gradients is apply, but at precision fp16 gradients overflow now "
              "and then, and would ruin the weights. Set it to skip.");
  const double scale = config.loss_scale.read(Consumer::kGradients);
  try {
    if (scale != 0) return LossScaler(scale);
    TORCH_CHECK(config.nonfinite_gradients.peek() == NonfiniteGradients::kSkip,
                "LibZeRO: nonfinite_gradients is error, but a dynamic loss scale finds its value "
                "by steps that overflow and are skipped. Set nonfinite_gradients to skip, or give "
                "a loss_scale.");
    DynamicLossScale dynamic;
    dynamic.initial_power = config.initial_scale_power.read(Consumer::kGradients);
    dynamic.window = config.loss_scale_window.read(Consumer::kGradients);
    dynamic.hysteresis = config.hysteresis.read(Consumer::kGradients);
    dynamic.consecutive_hysteresis = config.consecutive_hysteresis.read(Consumer::kGradients);
    dynamic.min_scale = config.min_loss_scale.read(Consumer::kGradients);
    return LossScaler(dynamic);
  } catch (const std::invalid_argument& problem) {
    TORCH_CHECK(false, "LibZeRO: ", problem.what(), ".");
  }
}

}  // namespace zero
