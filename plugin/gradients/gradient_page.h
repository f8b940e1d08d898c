// SPDX-License-Identifier: Apache-2.0
// The gradients of one parameter page, and the tensors that users see as `.grad()`.
//
// A `.grad()` after backward is a tagged tensor of the parameter's shape in fp32. Its bytes are the
// page's mean gradient; they are gathered from all shards when an operator touches it and written
// back to this rank's shard when it was written.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <vector>

#include "plugin/gradients/gradient_buckets.h"
#include "plugin/paging/parameter_page.h"

namespace zero {

class Gradients;

class GradientPage final : public Page {
 public:
  // What the home holds for one parameter.
  enum class Content : uint8_t {
    kStale,  // nothing that means anything
    kZero,
    kSum,  // gradients since they were cleared
  };
  struct Parameter {
    std::unique_ptr<PagedStorage> storage;
    // Kept, because the hook that takes the gradient hangs on it and tensors hold it weakly.
    std::shared_ptr<torch::autograd::Node> accumulator;
    unsigned follower = 0;  // the parameter's hook that finds a new accumulator
    at::Tensor view;        // the `.grad()` that is attached after backward
    Content content = Content::kStale;
    // After backward(create_graph=true): the sum as autograd knows it, and the `.grad()` over it.
    at::Tensor graph, with_graph;
    uint32_t graph_version = 0;
    bool attached = false;  // `.grad()` was set here and is not taken back
    bool arrived = false;   // in this backward
    bool present = false;   // some rank has a gradient
  };

  GradientPage(Gradients& owner, ParameterPage& parameters, at::Device device);

  void pin(Access access) override;
  void unpin() noexcept override;

  const PageLayout& layout() const { return parameters_.layout(); }
  ParameterPage& parameter_page() const { return parameters_; }

  // The range of a parameter in a flat tensor over the page.
  at::Tensor range(const at::Tensor& whole, size_t parameter) const;
  // The same, in the parameter's sizes and strides.
  at::Tensor shaped(const at::Tensor& whole, size_t parameter) const;

 private:
  friend class Gradients;
  // Binds the views to the whole page's bytes.
  void bind(const at::Tensor& whole);
  void release();
  // Another storage and view for the parameter: the old ones are someone else's now.
  void renew(size_t parameter, at::Device device);

  Gradients& owner_;
  ParameterPage& parameters_;
  std::vector<Parameter>
      entries_;              // as in layout().parameters; those of frozen parameters stay stale
  int index_ = 0;            // in Gradients::pages()
  Buffer home_;              // fp32: the whole page, or this rank's shard
  bool holds_sums_ = false;  // some parameter's content is a sum

  GradientBuckets::Bucket* bucket_ = nullptr;
  int arrivals_ = 0;  // in this backward
  int expected_ = 0;  // arrivals that complete the page; learnt from the backward before

  at::Tensor whole_;  // while views are bound
  int pins_ = 0;
  bool written_ = false;
};

}  // namespace zero
