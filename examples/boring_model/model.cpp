// SPDX-License-Identifier: Apache-2.0
#include "examples/boring_model/model.h"

#include <zero/checkpoint.h>

#include <string>

namespace boring {

BoringModelImpl::BoringModelImpl(const ModelSizes& sizes)
    : linear_in_(register_module("linear_in", torch::nn::Linear(sizes.features, sizes.width))),
      linear_out_(register_module("linear_out", torch::nn::Linear(sizes.width, 2))) {
  for (int64_t i = 0; i < sizes.layers; ++i) {
    hidden_.push_back(register_module("linear_" + std::to_string(i),
                                      torch::nn::Linear(sizes.width, sizes.width)));
  }
}

at::Tensor BoringModelImpl::forward(at::Tensor x, const AtBoundary& at_boundary) {
  x = linear_in_(x);
  at_boundary(0);
  for (size_t i = 0; i < hidden_.size(); ++i) {
    x = zero::checkpoint(zero::CheckpointOptions().name("linear_" + std::to_string(i)), hidden_[i],
                         x);
    at_boundary(static_cast<int64_t>(i) + 1);
  }
  x = linear_out_(x);
  at_boundary(static_cast<int64_t>(hidden_.size()) + 1);
  return x;
}

}  // namespace boring
