// SPDX-License-Identifier: Apache-2.0
// Bytes of activations on their way from the device, at home, and on their way back.
//
// Note [Ways of activations]
// A home is a range of an arena, in host memory or on the device; with a model-parallel group each
// rank keeps its part of the bytes and the whole is gathered on the way back. Copies from and to the
// host run on a side stream, in the order of put() and get(). The host never waits:
//   - out: the device's bytes are held until the copy has been waited for *on the stream* that
//     computes, which happens when the next group (a region's arguments) comes. So one group is on
//     its way at a time, and a computation that outruns the copies is slowed down instead of filling
//     the device.
//   - back: with what is asked for, the group that was put before it is fetched, so that it arrives
//     while backward computes.
// Bytes keep their place modulo 64, so that a kernel treats what comes back as it would have treated
// the original. What several tensors share is moved once.
//
// Any thread. Under a group its ranks put and get the same tensors in the same order.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plugin/activations/byte_range.h"
#include "plugin/activations/tensor_facts.h"
#include "plugin/memory/growing_arena.h"
#include "plugin/memory/stream.h"
#include "plugin/partition/communicator.h"

namespace zero {

struct StashOptions {
  at::Device device = at::kCPU;
  Place home = Place::kHost;
  std::shared_ptr<Communicator> group;  // empty, or of at least two ranks
  int64_t tensors_a_block = 1;          // so many of the first one's size find room in one block
};

class Stash : public std::enable_shared_from_this<Stash> {
 public:
  class Entry;
  // One tensor's claim to its bytes.
  class Ticket {
   public:
    Ticket(std::shared_ptr<Entry> entry, const at::Tensor& tensor);
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    ~Ticket();
    // The tensor, with sizes, strides and dtype of the original; again for each call.
    at::Tensor get();

   private:
    friend class Stash;
    std::shared_ptr<Entry> entry_;
    Geometry geometry_;
    uint64_t had_ = 0;  // the arrival that it has had
  };

  Stash(StashOptions options, std::shared_ptr<Ledger> ledger);

  // `tensor` is strided, on the device, and has bytes. `group` names the region whose argument it
  // is; 0: it comes alone.
  std::unique_ptr<Ticket> put(const at::Tensor& tensor, uint64_t group);
  // Whether the ranks of the group hold the same bytes is looked at until this is called.
  void trust_ranks();

  struct Counts {
    int64_t tensors_moved = 0, bytes_moved = 0, bytes_returned = 0, blocks_mapped = 0;
  };
  Counts counts() const;
  bool empty() const;

 private:
  std::shared_ptr<Entry> find(const at::Tensor& tensor, const ByteRange& range);
  void make_way(uint64_t group, int64_t bytes);
  void settle(int64_t allowed);
  void send(Entry& entry);
  void fetch(Entry& entry);
  void fetch_ahead(const Entry& entry);
  void no_longer_waits(Ticket& ticket);
  void forget(Entry& entry);
  void require_same_bytes(const at::Tensor& whole, const at::Tensor& mine);
  int64_t part_bytes(int64_t bytes) const;
  int parts() const { return options_.group ? options_.group->world_size() : 1; }
  int part() const { return options_.group ? options_.group->rank() : 0; }

  const StashOptions options_;
  const std::shared_ptr<Ledger> ledger_;  // outlives the engine, as graphs may
  Buffers buffers_;
  SideStream transfers_;
  Event now_;
  mutable std::mutex mutex_;  // guards what follows
  GrowingArena arena_;
  std::list<Entry*> entries_;  // in the order of put()
  std::list<Entry*> leaving_;
  std::unordered_map<const c10::StorageImpl*, Entry*> by_storage_;  // the latest of each
  int64_t leaving_bytes_ = 0;
  int64_t ahead_bytes_ = 0;  // arrived or arriving, and not asked for yet
  int64_t window_ = 0;       // bytes of the largest group
  uint64_t group_ = 0;
  int64_t group_bytes_ = 0;
  bool ranks_trusted_ = false;
  Counts counts_;
};

// Bytes of one storage, or of part of one.
class Stash::Entry : public std::enable_shared_from_this<Entry> {
 public:
  Entry(std::shared_ptr<Stash> stash, const at::Tensor& tensor, const ByteRange& range);
  ~Entry();

 private:
  friend class Stash;
  const std::shared_ptr<Stash> stash_;
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  const c10::StorageImpl* const storage_address_;
  const Unchanged unchanged_;
  const ByteRange range_;
  std::list<Entry*>::iterator position_, leaving_position_;
  bool is_leaving_ = false;
  GrowingArena::Range home_;
  at::Tensor here_;  // on the device; undefined: only at home
  Ledger::Booking booking_;
  Event copied_;
  uint64_t arrivals_ = 0;
  int64_t tickets_ = 0;
  int64_t waiting_ = 0;  // tickets that have not had this arrival
};

}  // namespace zero
