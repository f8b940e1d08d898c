// SPDX-License-Identifier: Apache-2.0
#include "plugin/engine/plan.h"

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
  if (config.precision.read(Consumer::kPaging) == Precision::kBf16)
    paging.compute_dtype = at::kBFloat16;
  if (stage == 3) plan_residency(config, paging);  // below, whole pages always stay

  const Place masters =
      config.offload_optimizer.read(Consumer::kOptimizer) ? Place::kHost : Place::kDevice;
  plan.gradients = {stage, world_size, paging.shard, masters};
  plan.optimizer = {{paging.shard, paging.home, masters},
                    isa_of(config.update_kernel.read(Consumer::kOptimizer)),
                    config.zero_allow_untested_optimizer.read(Consumer::kOptimizer)};
  if (stage > 0 && world_size == 1) {
    TORCH_WARN_ONCE("LibZeRO: one process: stage ", stage,
                    " shards nothing here; offload and precision act as usual.");
  }
  return plan;
}

}  // namespace zero
