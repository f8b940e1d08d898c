// SPDX-License-Identifier: Apache-2.0
// Decides which parameter pages are whole on the device: brings a page in when an operator touches
// it, fetches ahead what is expected next, and evicts what is expected last when the byte budget is
// full.
//
// A page is home (no slot), expected (it has room, and the ranks have been asked for it), arriving
// (its copy or all-gather is enqueued; users wait for an event on the stream) or resident; pinned
// while an operator runs. Transfers are enqueued on a side stream and wait there for the last user
// of the slot before. All members may be called from any thread.
//
// Under several ranks a page comes by an all-gather, which all ranks enter in the order that the
// rounds say (Note [Rounds]), so ranks may touch different pages, in different orders. One rule is
// left: the homes of all ranks must hold the same state of the model. So ranks meet before a page is
// written in place and before weights are updated, and what they disagree on is an error that names
// it. A page that another rank needs alone passes through scratch memory, or stays if there is room.
#pragma once

#include <mutex>
#include <vector>

#include "plugin/memory/slot_arena.h"
#include "plugin/paging/parameter_page.h"
#include "plugin/paging/successors.h"
#include "plugin/partition/rounds.h"
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

class Residency final : private Rounds::Member {
 public:
  // `rounds` is null with one rank.
  Residency(const ResidencyOptions& options, Buffers& buffers, Ledger& ledger, Communicator& gather,
            Rounds* rounds);
  ~Residency();

  // All ranks are here: from now on pages can be gathered.
  void begin();
  // All ranks are here: nothing is pending any more.
  void end();

  // Takes charge of a page that is not permanent.
  void manage(ParameterPage& page);

  void pin(ParameterPage& page, Access access);
  // As pin(), for a zero::GatheredParameters scope, which asks for whole parameters whatever they
  // take: where the budget has no room the page gets memory of its own until it is evicted.
  void pin_beyond_budget(ParameterPage& page);
  void unpin(ParameterPage& page) noexcept;
  // The operator that has pinned the page is about to write it.
  void announce_write(ParameterPage& page);

  // Waits until all ranks have come to this place (and the page, if any); RankMismatch when they
  // have come to different ones. Before every collective that blocks, so that no rank waits in it
  // for one that waits for a page. With one rank it does nothing.
  void meet(const char* place, const ParameterPage* page = nullptr);
  // Ranks may be at different places, so that reductions must be met for one by one.
  bool careful() const { return rounds_ != nullptr && careful_; }

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

 private:
  using Lock = Rounds::Lock;
  enum class Room : uint8_t { kInBudget, kBeyond };
  void pin(ParameterPage& page, Access access, Room room);
  void require_whole(ParameterPage& page, Room room, const Lock& lock);
  // Makes room and, under several ranks, asks for the page.
  void expect(ParameterPage& page, Room room, const Lock& lock);
  // Enqueues the transfer into the page's room.
  void bring_in(ParameterPage& page, const Lock& lock);
  void transfer(ParameterPage& page, const at::Tensor& whole);
  void gather(int id, const Lock& lock) override;
  std::string name_of(int id) const override;
  at::Tensor scratch(int64_t bytes);
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
  Communicator& gather_;
  Rounds* rounds_;
  int member_ = -1;  // of the rounds
  bool careful_ = true;
  SideStream transfers_;
  Buffer slots_;
  Buffer scratch_;  // for pages that only other ranks need
  mutable std::mutex own_mutex_;
  std::mutex& mutex_;  // of the rounds, where there are any
  SlotArena arena_;
  Successors successors_;
  std::vector<ParameterPage*> pages_;  // by id; nullptr for permanent pages
  uint64_t clock_ = 0;
  PagingCounters counters_;
};

}  // namespace zero
