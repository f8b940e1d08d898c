// SPDX-License-Identifier: Apache-2.0
// The engine: puts the rooms together for one model and runs a step through them. zero::Strategy is its face.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "plugin/gradients/gradients.h"
#include "plugin/memory/ledger.h"
#include "plugin/optimizer/sharded_optimizer.h"
#include "plugin/paging/parameter_pages.h"
#include "plugin/partition/world.h"
#include "zero/engine_config.h"

namespace zero {

struct StepReport;

class Engine final : public BackwardListener {
 public:
  // `config` must outlive the engine.
  explicit Engine(const EngineConfig& config) : config_(config) {}
  ~Engine();

  void setup(torch::nn::Module& model, torch::optim::Optimizer* optimizer);
  void teardown();

  StepReport step();
  double clip_grad_norm_(double max_norm);
  void zero_grad();
  at::Tensor gradient(const at::Tensor& parameter);

  World& world();
  at::Device device();
  MemoryReport memory_report() const;

  // The pages of these parameters, each once, in one order on every rank. All pages for an empty list.
  std::vector<ParameterPage*> pages_of(const std::vector<at::Tensor>& parameters) const;
  // Whole values of `rank` go to all ranks and to the homes. The pages are pinned.
  void take_values_from(int rank, const std::vector<ParameterPage*>& pages);

  void backward_begins() override;
  void backward_ends(bool /*completed*/) override {}

 private:
  struct Plan;
  Plan plan();
  void agree(const std::vector<NamedParameter>& parameters);
  void move_buffers(torch::nn::Module& model);
  void check_consulted();
  void require_setup(const char* call) const;

  const EngineConfig& config_;
  std::shared_ptr<World> world_;
  Ledger ledger_;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<kernels::ThreadPool> pool_;
  std::unique_ptr<ParameterPages> pages_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  std::unique_ptr<Gradients> gradients_;
  std::unique_ptr<BackwardSubscription> subscription_;
  int64_t steps_ = 0;
  bool consulted_ = false;
};

}  // namespace zero
