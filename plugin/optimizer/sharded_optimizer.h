// SPDX-License-Identifier: Apache-2.0
// One optimizer's step on this rank's shards. The user's torch::optim object stays the owner of
// options and state; its groups point at the master shards (see master_views.h).
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "plugin/optimizer/master_page.h"
#include "plugin/optimizer/update_rules.h"

namespace zero {

struct ShardedOptimizerOptions {
  MasterOptions masters;
  int64_t call_elements = kNoLimit;  // that one call of the update handles; 0: one parameter
  kernels::Isa isa = kernels::Isa::kPortable;
  bool allow_untested = false;  // take optimizers without a kernel
};

class ShardedOptimizer {
 public:
  // `index` is the optimizer's in PageLayout::optimizer. Books masters and state; the optimizer is
  // not touched yet.
  ShardedOptimizer(torch::optim::Optimizer& optimizer, int index, ParameterPages& pages,
                   const ShardedOptimizerOptions& options, Buffers& buffers, Ledger& ledger,
                   kernels::ThreadPool& pool);
  // Gives the optimizer its parameters back, unless it is gone.
  ~ShardedOptimizer();

  const torch::optim::Optimizer& user() const { return *optimizer_; }
  // The exact values of a page's shard, during ParameterPages::adopt().
  void initialize(const ParameterPage& page, const at::Tensor& exact_shard);
  // Points the groups at the masters, and cuts the state of earlier steps into shards.
  void connect(Gradients& gradients);
  // The same model goes on with this optimizer, which has its own options and begins with its own
  // state; the masters stay as they are. `gather` as in return_state().
  void exchange(torch::optim::Optimizer& other, Communicator& gather);
  // Throws when exchange() with this one would.
  void check_exchange(const torch::optim::Optimizer& other) const;
  // One of the masters that stand in its groups.
  bool holds(const at::Tensor& tensor) const;
  // A frozen page whose parameters this optimizer holds is trained from now on.
  void add(ParameterPage& page, Gradients& gradients);
  // The optimizer gets its parameters back, and with them its state in whole tensors, so that a
  // plain loop can go on with it. Collective where ranks share parameters.
  void return_state(Communicator& gather);

  MasterPage* page_of(const ParameterPage& page) const;
  // A plain optimizer.step() has written masters.
  bool plain_step_seen() const { return plain_step_seen_; }
  // Throws unless the optimizer is alive, its groups are as they were, and no page is in use.
  void check_ready() const;
  // State was loaded, or made by a plain step: it lies elsewhere than in our buffers.
  bool has_state_elsewhere() const;
  // Throws when it does not fit this rank's masters.
  void check_state_elsewhere() const;
  // Updates every parameter that has a gradient, with gradient * scale, and refreshes the compute
  // weights. Returns the number of calls of our kernels.
  int64_t step(Gradients& gradients, float scale);
  // Where the last step() ran by our kernels.
  bool ran_on_cpu() const { return ran_on_cpu_; }
  bool ran_on_cuda() const { return ran_on_cuda_; }

 private:
  using Entry = MasterPage::Entry;

  // Calls action(shard, range, which moment, its tensor) for all state of earlier steps.
  template <class Action>
  void for_each_moment(const Action& action) const;
  MasterPage& book(ParameterPage& page);
  void check_state(const torch::optim::Optimizer& optimizer) const;
  void take_over_groups();
  void give_back_groups();
  void check_groups() const;
  void book_moments();
  void adopt_state(MasterPage& page, const Entry& entry, const void* key);
  // The state of an entry, made when there is none and the rule needs one; else null.
  torch::optim::OptimizerParamState* state_of(MasterPage& page, const Entry& entry, bool& is_new);
  void own_step(Gradients& gradients, float scale);
  void prepare(MasterPage& page, const Entry& entry, kernels::Segment& segment);
  void return_state(MasterPage& page, Communicator& gather);
  // Nothing tells us that the user's optimizer was destroyed, but with it go its handles to the
  // masters.
  bool is_alive() const;
  bool holds_any() const;

  torch::optim::Optimizer* optimizer_;
  const int index_;
  ParameterPages& pages_;
  ShardedOptimizerOptions options_;
  Buffers& buffers_;
  Ledger& ledger_;
  kernels::ThreadPool& pool_;
  const UpdateRule* rule_;  // null: the optimizer's own step runs
  std::vector<std::unique_ptr<MasterPage>> masters_;
  std::vector<MasterPage*> by_page_;  // by page id
  std::vector<size_t> group_sizes_;   // as we know them
  bool plain_step_seen_ = false;
  bool ran_on_cpu_ = false;
  bool ran_on_cuda_ = false;
};

}  // namespace zero
