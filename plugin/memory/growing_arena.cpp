// SPDX-License-Identifier: Apache-2.0
#include "plugin/memory/growing_arena.h"

#include <algorithm>
#include <utility>

namespace zero {

namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

GrowingArena::GrowingArena(Buffers& buffers, MemoryClass memory_class, Place place,
                           std::function<void()> settle)
    : buffers_(buffers), class_(memory_class), place_(place), settle_(std::move(settle)) {}

GrowingArena::Range GrowingArena::range_of(int id, Block& block, int64_t offset, int64_t bytes) {
  return {block.buffer.tensor.narrow(0, offset, bytes), id, offset};
}

GrowingArena::Range GrowingArena::take(int64_t bytes) {
  const int64_t room = aligned(bytes);
  // A block of just this size first: so a round's ranges find those of the round before.
  for (auto& [id, block] : blocks_) {
    if (block.slots.used() == 0 && block.slots.capacity() == room) {
      return range_of(id, block, *block.slots.take(room), bytes);
    }
  }
  for (auto& [id, block] : blocks_) {
    if (const auto offset = block.slots.take(room)) return range_of(id, block, *offset, bytes);
  }
  const int64_t size = std::max(room, aligned(block_bytes_));
  give_back_idle_blocks(size);
  Buffer buffer = buffers_.allocate(class_, place_, size, at::kByte);
  const int id = static_cast<int>(mapped_++);
  auto& block = blocks_.try_emplace(id, Block{std::move(buffer), SlotArena(size)}).first->second;
  return range_of(id, block, *block.slots.take(room), bytes);
}

void GrowingArena::give(const Range& range) { blocks_.at(range.block).slots.give(range.offset); }

// At least `bytes`, where there are as many.
void GrowingArena::give_back_idle_blocks(int64_t bytes) {
  const auto idle = [](const auto& entry) { return entry.second.slots.used() == 0; };
  if (std::ranges::any_of(blocks_, idle)) settle_();
  for (auto block = blocks_.begin(); block != blocks_.end() && bytes > 0;) {
    if (!idle(*block)) {
      ++block;
      continue;
    }
    bytes -= block->second.slots.capacity();
    block = blocks_.erase(block);
  }
}

}  // namespace zero
