// SPDX-License-Identifier: Apache-2.0
#include "zero/lion.h"

#include <ATen/ops/sign.h>
#include <torch/optim/serialize.h>
#include <torch/utils.h>

namespace zero {
namespace {

// Each group has its own options, so the defaults alone cannot be checked.
void check(const LionOptions& options) {
  const auto [beta1, beta2] = options.betas();
  TORCH_CHECK(options.lr() >= 0.0, "zero::Lion: lr is ", options.lr(), ", it must be at least 0.");
  TORCH_CHECK(beta1 >= 0.0 && beta1 < 1.0 && beta2 >= 0.0 && beta2 < 1.0, "zero::Lion: betas are ",
              beta1, " and ", beta2, ", they must be at least 0 and below 1.");
  TORCH_CHECK(options.weight_decay() >= 0.0, "zero::Lion: weight_decay is ", options.weight_decay(),
              ", it must be at least 0.");
}

}  // namespace

void LionOptions::serialize(torch::serialize::OutputArchive& archive) const {
  archive.write("lr", c10::IValue(lr()));
  archive.write("betas", c10::IValue(betas()));
  archive.write("weight_decay", c10::IValue(weight_decay()));
}

void LionOptions::serialize(torch::serialize::InputArchive& archive) {
  c10::IValue value;
  archive.read("lr", value);
  lr(value.toDouble());
  archive.read("betas", value);
  betas(value.to<Betas>());
  archive.read("weight_decay", value);
  weight_decay(value.toDouble());
}

void LionParamState::serialize(torch::serialize::OutputArchive& archive) const {
  if (exp_avg().defined()) archive.write("exp_avg", exp_avg(), /*is_buffer=*/true);
}

void LionParamState::serialize(torch::serialize::InputArchive& archive) {
  at::Tensor value;
  if (archive.try_read("exp_avg", value, /*is_buffer=*/true)) exp_avg(value);
}

Lion::Lion(const std::vector<torch::optim::OptimizerParamGroup>& groups,
           const LionOptions& defaults)
    : Optimizer(groups, std::make_unique<LionOptions>(defaults)) {
  check(defaults);
  for (const auto& group : param_groups()) {
    check(static_cast<const LionOptions&>(group.options()));
  }
}

at::Tensor Lion::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const LionOptions&>(group.options());
    const auto [beta1, beta2] = options.betas();
    for (auto& parameter : group.params()) {
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      TORCH_CHECK(!gradient.is_sparse(), "zero::Lion: a gradient of sizes ", gradient.sizes(),
                  " is sparse; make the embedding with sparse(false).");
      auto& slot = state()[parameter.unsafeGetTensorImpl()];
      if (slot == nullptr) slot = std::make_unique<LionParamState>();
      auto& state = static_cast<LionParamState&>(*slot);
      if (!state.exp_avg().defined()) state.exp_avg(at::zeros_like(parameter));
      at::Tensor& average = state.exp_avg();
      parameter.mul_(1.0 - options.lr() * options.weight_decay());
      parameter.add_(at::sign(average * beta1 + gradient * (1.0 - beta1)), -options.lr());
      average.mul_(beta2).add_(gradient, 1.0 - beta2);
    }
  }
  return loss;
}

void Lion::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LionParamState, LionOptions>(archive, *this);
}

void Lion::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<LionParamState, LionOptions>(archive, *this);
}

}  // namespace zero
