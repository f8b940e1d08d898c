// SPDX-License-Identifier: Apache-2.0
// The interposer stands below autograd on every operator that has a tagged argument: it pins the
// argument's pages, lets the operator run, and unpins them.
#pragma once

#include <vector>

#include "plugin/paging/paged_storage.h"

namespace zero {

// Registers the interposer with LibTorch's dispatcher; the first call does it, for the life of the
// process.
void install_interposer();

// Keeps pages pinned while it lives.
class PinScope {
 public:
  PinScope() = default;
  PinScope(const PinScope&) = delete;
  PinScope& operator=(const PinScope&) = delete;
  ~PinScope();
  // Pins the page of `tensor`, if it has one. Pinning a page again only adds the access.
  void add(const at::Tensor& tensor, Access access);
  // Everything is pinned; the operator begins.
  void begin();

 private:
  std::vector<Page*> pages_;
  std::vector<Page*> written_;
};

}  // namespace zero
