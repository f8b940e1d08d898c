// SPDX-License-Identifier: Apache-2.0
// All pages of one model: puts a model's parameters into pages and takes them out again.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plugin/paging/parameter_page.h"
#include "plugin/paging/residency.h"
#include "plugin/paging/weight_gather.h"
#include "plugin/partition/world.h"
#include "zero/engine_config.h"

namespace zero {

// Which part of a page is this rank's. Below stage 1 every rank holds and updates all of it.
struct ShardPlace {
  int index = 0;
  int count = 1;
};

struct PagingOptions {
  int64_t page_bytes = 0;
  int64_t parameter_budget = 0;                  // bytes; 0: automatic
  const char* budget_flag = "parameter_budget";  // the flag that gave it
  int64_t prefetch_pages = 0;
  int64_t prefetch_elements = kNoLimit;
  int64_t reuse_elements = kNoLimit;  // a page whose next use lies farther ahead is released
  int64_t stays_up_to = 0;            // elements; see LayoutOptions
  int64_t stays_in_all = kNoLimit;
  bool whole_pages_stay = true;  // below stage 3, or one rank without parameter offload
  Place home = Place::kDevice;
  double offloaded_optimizer = 0.0;  // part of the optimizer that lies in host memory
  WeightGatherOptions weight_gather;
  ShardPlace shard;
  std::optional<at::ScalarType> compute_dtype;
};

class ParameterPages {
 public:
  // Plans the pages and books their memory; the model is not touched yet.
  ParameterPages(const std::vector<NamedParameter>& parameters, const PagingOptions& options,
                 Buffers& buffers, Ledger& ledger, World& world);
  ~ParameterPages();

  // Moves the values of every parameter into its page and the page's shard to its home; all ranks
  // take rank 0's values. `on_shard` sees each page's shard in the parameters' original precision
  // before it is rounded.
  void adopt(const std::function<void(ParameterPage&, const at::Tensor& exact_shard)>& on_shard);

  // The optimizer of this frozen page updates it from now on.
  void train(ParameterPage& page);

  // ParameterPage::reclaim() for all.
  void reclaim();

  // Gives every parameter a plain storage of its own with its whole values. Collective.
  void hand_back();

  // Stale pages are made new, all at once and in one order: below stage 3 that is a collective, and
  // at stage 3 other ranks may ask for any page next. Before any page is used. Any thread.
  void freshen();
  // Waits until all ranks have come to this place, where ranks may be at different ones: see
  // Residency::meet().
  void meet(const char* place, const ParameterPage* page = nullptr);
  // A plain optimizer.step() is about to write masters. The first time since pages were new, ranks
  // meet.
  void before_update();

  // The home has new values: whole pages that stay are completed from all ranks' shards.
  void refresh(ParameterPage& page);

  const std::vector<std::unique_ptr<ParameterPage>>& all() const { return pages_; }
  // The page that holds this parameter; null for a tensor that is none, or has no elements.
  ParameterPage* page_of(const at::Tensor& parameter) const;
  // Bytes of the whole pages that stay.
  int64_t permanent_bytes() const;
  // Between ranks, for the pages that stay whole.
  TrafficCounters traffic() const {
    return weight_gather_ ? weight_gather_->traffic() : TrafficCounters();
  }
  // Null when all whole pages stay.
  Residency* residency() { return residency_.get(); }

 private:
  void predict(Ledger& ledger) const;
  // The first pages keep their part of the optimizer on the device.
  void place_optimizer();
  void make_weight_gather(Ledger& ledger);
  at::Tensor exact_values(const ParameterPage& page) const;
  int64_t choose_budget() const;

  PagingOptions options_;
  Buffers& buffers_;
  World& world_;
  Communicator& gather_;  // not that of the pages, which keeps to their order
  std::vector<std::unique_ptr<ParameterPage>> pages_;
  std::unordered_map<const c10::TensorImpl*, ParameterPage*> by_parameter_;
  std::unique_ptr<Residency> residency_;
  std::unique_ptr<WeightGather> weight_gather_;  // null where pages are not sharded
  friend class ParameterPage;
  std::mutex freshen_mutex_;
  std::atomic<int> stale_{0};  // pages
};

}  // namespace zero
