// SPDX-License-Identifier: Apache-2.0
#include "plugin/memory/slot_arena.h"

#include <c10/util/Exception.h>

namespace zero {

SlotArena::SlotArena(int64_t capacity) : capacity_(capacity) {
  if (capacity_ > 0) free_.emplace(0, capacity_);
}

std::optional<int64_t> SlotArena::take(int64_t bytes) {
  TORCH_INTERNAL_ASSERT(bytes > 0);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, size] = *it;
    if (size < bytes) continue;
    free_.erase(it);
    if (size > bytes) free_.emplace(offset + bytes, size - bytes);
    taken_.emplace(offset, bytes);
    used_ += bytes;
    return offset;
  }
  return std::nullopt;
}

void SlotArena::give(int64_t offset) {
  const auto taken = taken_.find(offset);
  TORCH_INTERNAL_ASSERT(taken != taken_.end(), "a slot was given back that is not taken");
  int64_t bytes = taken->second;
  taken_.erase(taken);
  used_ -= bytes;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

}  // namespace zero
