// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/residency.h"

#include <algorithm>
#include <limits>
#include <sstream>

namespace zero {

Residency::Residency(const ResidencyOptions& options, Buffers& buffers, Ledger& ledger,
                     Communicator* gather)
    : options_(options),
      buffers_(buffers),
      ledger_(ledger),
      gather_(gather),
      transfers_(buffers.device()),
      slots_(buffers.allocate(MemoryClass::kParameterSlots, Place::kDevice, options.budget,
                              at::kByte)),
      arena_(options.budget) {}

void Residency::manage(ParameterPage& page) {
  page.residency_ = this;
  if (static_cast<int>(pages_.size()) <= page.id()) pages_.resize(page.id() + 1, nullptr);
  pages_[page.id()] = &page;
}

void Residency::pin(ParameterPage& page, Access access) { pin(page, access, Room::kInBudget); }

void Residency::pin_beyond_budget(ParameterPage& page) { pin(page, Access::kRead, Room::kBeyond); }

void Residency::pin(ParameterPage& page, Access access, Room room) {
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
    if (!page.whole_.defined()) {
      bring_in(page, room, lock);
      ++counters_.faults;
    }
    page.ready_.wait();
    if (news) fetch_ahead(lock);
  } catch (...) {
    --page.pins_;
    throw;
  }
  if (access == Access::kWrite) page.dirty_ = true;
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
  page.beyond_budget_ = {};
}

void Residency::bring_in(ParameterPage& page, Room room, const Lock& lock) {
  const int64_t bytes = page.layout().bytes();
  const at::Tensor memory = make_room(page, room, lock);
  TORCH_CHECK(memory.defined(),
              "LibZeRO: one operator needs more whole parameters at once than parameter_budget (",
              options_.budget, " bytes) holds: ", bytes, " bytes more for ",
              page.storages_.front()->what(), " beside ", pinned_names(lock),
              ". Raise parameter_budget, or set it to 0 to have it chosen.");
  at::Tensor whole = memory.view(page.layout().dtype);
  try {
    const auto on_transfers = transfers_.enter();
    page.home_ready_.wait();
    if (options_.world_size == 1) {
      whole.copy_(page.home(), /*non_blocking=*/true);
    } else if (page.home().device() == whole.device()) {
      gather_->all_gather(whole, page.home());
    } else {
      const int64_t shard = page.layout().shard_numel;
      at::Tensor own = whole.narrow(0, options_.rank * shard, shard);
      own.copy_(page.home(), /*non_blocking=*/true);
      gather_->all_gather(whole, own);
    }
    page.ready_.record();
    if (options_.world_size > 1) {
      constexpr uint64_t kPrime = 1099511628211U;  // FNV-1a
      order_ = (order_ ^ static_cast<uint64_t>(page.id() + 1)) * kPrime;
      ++gathered_;
      last_gathered_ = page.id();
    }
  } catch (...) {
    give_room(page, lock);
    throw;
  }
  page.whole_ = whole;
  page.used_ = page.pins_ > 0;
  const auto element = static_cast<int64_t>(c10::elementSize(page.layout().dtype));
  auto* const data = static_cast<char*>(whole.data_ptr());
  for (size_t i = 0; i < page.storages_.size(); ++i) {
    page.storages_[i]->bind(data + page.layout().storages[i].offset * element);
  }
  ledger_.add_live_parameters(bytes);
}

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
    if (page.whole_.defined()) continue;
    // Room is made only at the cost of pages that are not expected soon themselves.
    while (arena_.capacity() - arena_.used() < page.layout().bytes()) {
      if (!evict_one(expected, lock)) return;
    }
    const auto slot = arena_.take(page.layout().bytes());
    if (!slot) return;
    arena_.give(*slot);
    bring_in(page, Room::kInBudget, lock);
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
    if (page == nullptr || page->slot_ < 0 || page->pins_ > 0 || !page->used_ || near[page->id()])
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
    if (page == nullptr || page->slot_ < 0 || page->pins_ > 0) continue;
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
  for (const auto& storage : page.storages_) storage->release();
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

std::string Residency::order() const {
  const Lock lock(mutex_);
  std::ostringstream text;
  text << gathered_ << " pages gathered, in order " << std::hex << order_;
  if (last_gathered_ >= 0)
    text << ", the last one for " << pages_[last_gathered_]->storages_.front()->what();
  return text.str();
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
