// SPDX-License-Identifier: Apache-2.0
// The engine: puts the rooms together for one model and runs a step through them. zero::Strategy is
// its face.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <unordered_set>
#include <vector>

#include "plugin/activations/activations.h"
#include "plugin/engine/step_clock.h"
#include "plugin/gradients/gradients.h"
#include "plugin/gradients/loss_scaler.h"
#include "plugin/memory/ledger.h"
#include "plugin/optimizer/optimizers.h"
#include "plugin/paging/parameter_pages.h"
#include "plugin/partition/world.h"
#include "zero/engine_config.h"

namespace zero {

struct StepReport;

class Engine {
 public:
  // `config` must outlive the engine.
  explicit Engine(const EngineConfig& config) : config_(config) {}
  ~Engine();

  // A second setup of the same models goes on with other optimizers.
  void setup(const std::vector<torch::nn::Module*>& models,
             const std::vector<torch::optim::Optimizer*>& optimizers);
  // `keep_state`: the optimizers get their state back in whole tensors.
  void teardown(bool keep_state);

  void backward(const at::Tensor& loss, bool retain_graph);
  // All optimizers, or this one.
  StepReport step(const torch::optim::Optimizer* optimizer = nullptr);
  double loss_scale() const { return scaler_.scale(); }
  double clip_grad_norm_(double max_norm, double norm_type);
  void clip_grad_value_(double clip_value);
  void zero_grad();
  at::Tensor gradient(const at::Tensor& parameter);

  World& world();
  at::Device device();
  MemoryReport memory_report() const;
  ActivationReport activation_report() const;

  // Whether teardown() needs no other rank.
  bool can_tear_down_alone() const;

  // The pages of these parameters, or of all, each once and pinned, in one order on every rank.
  // close_scope() unpins.
  std::vector<ParameterPage*> open_scope(const std::optional<std::vector<at::Tensor>>& parameters);
  void close_scope(const std::vector<ParameterPage*>& pages) noexcept;
  // Whole values of `rank` go to all ranks and to the homes. The pages are pinned.
  void take_values_from(int rank, const std::vector<ParameterPage*>& pages);

 private:
  void agree(const std::vector<NamedParameter>& parameters,
             const std::vector<torch::optim::Optimizer*>& optimizers);
  void make_rooms(const std::vector<NamedParameter>& parameters,
                  const std::vector<torch::optim::Optimizer*>& optimizers);
  void exchange_optimizers(const std::vector<torch::nn::Module*>& models,
                           const std::vector<torch::optim::Optimizer*>& optimizers);
  // The pages hold exactly the parameters of these models.
  bool holds(const std::vector<torch::nn::Module*>& models) const;
  void drop_rooms();
  void connect();
  void begin_backward();
  void check_plain_step();
  // Whether this step's gradients may be applied. Throws where the flags say so.
  bool accept(double gradient_norm, NonfiniteGradients policy);
  [[noreturn]] void fail_for_overflows(double gradient_norm);
  void move_buffers(torch::nn::Module& model);
  void check_consulted();
  void require_setup(const char* call) const;
  std::vector<ParameterPage*> pages_of(
      const std::optional<std::vector<at::Tensor>>& parameters) const;

  const EngineConfig& config_;
  std::shared_ptr<World> world_;
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();  // of the latest setup
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<kernels::ThreadPool> pool_;
  std::unique_ptr<ParameterPages> pages_;
  std::vector<std::weak_ptr<torch::nn::Module>> models_;  // those that a shared pointer holds
  std::unordered_set<const c10::TensorImpl*> known_;      // the parameters at setup
  std::unique_ptr<Optimizers> optimizers_;
  std::unique_ptr<Gradients> gradients_;
  std::unique_ptr<StepClock> clock_;          // null: nothing is measured
  std::shared_ptr<Activations> activations_;  // empty: no activation flag is on
  LossScaler scaler_;                         // of the latest setup
  at::Tensor loss_;                           // of the latest strategy.backward(), for a message
  std::vector<int64_t> steps_;                // of each optimizer
  int open_scopes_ = 0;                       // of zero::GatheredParameters
  bool consulted_ = false;
};

}  // namespace zero
