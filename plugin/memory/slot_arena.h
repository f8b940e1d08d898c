// SPDX-License-Identifier: Apache-2.0
// Hands out ranges of one fixed buffer: the room in which parameter pages live while they are in
// use. The buffer never grows, so a byte budget holds by construction and a steady step allocates
// nothing. Not thread-safe; its owner locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace zero {

class SlotArena {
 public:
  explicit SlotArena(int64_t capacity);

  // The offset of a free range of `bytes`, lowest address first; nothing when no range is large
  // enough.
  [[nodiscard]] std::optional<int64_t> take(int64_t bytes);
  // Gives a range back; neighbours that are free become one range.
  void give(int64_t offset);

  int64_t capacity() const { return capacity_; }
  int64_t used() const { return used_; }

 private:
  int64_t capacity_;
  int64_t used_ = 0;
  std::map<int64_t, int64_t> free_;   // offset -> bytes
  std::map<int64_t, int64_t> taken_;  // offset -> bytes
};

}  // namespace zero
