// SPDX-License-Identifier: Apache-2.0
// A second setup of the same models: other optimizers on the same masters.
#include <unordered_set>

#include "plugin/engine/engine.h"
#include "plugin/engine/model_inventory.h"

namespace zero {

void Engine::exchange_optimizers(const std::vector<torch::nn::Module*>& models,
                                 const std::vector<torch::optim::Optimizer*>& optimizers) {
  std::vector<NamedParameter> parameters;
  std::optional<std::string> error;
  try {
    TORCH_CHECK(optimizers_ && open_scopes_ == 0 && holds(models),
                "LibZeRO: setup was called before on this strategy, for other models or without an "
                "optimizer, or a zero::GatheredParameters scope is open. Call teardown() first.");
    optimizers_->check_exchange(optimizers);
  } catch (const c10::Error& problem) {
    error = problem.what_without_backtrace();
  }
  world_->control().raise_together(error);
  world_->control().agree("optimizer", signature(optimizers));
  optimizers_->exchange(optimizers, world_->reduce());
}

bool Engine::holds(const std::vector<torch::nn::Module*>& models) const {
  std::unordered_set<const c10::TensorImpl*> paged, given;
  for (const auto& page : pages_->all()) {
    for (const auto& slice : page->layout().parameters)
      paged.insert(slice.parameter.tensor.unsafeGetTensorImpl());
  }
  for (const auto* model : models) {
    for (const auto& parameter : model->parameters()) {
      if (parameter.defined() && parameter.numel() > 0)
        given.insert(parameter.unsafeGetTensorImpl());
    }
  }
  return paged == given;
}

}  // namespace zero
