// SPDX-License-Identifier: Apache-2.0
// All pages of one model: puts a model's parameters into pages and takes them out again.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "plugin/paging/parameter_page.h"
#include "plugin/paging/residency.h"

namespace zero {

// Which part of a page is this rank's. Below stage 1 every rank holds and updates all of it.
struct ShardPlace {
  int index = 0;
  int count = 1;
};

struct PagingOptions {
  int64_t page_bytes = 0;
  int64_t parameter_budget = 0;  // bytes; 0: automatic
  int64_t prefetch_pages = 0;
  bool whole_pages_stay = true;  // below stage 3, or one rank without parameter offload
  Place home = Place::kDevice;
  ShardPlace shard;
  std::optional<at::ScalarType> compute_dtype;
};

class ParameterPages {
 public:
  // Plans the pages and books their memory; the model is not touched yet.
  ParameterPages(const std::vector<NamedParameter>& parameters, const PagingOptions& options,
                 Buffers& buffers, Ledger& ledger, Communicator& gather);
  ~ParameterPages();

  // Moves the values of every parameter into its page and the page's shard to its home; all ranks
  // take rank 0's values. `on_shard` sees each page's shard in the parameters' original precision
  // before it is rounded.
  void adopt(const std::function<void(ParameterPage&, const at::Tensor& exact_shard)>& on_shard);

  // ParameterPage::reclaim() for all.
  void reclaim();

  // Gives every parameter a plain storage of its own with its whole values. Collective.
  void hand_back();

  // The home has new values: whole pages that stay are completed from all ranks' shards.
  void refresh(ParameterPage& page);

  const std::vector<std::unique_ptr<ParameterPage>>& all() const { return pages_; }
  // Null when all whole pages stay.
  Residency* residency() { return residency_.get(); }

 private:
  void predict(Ledger& ledger) const;
  at::Tensor exact_values(const ParameterPage& page) const;
  int64_t choose_budget(int64_t total) const;

  PagingOptions options_;
  Buffers& buffers_;
  Communicator& gather_;
  std::vector<std::unique_ptr<ParameterPage>> pages_;
  std::unique_ptr<Residency> residency_;
};

}  // namespace zero
