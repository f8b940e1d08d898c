// SPDX-License-Identifier: Apache-2.0
// The optimizers of one setup. No page has parameters of two, so each steps and clears its own.
#pragma once

#include <memory>
#include <vector>

#include "plugin/optimizer/sharded_optimizer.h"
#include "plugin/partition/control.h"

namespace zero {

class Optimizers {
 public:
  // Books masters and state; the optimizers are not touched yet.
  Optimizers(const std::vector<torch::optim::Optimizer*>& users, ParameterPages& pages,
             const ShardedOptimizerOptions& options, Buffers& buffers, Ledger& ledger,
             kernels::ThreadPool& pool);

  void initialize(const ParameterPage& page, const at::Tensor& exact_shard);
  // Points the optimizers at the masters; gradients appear there after each backward.
  void connect(Gradients& gradients);
  // The same models go on with these optimizers, one for each of those before.
  void exchange(const std::vector<torch::optim::Optimizer*>& users, Communicator& gather);
  // Throws when exchange() would: another number of optimizers, or one that holds what another one
  // held before.
  void check_exchange(const std::vector<torch::optim::Optimizer*>& users) const;
  // See ShardedOptimizer::return_state().
  void return_state(Communicator& gather);

  // Parameters that were frozen at setup and require a gradient now get masters, state and
  // gradients. Before a backward or a step; every rank must have thawed the same.
  void notice_thawed(Gradients& gradients, Control& control);

  size_t count() const { return all_.size(); }
  // Throws for one that was not given to setup.
  int index_of(const torch::optim::Optimizer& user) const;
  bool plain_step_seen() const;
  // Steps one optimizer, or all in their order. Returns the number of calls of our kernels.
  int64_t step(Gradients& gradients, Control& control, float scale, Selection of);
  // What ran the last step(): name_of(Isa), "cuda", or both; nothing where an optimizer's own did.
  std::string kernels_run(Selection of) const;

 private:
  ParameterPages& pages_;
  kernels::Isa isa_;
  std::vector<std::unique_ptr<ShardedOptimizer>> all_;
};

}  // namespace zero
