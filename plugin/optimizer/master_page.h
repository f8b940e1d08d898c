// SPDX-License-Identifier: Apache-2.0
// One trained page: its master shard, and for each of its parameters what the user's optimizer holds
// instead. Keeps masters and compute weights in agreement, whoever writes either.
#pragma once

#include <memory>
#include <vector>

#include "plugin/optimizer/master_views.h"

namespace zero {

struct MasterOptions {
  ShardPlace shard;
  Place home = Place::kDevice;  // of the compute weights
};

class MasterPage {
 public:
  struct Entry {  // one parameter
    MasterRange range;
    int group = -1;        // of the optimizer; -1: in none, so it is never updated
    uint32_t version = 0;  // of the parameter when masters and compute weights last agreed
    std::unique_ptr<MasterView> view;
    std::unique_ptr<MasterGradient> gradient;
  };

  MasterPage(ParameterPage& page, ParameterPages& pages, const MasterOptions& options,
             Buffers& buffers, Ledger& ledger);
  ~MasterPage();
  MasterPage(const MasterPage&) = delete;
  MasterPage& operator=(const MasterPage&) = delete;

  ParameterPage& page() const { return page_; }
  MasterShard& shard() { return shard_; }
  std::vector<Entry>& entries() { return entries_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const NamedParameter& parameter_of(const Entry& entry) const;

  // Makes the views. `on_plain_write` is called when a master was written by an operator.
  void connect(Gradients& gradients, std::function<void()> on_plain_write);
  // The view's `.grad()` is there or not.
  void set_gradient(size_t parameter, bool present);
  // The user has cleared this gradient in the optimizer.
  bool cleared(size_t parameter) const;

  // Masters follow what the user has written into the page's parameters in place.
  void follow_writes();
  // A whole page that comes and goes holds old values from now on.
  void forget_whole();
  // Makes compute weights from masters. The whole page has been forgotten.
  void publish();
  // As after an optimizer of LibTorch, a graph that saved the old values must not be used again.
  void outdate_graphs() const;

 private:
  void note_contents();
  void written(const std::function<void()>& on_plain_write);

  ParameterPage& page_;
  ParameterPages& pages_;
  int shards_;
  MasterShard shard_;
  std::vector<Entry> entries_;
  std::vector<int> entry_of_;  // by index into PageLayout::parameters; -1: no optimizer holds it
};

}  // namespace zero
