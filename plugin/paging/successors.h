// SPDX-License-Identifier: Apache-2.0
// Learns which page is touched after which, and so predicts the next ones. A prediction depends on
// the last two pages, so that forward and backward over the same pages do not confuse it; it is a
// guess, and a wrong one costs time only. The same program on all ranks learns the same, whatever
// the timing. Not thread-safe; its owner locks.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace zero {

class Successors {
 public:
  // Page `page` is touched now. False when it was touched last too, which tells nothing new.
  bool touch(int page);
  // The pages expected next, nearest first, at most `count`; ends early where nothing is known.
  std::vector<int> expect(int count) const;

 private:
  static constexpr int kNone = -1;
  static uint64_t key(int before, int now) {
    return static_cast<uint64_t>(static_cast<uint32_t>(before)) << 32 | static_cast<uint32_t>(now);
  }
  std::unordered_map<uint64_t, int> next_;
  int before_ = kNone;
  int now_ = kNone;
};

}  // namespace zero
