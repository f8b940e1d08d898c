// SPDX-License-Identifier: Apache-2.0
// What regions and offload ask about a tensor.
#pragma once

#include <torch/csrc/autograd/variable.h>

namespace zero {

// Tells whether a tensor has been changed in place since, without keeping it.
class Unchanged {
 public:
  explicit Unchanged(const at::Tensor& tensor)
      : counter_(torch::autograd::impl::version_counter(tensor)),
        version_(counter_.current_version()) {}
  bool still() const { return counter_.current_version() == version_; }

 private:
  c10::VariableVersion counter_;
  uint32_t version_;
};

// A leaf that asks for a gradient, or a view of one: its owner keeps it anyway.
inline bool is_parameter_like(const at::Tensor& tensor) {
  if (!tensor.requires_grad()) return false;
  return tensor.is_leaf() || (tensor.is_view() && tensor._base().is_leaf());
}

}  // namespace zero
