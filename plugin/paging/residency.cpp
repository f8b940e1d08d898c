// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/residency.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>

#include "plugin/partition/whereabouts.h"

namespace zero {

Residency::Residency(const ResidencyOptions& options, Buffers& buffers, Ledger& ledger,
                     Communicator& gather, Rounds* rounds)
    : options_(options),
      buffers_(buffers),
      ledger_(ledger),
      gather_(gather),
      rounds_(rounds),
      transfers_(buffers.device()),
      slots_(buffers.allocate(MemoryClass::kParameterSlots, Place::kDevice, options.budget,
                              at::kByte)),
      mutex_(rounds != nullptr ? rounds->mutex() : own_mutex_),
      arena_(options.budget) {}

Residency::~Residency() {
  if (member_ >= 0) rounds_->desert(member_);
}

void Residency::begin() {
  if (rounds_ != nullptr) member_ = rounds_->enlist(*this);
}

void Residency::end() {
  if (member_ < 0) return;
  meet("teardown()");
  rounds_->leave(member_);
  member_ = -1;
}

void Residency::manage(ParameterPage& page) {
  page.residency_ = this;
  if (static_cast<int>(pages_.size()) <= page.id()) pages_.resize(page.id() + 1, nullptr);
  pages_[page.id()] = &page;
}

void Residency::pin(ParameterPage& page, Access access) { pin(page, access, Room::kInBudget); }

void Residency::pin_beyond_budget(ParameterPage& page) { pin(page, Access::kRead, Room::kBeyond); }

void Residency::pin(ParameterPage& page, Access access, Room room) {
  const Doing doing([&] { return "the fetch of " + page.name(); });
  const Lock lock(mutex_);
  // Kernels call operators on pages that are pinned for them: that says nothing about what comes
  // next. Nor does a second touch of the same page, unless it has left meanwhile.
  const bool in_use = page.pins_ > 0;
  const bool news = !in_use && (successors_.touch(page.id()) || !page.whole_.defined());
  page.last_touch_ = ++clock_;
  ++page.pins_;  // before anything is evicted for it
  page.used_ = true;
  try {
    if (news) release_far(lock);
    require_whole(page, room, lock);
    page.ready_.wait();
    if (news) fetch_ahead(lock);
    if (rounds_ != nullptr) rounds_->catch_up(lock);
  } catch (...) {
    --page.pins_;
    throw;
  }
  if (access == Access::kWrite) page.dirty_ = true;
}

void Residency::require_whole(ParameterPage& page, Room room, const Lock& lock) {
  if (page.whole_.defined()) return;
  if (!page.room_.defined()) expect(page, room, lock);
  if (rounds_ == nullptr) bring_in(page, lock);
  while (!page.whole_.defined()) rounds_->hear(member_, lock);
  ++counters_.faults;
}

void Residency::announce_write(ParameterPage& page) { meet("a write in place to ", &page); }

void Residency::meet(const char* place, const ParameterPage* page) {
  if (member_ < 0) return;
  const Doing doing([&] {
    std::string text = place;
    return page != nullptr ? text + page->name() : text;
  });
  const Lock lock(mutex_);
  rounds_->meet(member_, place, page != nullptr ? page->id() : -1, lock);
  careful_ = rounds_->blocking() || rounds_->diverged();
}

void Residency::unpin(ParameterPage& page) noexcept {
  const Lock lock(mutex_);
  page.last_use_.record();
  --page.pins_;
  if (page.pins_ == 0 && page.beyond_budget_.tensor.defined()) evict(page, lock);
}

at::Tensor Residency::make_room(ParameterPage& page, Room room, const Lock& lock) {
  const int64_t bytes = page.layout().bytes();
  auto slot = arena_.take(bytes);
  while (!slot && evict_one({}, lock)) slot = arena_.take(bytes);
  if (slot) {
    page.slot_ = *slot;
    return slots_.tensor.narrow(0, *slot, bytes);
  }
  if (room == Room::kInBudget) return {};
  const auto on_transfers = transfers_.enter();  // the allocation's zeros come before the transfer
  page.beyond_budget_ =
      buffers_.allocate(MemoryClass::kParameterSlots, Place::kDevice, bytes, at::kByte);
  return page.beyond_budget_.tensor;
}

void Residency::give_room(ParameterPage& page, const Lock&) {
  if (page.slot_ >= 0) arena_.give(page.slot_);
  page.slot_ = -1;
  page.room_.reset();
  page.beyond_budget_ = {};
}

void Residency::expect(ParameterPage& page, Room room, const Lock& lock) {
  const int64_t bytes = page.layout().bytes();
  at::Tensor memory = make_room(page, room, lock);
  if (!memory.defined() && rounds_ != nullptr) {
    // Pages that were asked for hold their room until they come; after that they may be evicted.
    rounds_->settle(lock);
    if (page.room_.defined()) return;  // another rank had asked for this one, too
    memory = make_room(page, room, lock);
  }
  page.room_ = memory;
  TORCH_CHECK(page.room_.defined(),
              "LibZeRO: one operator needs more whole parameters at once than parameter_budget (",
              options_.budget, " bytes) holds: ", bytes, " bytes more for ",
              page.storages_.front()->what(), " beside ", pinned_names(lock),
              ". Raise parameter_budget, or set it to 0 to have it chosen.");
  if (rounds_ == nullptr) return;
  try {
    rounds_->ask(member_, page.id(), lock);
  } catch (...) {
    give_room(page, lock);
    throw;
  }
}

void Residency::bring_in(ParameterPage& page, const Lock& lock) {
  const at::Tensor whole = page.room_.view(page.layout().dtype);
  try {
    const auto on_transfers = transfers_.enter();
    transfer(page, whole);
    page.ready_.record();
  } catch (...) {
    give_room(page, lock);
    throw;
  }
  page.whole_ = whole;
  page.used_ = page.pins_ > 0;
  page.bind_storages(whole.data_ptr());
  ledger_.add_live_parameters(page.layout().bytes());
}

void Residency::transfer(ParameterPage& page, const at::Tensor& whole) {
  page.home_ready_.wait();
  if (options_.world_size == 1) {
    at::Tensor(whole).copy_(page.home(), /*non_blocking=*/true);
  } else if (page.home().device() == whole.device()) {
    gather_.all_gather(whole, page.home());
  } else {
    const int64_t shard = page.layout().shard_numel;
    at::Tensor own = whole.narrow(0, options_.rank * shard, shard);
    own.copy_(page.home(), /*non_blocking=*/true);
    gather_.all_gather(whole, own);
  }
}

// All ranks are here, with the same page.
void Residency::gather(int id, const Lock& lock) {
  ParameterPage& page = *pages_[id];
  const Doing doing([&] { return "the gather of " + page.name(); });
  if (page.dirty_) {
    carry_home(page, lock);
    page.dirty_ = page.pins_ > 0;  // the write that it is pinned for may be still to come
  }
  const int64_t bytes = page.layout().bytes();
  if (!page.whole_.defined() && !page.room_.defined()) {
    // Only others need it now. Where there is room it may stay.
    if (const auto slot = arena_.take(bytes)) {
      page.slot_ = *slot;
      page.room_ = slots_.tensor.narrow(0, *slot, bytes);
    }
  }
  if (page.room_.defined() && !page.whole_.defined()) {
    bring_in(page, lock);
    return;
  }
  const at::Tensor passing = scratch(bytes).view(page.layout().dtype);
  const auto on_transfers = transfers_.enter();
  transfer(page, passing);
}

at::Tensor Residency::scratch(int64_t bytes) {
  if (!scratch_.tensor.defined()) {
    int64_t largest = 0;
    for (const ParameterPage* page : pages_) {
      if (page != nullptr) largest = std::max(largest, page->layout().bytes());
    }
    const c10::InferenceMode normal(false);
    const auto on_transfers = transfers_.enter();
    scratch_ = buffers_.allocate(MemoryClass::kParameterSlots, Place::kDevice, largest, at::kByte);
  }
  return scratch_.tensor.narrow(0, 0, bytes);
}

std::string Residency::name_of(int id) const { return pages_[id]->name(); }

std::vector<int> Residency::expected_soon(const Lock&) const {
  const auto count = std::min<int64_t>(options_.prefetch_pages, 2 * pages_.size());
  auto expected = successors_.expect(static_cast<int>(count));
  int64_t elements = 0;
  size_t kept = 0;
  while (kept < expected.size() && elements < options_.prefetch_elements) {
    elements += pages_[expected[kept++]]->layout().numel;
  }
  expected.resize(kept);
  return expected;
}

void Residency::fetch_ahead(const Lock& lock) {
  const auto expected = expected_soon(lock);
  for (const int id : expected) {
    ParameterPage& page = *pages_[id];
    if (page.room_.defined()) continue;
    // Room is made only at the cost of pages that are not expected soon themselves.
    while (arena_.capacity() - arena_.used() < page.layout().bytes()) {
      if (!evict_one(expected, lock)) return;
    }
    const auto slot = arena_.take(page.layout().bytes());
    if (!slot) return;
    arena_.give(*slot);
    expect(page, Room::kInBudget, lock);
    if (rounds_ == nullptr) bring_in(page, lock);
    ++counters_.prefetches;
  }
}

void Residency::release_far(const Lock& lock) {
  if (options_.reuse_elements == kNoLimit) return;
  const size_t horizon = 2 * pages_.size();
  const auto order = successors_.expect(static_cast<int>(horizon));
  std::vector<bool> near(pages_.size(), false);
  int64_t elements = 0;
  size_t seen = 0;
  while (seen < order.size() && elements < options_.reuse_elements) {
    near[order[seen]] = true;
    elements += pages_[order[seen++]]->layout().numel;
  }
  if (seen == order.size() && order.size() < horizon) return;  // what comes later is not known yet
  for (ParameterPage* page : pages_) {
    if (page == nullptr || page->slot_ < 0 || !page->whole_.defined() || page->pins_ > 0 ||
        !page->used_ || near[page->id()])
      continue;
    evict(*page, lock);
    ++counters_.releases;
  }
}

bool Residency::evict_one(const std::vector<int>& keep, const Lock& lock) {
  constexpr int kFar = std::numeric_limits<int>::max();
  const auto order = successors_.expect(static_cast<int>(2 * pages_.size()));
  std::vector<int> distance(pages_.size(), kFar);
  for (int i = static_cast<int>(order.size()) - 1; i >= 0; --i) distance[order[i]] = i;

  ParameterPage* victim = nullptr;
  const auto goes_before = [&](const ParameterPage& a, const ParameterPage& b) {
    if (distance[a.id()] != distance[b.id()]) return distance[a.id()] > distance[b.id()];
    return a.last_touch_ < b.last_touch_;
  };
  for (ParameterPage* page : pages_) {
    if (page == nullptr || page->slot_ < 0 || page->pins_ > 0 || !page->whole_.defined()) continue;
    if (std::find(keep.begin(), keep.end(), page->id()) != keep.end()) continue;
    if (victim == nullptr || goes_before(*page, *victim)) victim = page;
  }
  if (victim == nullptr) return false;
  evict(*victim, lock);
  ++counters_.evictions;
  return true;
}

void Residency::evict(ParameterPage& page, const Lock& lock) {
  if (page.dirty_) carry_home(page, lock);
  drop(page, lock);
}

void Residency::carry_home(ParameterPage& page, const Lock&) {
  const int64_t shard = page.layout().shard_numel;
  page.last_use_.wait();
  const at::Tensor own = page.whole_.narrow(0, options_.rank * shard, shard);
  if (page.on_written) page.on_written(own);
  page.home_.copy_(own);
  page.home_changed();
  page.dirty_ = false;
  ++counters_.write_backs;
}

void Residency::drop(ParameterPage& page, const Lock& lock) {
  page.release_storages();
  {
    // The slot's next transfer is enqueued behind this page's last user.
    const auto on_transfers = transfers_.enter();
    page.last_use_.wait();
    page.ready_.wait();
  }
  give_room(page, lock);
  page.whole_.reset();
  ledger_.add_live_parameters(-page.layout().bytes());
}

void Residency::write_back() {
  const Lock lock(mutex_);
  for (ParameterPage* page : pages_) {
    if (page != nullptr && page->dirty_) carry_home(*page, lock);
  }
}

void Residency::write_back(ParameterPage& page) {
  const Lock lock(mutex_);
  if (page.dirty_) carry_home(page, lock);
}

void Residency::invalidate() {
  const Lock lock(mutex_);
  for (ParameterPage* page : pages_) {
    if (page != nullptr) forget(*page, lock);
  }
}

void Residency::invalidate(ParameterPage& page) {
  const Lock lock(mutex_);
  forget(page, lock);
}

void Residency::forget(ParameterPage& page, const Lock& lock) {
  if (!page.whole_.defined()) return;
  require_unpinned(page, lock);
  // A copy from a host home may be under way, and the home is about to change.
  page.ready_.synchronize();
  page.dirty_ = false;
  drop(page, lock);
}

void Residency::require_unpinned() const {
  const Lock lock(mutex_);
  for (const ParameterPage* page : pages_) {
    if (page != nullptr) require_unpinned(*page, lock);
  }
}

void Residency::require_unpinned(const ParameterPage& page, const Lock&) const {
  TORCH_CHECK(page.pins_ == 0, "LibZeRO: ", page.storages_.front()->what(),
              " is in use by an operator or a zero::GatheredParameters scope, so it cannot be "
              "updated now. Close the "
              "scope before the step.");
}

PagingCounters Residency::counters() const {
  const Lock lock(mutex_);
  return counters_;
}

std::string Residency::pinned_names(const Lock&) const {
  std::string names;
  for (const ParameterPage* page : pages_) {
    if (page == nullptr || page->pins_ == 0 || !page->whole_.defined()) continue;
    names += (names.empty() ? "" : "; ") + page->storages_.front()->what();
  }
  return names.empty() ? "nothing" : names;
}

}  // namespace zero
