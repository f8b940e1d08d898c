// SPDX-License-Identifier: Apache-2.0
// Gradients between backward and step, as users see them: whole, in the parameter's shape.
#include <ATen/ops/empty.h>

#include "plugin/gradients/gradients.h"

namespace zero {

void Gradients::scale(float factor, Selection of) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  finish_locked();
  release_views(nullptr);
  norm_.reset();
  for (const auto& page : pages_) {
    if (selected(*page, of)) shard(*page).mul_(factor);
  }
}

void Gradients::clamp(double limit) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  finish_locked();
  release_views(nullptr);
  norm_.reset();
  for (const auto& page : pages_) shard(*page).clamp_(-limit, limit);
}

at::Tensor Gradients::gather_whole(GradientPage& page) {
  const auto& layout = page.layout();
  if (options_.shard.count > 1) meet_others("the gathering of the gradients of ", &page);
  if (direct()) {
    if (options_.shard.count > 1) reduce_.all_gather(page.home_.tensor, shard(page));
    return page.home_.tensor;
  }
  at::Tensor whole =
      at::empty({layout.numel}, at::TensorOptions().dtype(at::kFloat).device(buffers_.device()));
  if (options_.shard.count > 1) {
    reduce_.all_gather(whole, page.home_.tensor.to(buffers_.device()));
  } else {
    whole.copy_(page.home_.tensor);
  }
  return whole;
}

at::Tensor Gradients::whole(const at::Tensor& parameter) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  finish_locked();
  const auto found = by_parameter_.find(parameter.unsafeGetTensorImpl());
  TORCH_CHECK(found != by_parameter_.end(), "LibZeRO: the tensor of sizes ", parameter.sizes(),
              " is no trainable parameter of the model that was set up.");
  const auto [page, index] = found->second;
  if (!page->entries_[index].present) return {};
  return page->shaped(gather_whole(*page), index).clone();
}

void Gradients::pin(GradientPage& page, Access access) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  finish_locked();
  if (!page.whole_.defined()) {
    release_views(&page);
    page.bind(gather_whole(page));
  }
  ++page.pins_;
  page.written_ |= access == Access::kWrite;
}

void Gradients::unpin(GradientPage& page) noexcept {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  --page.pins_;
  if (page.written_) norm_.reset();
  if (page.written_ && !direct()) {
    page.home_.tensor.copy_(own_part(page, page.whole_));
  }
  page.written_ = false;
}

void Gradients::release_views(const GradientPage* except) {
  for (auto& page : pages_) {
    if (page.get() != except && page->whole_.defined() && page->pins_ == 0) page->release();
  }
}

}  // namespace zero
