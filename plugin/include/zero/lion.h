// SPDX-License-Identifier: Apache-2.0
// zero::Lion: the sign-momentum optimizer that LibTorch lacks, as a torch::optim::Optimizer. It
// works like LibTorch's own: parameter groups, options that a scheduler may change, state that
// torch::save and torch::load carry.
//
//   zero::Lion optimizer(model->parameters(), zero::LionOptions(1e-4).weight_decay(0.1));
//
// One step, with momentum m and gradient g:
//   p <- p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g)
//   m <- beta2 m + (1 - beta2) g
//
// Sparse gradients are refused with a sentence.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace zero {

struct LionOptions : public torch::optim::OptimizerCloneableOptions<LionOptions> {
  LionOptions(double lr = 1e-4) : lr_(lr) {}  // NOLINT: as LibTorch's options are written
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-4;
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.99);
  TORCH_ARG(double, weight_decay) = 0.0;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(const double lr) override { this->lr(lr); }
};

struct LionParamState : public torch::optim::OptimizerCloneableParamState<LionParamState> {
  TORCH_ARG(at::Tensor, exp_avg);

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

class Lion : public torch::optim::Optimizer {
 public:
  explicit Lion(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                const LionOptions& defaults = {});
  explicit Lion(std::vector<at::Tensor> parameters, const LionOptions& defaults = {})
      : Lion({torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}

  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace zero
