// SPDX-License-Identifier: Apache-2.0
#include "plugin/activations/stash.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>

namespace zero {

namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

Stash::Entry::Entry(std::shared_ptr<Stash> stash, const at::Tensor& tensor, const ByteRange& range)
    : stash_(std::move(stash)),
      storage_(tensor.storage().getWeakStorageImpl()),
      storage_address_(tensor.storage().unsafeGetStorageImpl()),
      unchanged_(tensor),
      range_(range),
      here_(bytes_of(tensor, range)),
      copied_(tensor.device()) {}

Stash::Entry::~Entry() { stash_->forget(*this); }

Stash::Ticket::Ticket(std::shared_ptr<Entry> entry, const at::Tensor& tensor)
    : entry_(std::move(entry)), geometry_(tensor) {
  ++entry_->tickets_;
  ++entry_->waiting_;
}

Stash::Ticket::~Ticket() {
  const std::lock_guard lock(entry_->stash_->mutex_);
  entry_->stash_->no_longer_waits(*this);
  --entry_->tickets_;
}

Stash::Stash(StashOptions options, std::shared_ptr<Ledger> ledger)
    : options_(std::move(options)),
      ledger_(std::move(ledger)),
      buffers_(*ledger_, options_.device),
      transfers_(options_.device),
      now_(options_.device),
      arena_(buffers_, MemoryClass::kActivations, options_.home, [this] {
        const auto side = transfers_.enter();
        now_.record();
        now_.synchronize();
      }) {}

int64_t Stash::part_bytes(int64_t bytes) const {
  const int64_t aligned = (bytes + kAlignment - 1) / kAlignment;
  return (aligned + parts() - 1) / parts() * kAlignment;
}

std::unique_ptr<Stash::Ticket> Stash::put(const at::Tensor& tensor, uint64_t group) {
  const at::NoGradGuard no_grad;
  std::shared_ptr<Entry> entry;  // may be the last owner: must not die under the lock
  std::unique_ptr<Ticket> ticket;
  const std::lock_guard lock(mutex_);
  const ByteRange range = worth_moving(tensor);
  entry = find(tensor, range);
  if (!entry) {
    make_way(group, range.bytes);
    entry = std::make_shared<Entry>(shared_from_this(), tensor, range);
    entry->position_ = entries_.insert(entries_.end(), entry.get());
    by_storage_.insert_or_assign(entry->storage_address_, entry.get());
    send(*entry);
  }
  ++counts_.tensors_moved;
  return std::make_unique<Ticket>(entry, tensor);
}

// Bytes that are home already, and are still what the tensor holds.
std::shared_ptr<Stash::Entry> Stash::find(const at::Tensor& tensor, const ByteRange& range) {
  const auto known = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
  if (known == by_storage_.end()) return nullptr;
  Entry& entry = *known->second;
  const bool fits =
      !entry.storage_.expired() && entry.unchanged_.still() && entry.range_.covers(range);
  return fits ? entry.weak_from_this().lock() : nullptr;  // null: it is about to be forgotten
}

// See Note [Ways of activations]
void Stash::make_way(uint64_t group, int64_t bytes) {
  if (group == 0) {
    window_ = std::max(window_, bytes);
    settle(window_ - bytes);
  } else if (group != group_) {
    group_bytes_ = 0;
    settle(0);
  }
  group_ = group;
  group_bytes_ += bytes;
  window_ = std::max(window_, group_bytes_);
}

// The stream that computes waits until at most `allowed` bytes are on their way out.
void Stash::settle(int64_t allowed) {
  while (leaving_bytes_ > allowed) {
    Entry& oldest = *leaving_.front();
    oldest.copied_.wait();
    oldest.here_.reset();
    oldest.booking_ = {};
    oldest.is_leaving_ = false;
    leaving_.pop_front();
    leaving_bytes_ -= oldest.range_.bytes;
  }
}

void Stash::send(Entry& entry) {
  const int64_t part_size = part_bytes(entry.range_.bytes);
  const int64_t begin = std::min(part() * part_size, entry.range_.bytes);
  const int64_t mine_size = std::min(part_size, entry.range_.bytes - begin);
  if (arena_.blocks_mapped() == 0 && options_.tensors_a_block > 1) {
    const int64_t block = options_.tensors_a_block * part_size;
    ledger_->predict(MemoryClass::kActivations, options_.home, block);
    arena_.set_block_bytes(block);
  }
  entry.home_ = arena_.take(part_size);
  const at::Tensor mine = entry.here_.narrow(0, begin, mine_size);
  if (options_.group && !ranks_trusted_) require_same_bytes(entry.here_, mine);
  const at::Tensor home = entry.home_.bytes.narrow(0, 0, mine_size);
  counts_.bytes_moved += mine_size;
  if (options_.home == Place::kDevice) {
    home.copy_(mine);
    entry.here_.reset();
    return;
  }
  now_.record();
  {
    const auto side = transfers_.enter();
    now_.wait();
    home.copy_(mine, /*non_blocking=*/true);
    entry.copied_.record();
  }
  entry.booking_ = ledger_->book(MemoryClass::kActivations, Place::kDevice, entry.range_.bytes);
  entry.is_leaving_ = true;
  entry.leaving_position_ = leaving_.insert(leaving_.end(), &entry);
  leaving_bytes_ += entry.range_.bytes;
}

at::Tensor Stash::Ticket::get() {
  const at::NoGradGuard no_grad;
  Entry& entry = *entry_;
  Stash& stash = *entry.stash_;
  const std::lock_guard lock(stash.mutex_);
  if (!entry.here_.defined()) stash.fetch(entry);
  const at::Tensor tensor = geometry_.over(entry.here_, entry.range_);
  if (!entry.is_leaving_) entry.copied_.wait();
  stash.no_longer_waits(*this);
  stash.fetch_ahead(entry);
  return tensor;
}

// When all have had what has arrived, the bytes belong to those who were given them.
void Stash::no_longer_waits(Ticket& ticket) {
  Entry& entry = *ticket.entry_;
  if (ticket.had_ == entry.arrivals_) return;
  ticket.had_ = entry.arrivals_;
  if (!entry.here_.defined() || --entry.waiting_ > 0) return;
  entry.here_.reset();
  entry.booking_ = {};
  ahead_bytes_ -= entry.range_.bytes;
}

void Stash::fetch(Entry& entry) {
  const int64_t part_size = part_bytes(entry.range_.bytes), room = parts() * part_size;
  const int64_t shift = entry.range_.begin % kAlignment;
  const auto options = at::TensorOptions().dtype(at::kByte).device(options_.device);
  const at::Tensor whole = at::empty({shift + room}, options).narrow(0, shift, room);
  now_.record();
  {
    const auto side = transfers_.enter();
    now_.wait();
    const at::Tensor mine = whole.narrow(0, part() * part_size, part_size);
    mine.copy_(entry.home_.bytes, /*non_blocking=*/true);
    if (options_.group) options_.group->all_gather(whole, mine);
    entry.copied_.record();
  }
  entry.here_ = whole;
  entry.booking_ = ledger_->book(MemoryClass::kActivations, Place::kDevice, room);
  ++entry.arrivals_;
  entry.waiting_ = entry.tickets_;
  ahead_bytes_ += entry.range_.bytes;
  counts_.bytes_returned += part_size;
}

// Backward asks for the last first: what was put before comes next.
void Stash::fetch_ahead(const Entry& entry) {
  for (auto next = entry.position_; next != entries_.begin() && ahead_bytes_ < window_;) {
    --next;
    if (!(*next)->here_.defined()) fetch(**next);
  }
}

void Stash::forget(Entry& entry) {
  const std::lock_guard lock(mutex_);
  entry.copied_.wait();  // whoever gets these bytes next, here or at home, comes after the copy
  if (entry.is_leaving_) {
    leaving_.erase(entry.leaving_position_);
    leaving_bytes_ -= entry.range_.bytes;
  } else if (entry.here_.defined() && entry.arrivals_ > 0) {
    ahead_bytes_ -= entry.range_.bytes;
  }
  entry.here_.reset();
  if (entry.home_.bytes.defined()) arena_.give(entry.home_);
  entries_.erase(entry.position_);
  const auto known = by_storage_.find(entry.storage_address_);
  if (known != by_storage_.end() && known->second == &entry) by_storage_.erase(known);
}

// A gathered tensor is made of all ranks' parts: where they differ it would be nobody's.
void Stash::require_same_bytes(const at::Tensor& whole, const at::Tensor& mine) {
  const int64_t part_size = part_bytes(whole.numel());
  const at::Tensor all = at::empty({parts() * part_size}, whole.options());
  const at::Tensor sent = all.narrow(0, part() * part_size, part_size);
  sent.narrow(0, 0, mine.numel()).copy_(mine);
  options_.group->all_gather(all, sent);
  const bool same = at::equal(all.narrow(0, 0, whole.numel()), whole);
  const at::Tensor differing = at::full({1}, same ? 0.0 : 1.0, whole.options().dtype(at::kFloat));
  options_.group->all_reduce(differing);
  TORCH_CHECK(
      differing.item<float>() == 0.0f,
      "LibZeRO: partition_activations: the ranks of a model-parallel group hold different "
      "values of one activation, so no rank can keep a part of it for the others. Give all ",
      parts(),
      " ranks of a group the same batches and the same random seed, or set "
      "partition_activations to false.");
}

void Stash::trust_ranks() {
  const std::lock_guard lock(mutex_);
  ranks_trusted_ = true;
}

bool Stash::empty() const {
  const std::lock_guard lock(mutex_);
  return entries_.empty();
}

Stash::Counts Stash::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.blocks_mapped = arena_.blocks_mapped();
  return counts;
}

}  // namespace zero
