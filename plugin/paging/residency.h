// SPDX-License-Identifier: Apache-2.0
// Decides which parameter pages are whole on the device: brings a page in when an operator touches
// it, fetches ahead what is expected next, and evicts what is expected last when the byte budget is
// full.
//
// A page is home (no slot), arriving (its copy or all-gather is enqueued; users wait for an event
// on the stream) or resident; pinned while an operator runs. Transfers are enqueued on a side
// stream and wait there for the last user of the slot before; the host never waits for the device.
// All members may be called from any thread. Under several ranks all ranks touch pages in the same
// order, so they fetch and evict alike.
#pragma once

#include <mutex>
#include <vector>

#include "plugin/memory/slot_arena.h"
#include "plugin/paging/parameter_page.h"
#include "plugin/paging/successors.h"
#include "plugin/partition/communicator.h"
#include "zero/engine_config.h"

namespace zero {

struct ResidencyOptions {
  int64_t budget = 0;             // bytes of whole pages at once
  int64_t prefetch_pages = 0;     // fetched ahead, until as many are under way
  int64_t prefetch_elements = 0;  // and until as many elements are
  int64_t reuse_elements = 0;     // a used page whose next use lies farther ahead is released
  int rank = 0;
  int world_size = 1;
};

class Residency {
 public:
  Residency(const ResidencyOptions& options, Buffers& buffers, Ledger& ledger,
            Communicator* gather);

  // Takes charge of a page that is not permanent.
  void manage(ParameterPage& page);

  void pin(ParameterPage& page, Access access);
  // As pin(), for a zero::GatheredParameters scope, which asks for whole parameters whatever they
  // take: where the budget has no room the page gets memory of its own until it is evicted.
  void pin_beyond_budget(ParameterPage& page);
  void unpin(ParameterPage& page) noexcept;

  // Carries in-place writes to the homes; pages stay resident.
  void write_back();
  void write_back(ParameterPage& page);
  // Forgets what is resident, without writing back: the homes have changed, or are about to. No
  // page may be pinned.
  void invalidate();
  void invalidate(ParameterPage& page);
  // Throws when a page is pinned, with its name.
  void require_unpinned() const;

  PagingCounters counters() const;
  // Which pages were gathered from all ranks, and in which order, as a short text that is equal on
  // ranks that did the same.
  std::string order() const;

 private:
  using Lock = std::lock_guard<std::mutex>;
  enum class Room : uint8_t { kInBudget, kBeyond };
  void pin(ParameterPage& page, Access access, Room room);
  void bring_in(ParameterPage& page, Room room, const Lock& lock);
  // Room for the page's bytes; undefined when the budget has none.
  at::Tensor make_room(ParameterPage& page, Room room, const Lock& lock);
  void give_room(ParameterPage& page, const Lock& lock);
  // What is expected next and may be under way at once.
  std::vector<int> expected_soon(const Lock& lock) const;
  void fetch_ahead(const Lock& lock);
  // Releases used pages whose next use lies too far ahead.
  void release_far(const Lock& lock);
  // Frees the page that is expected last; false when none may go. Pages in `keep` stay.
  bool evict_one(const std::vector<int>& keep, const Lock& lock);
  void evict(ParameterPage& page, const Lock& lock);
  void carry_home(ParameterPage& page, const Lock& lock);
  void drop(ParameterPage& page, const Lock& lock);
  void forget(ParameterPage& page, const Lock& lock);
  void require_unpinned(const ParameterPage& page, const Lock& lock) const;
  std::string pinned_names(const Lock& lock) const;

  ResidencyOptions options_;
  Buffers& buffers_;
  Ledger& ledger_;
  Communicator* gather_;
  SideStream transfers_;
  Buffer slots_;
  mutable std::mutex mutex_;
  SlotArena arena_;
  Successors successors_;
  std::vector<ParameterPage*> pages_;  // by id; nullptr for permanent pages
  uint64_t clock_ = 0;
  PagingCounters counters_;
  uint64_t order_ = 0;  // fingerprint of the gathered pages
  int64_t gathered_ = 0;
  int last_gathered_ = -1;
};

}  // namespace zero
