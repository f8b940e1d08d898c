// SPDX-License-Identifier: Apache-2.0
// What an operator's schema says about its arguments, read once per operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace zero {

struct OperatorFacts {
  // The operator reads no element: it makes views, or asks for sizes and types only.
  bool reads_no_bytes = false;
  // The operator gives its first argument the storage of its second (set_): torch::load does that.
  bool replaces_storage = false;
  // The operator's result at one place depends on elements at others.
  bool reduces = false;
  // Per argument: it may be written. BatchNorm's running statistics are written although the schema
  // hides it.
  std::vector<bool> writes;
};

// Any thread; the reference stays valid.
const OperatorFacts& facts_of(const c10::OperatorHandle& op);

}  // namespace zero
