// SPDX-License-Identifier: Apache-2.0
// Hands out ranges of a few large blocks, and maps another block only where no free range is large
// enough. What a step has needed once it finds free again, so a steady step allocates nothing.
// Before it grows, blocks in which nothing lives are given back: sizes that change do not pile up.
// Not thread-safe; its owner locks.
#pragma once

#include <functional>
#include <map>

#include "plugin/memory/buffers.h"
#include "plugin/memory/slot_arena.h"

namespace zero {

class GrowingArena {
 public:
  struct Range {
    at::Tensor bytes;  // 1-D, kByte, 64-byte aligned
    int block = 0;
    int64_t offset = 0;
  };
  // `settle` is called before a block is unmapped: nothing may be on its way from or to it after.
  GrowingArena(Buffers& buffers, MemoryClass memory_class, Place place,
               std::function<void()> settle);

  [[nodiscard]] Range take(int64_t bytes);
  void give(const Range& range);
  // New blocks have at least this size.
  void set_block_bytes(int64_t bytes) { block_bytes_ = bytes; }

  int64_t blocks_mapped() const { return mapped_; }  // since construction

 private:
  struct Block {
    Buffer buffer;
    SlotArena slots;
  };
  static Range range_of(int id, Block& block, int64_t offset, int64_t bytes);
  void give_back_idle_blocks(int64_t bytes);

  Buffers& buffers_;
  MemoryClass class_;
  Place place_;
  std::function<void()> settle_;
  std::map<int, Block> blocks_;
  int64_t block_bytes_ = 0;
  int64_t mapped_ = 0;
};

}  // namespace zero
