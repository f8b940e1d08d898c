// SPDX-License-Identifier: Apache-2.0
// The optimizer's step on this rank's shards. The user's torch::optim object stays the owner of
// options and state; its groups point at the master shards (see master_views.h).
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <string>
#include <vector>

#include "plugin/optimizer/master_views.h"

namespace zero {

struct ShardedOptimizerOptions {
  ShardPlace shard;
  Place home = Place::kDevice;       // of the compute weights
  int64_t call_elements = kNoLimit;  // that one call of the update handles; 0: one parameter
  kernels::Isa isa = kernels::Isa::kPortable;
};

class ShardedOptimizer {
 public:
  // Books masters and state; the optimizer is not touched yet.
  ShardedOptimizer(torch::optim::Optimizer& optimizer, ParameterPages& pages,
                   const ShardedOptimizerOptions& options, Buffers& buffers, Ledger& ledger,
                   kernels::ThreadPool& pool);
  // Gives the optimizer its parameters back, unless it is gone.
  ~ShardedOptimizer();

  // The exact values of a page's shard, during ParameterPages::adopt().
  void initialize(const ParameterPage& page, const at::Tensor& exact_shard);
  // Points the groups at the masters; gradients appear there after each backward.
  void connect(Gradients& gradients);

  // A plain optimizer.step() has written masters.
  bool plain_step_seen() const { return plain_step_seen_; }
  // Updates every parameter that has a gradient, with gradient * scale, and refreshes the compute
  // weights. Returns the number of calls of the update.
  int64_t step(Gradients& gradients, float scale);
  // What ran the last step(): name_of(Isa), "cuda", or both.
  std::string kernels_run() const;

 private:
  struct Entry {  // one trainable parameter
    MasterRange range;
    size_t group = 0;
    uint32_t version = 0;  // of the parameter when masters and compute weights last agreed
    std::unique_ptr<MasterView> view;
    std::unique_ptr<MasterGradient> gradient;
  };
  struct PageEntry {
    std::unique_ptr<MasterShard> shard;
    std::vector<Entry> entries;
    std::vector<size_t> entry_of;  // by index into PageLayout::parameters
  };

  const NamedParameter& parameter_of(const PageEntry& page, const Entry& entry) const;
  Entry& entry_of(const ParameterPage& page, size_t parameter);
  // Masters follow what the user has written into the page's parameters in place.
  void follow_writes(PageEntry& page);
  void note_contents(PageEntry& page);
  // A plain step has written masters of this page.
  void outdate(PageEntry& page);
  void outdate_graphs(const PageEntry& page) const;
  // A whole page that comes and goes holds old values from now on.
  void forget_whole(PageEntry& page);
  // Makes compute weights from masters. The whole page has been forgotten.
  void publish(PageEntry& page);
  void check_frozen() const;
  // Nothing tells us that the user's optimizer was destroyed, but with it go its handles to the
  // masters.
  bool optimizer_is_alive() const;
  // Its groups hold as many parameters as at setup.
  bool groups_are_ours() const;

  torch::optim::Optimizer& optimizer_;
  ParameterPages& pages_;
  ShardedOptimizerOptions options_;
  kernels::ThreadPool& pool_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<std::unique_ptr<PageEntry>> entries_;
  std::vector<PageEntry*> by_page_;                       // by page id; null for frozen pages
  std::vector<std::vector<at::Tensor>> user_parameters_;  // per group, to give back
  bool plain_step_seen_ = false;
  bool ran_on_cpu_ = false;
  bool ran_on_cuda_ = false;
  std::vector<at::Tensor> frozen_;  // in a group, but without gradients at setup
};

}  // namespace zero
