// SPDX-License-Identifier: Apache-2.0
// The place where LibTorch keeps a tensor's `.grad()`, with someone who is told before anyone
// looks. Users, modules and optimizers read, clear and replace gradients by writing into that place,
// which no operator sees; but each of them asks the tensor for it first.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace zero {

// From now on `before_look` is called before `.grad()` or `.mutable_grad()` of the leaf `tensor`
// returns. Any thread that looks. Does nothing for a leaf that is a view: LibTorch keeps its record
// of views in the same place.
void watch_gradient(const at::Tensor& tensor, std::function<void()> before_look);
// The tensor is as before watch_gradient; its gradient and hooks stay.
void unwatch_gradient(const at::Tensor& tensor);

// The place itself, without telling the watcher.
at::Tensor& gradient_slot(const at::Tensor& tensor);

}  // namespace zero
