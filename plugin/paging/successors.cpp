// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/successors.h"

namespace zero {

bool Successors::touch(int page) {
  if (page == now_) return false;
  if (now_ != kNone) next_[key(before_, now_)] = page;
  before_ = now_;
  now_ = page;
  return true;
}

std::vector<int> Successors::expect(int count) const {
  std::vector<int> pages;
  int before = before_;
  int now = now_;
  while (static_cast<int>(pages.size()) < count) {
    const auto found = next_.find(key(before, now));
    if (found == next_.end()) break;
    pages.push_back(found->second);
    before = now;
    now = found->second;
  }
  return pages;
}

}  // namespace zero
