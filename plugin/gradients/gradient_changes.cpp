// SPDX-License-Identifier: Apache-2.0
// What users see as `.grad()`, and what they do to it between passes: clear it, put another tensor
// there, keep a handle to it beyond its time.
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "plugin/gradients/gradient_slot.h"
#include "plugin/gradients/gradients.h"

namespace zero {

namespace {

// The value is what the engine holds; the derivative is that of the sum autograd has seen.
struct HeldGradient : torch::autograd::Function<HeldGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& /*graph*/,
                            const at::Tensor& value) {
    return value;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

const NamedParameter& Gradients::named(const GradientPage& page, size_t parameter) {
  return page.layout().parameters[parameter].parameter;
}

void Gradients::keep_graph(GradientPage& page, size_t parameter, const at::Tensor& gradient) {
  TORCH_CHECK(options_.world_size == 1,
              "LibZeRO: backward() with create_graph=true makes the gradient of '",
              named(page, parameter).name,
              "' a part of a graph; on several ranks it is a mean over all of them, and the graph "
              "would know this rank's part alone. Use torch::autograd::grad(..., "
              "create_graph=true) for the inner derivative.");
  const at::AutoGradMode grad(true);
  at::Tensor& graph = page.entries_[parameter].graph;
  const at::Tensor unscaled = unscale_ == 1.0 ? gradient : gradient * unscale_;
  graph = graph.defined() ? graph + unscaled : unscaled;
}

at::Tensor Gradients::visible(GradientPage& page, size_t parameter) {
  auto& entry = page.entries_[parameter];
  if (!entry.graph.defined()) return entry.view;
  finish_locked();
  const at::Tensor value = page.shaped(gather_whole(page), parameter).clone();
  const at::AutoGradMode grad(true);
  entry.with_graph = HeldGradient::apply(entry.graph, value);
  entry.graph_version = entry.with_graph._version();
  return entry.with_graph;
}

void Gradients::show(GradientPage& page, size_t parameter) {
  auto& entry = page.entries_[parameter];
  gradient_slot(named(page, parameter).tensor) = visible(page, parameter);
  entry.attached = true;
  if (on_presence) on_presence(page, parameter);
}

// `.grad()` is undefined while the sums behind it change.
void Gradients::take_back_views() {
  release_views(nullptr);
  for (auto& page : pages_) {
    page->holds_sums_ = false;
    for (size_t i = 0; i < page->entries_.size(); ++i) {
      auto& entry = page->entries_[i];
      if (!entry.storage) continue;
      gradient_slot(named(*page, i).tensor).reset();
      entry.attached = false;
      entry.with_graph.reset();
      page->holds_sums_ |= entry.content == GradientPage::Content::kSum || entry.present;
    }
  }
}

void Gradients::settle(GradientPage& page, size_t parameter, Replaced replaced) {
  auto& entry = page.entries_[parameter];
  if (!entry.storage) return;
  const at::Tensor& slot = gradient_slot(named(page, parameter).tensor);
  const bool ours =
      slot.defined() && (paged_storage_of(slot) == entry.storage.get() ||
                         (entry.with_graph.defined() && slot.is_same(entry.with_graph)));
  if (slot.defined() && !ours) {
    if (replaced == Replaced::kTake) take(page, parameter, at::Tensor(slot));
    return;
  }
  if (!entry.attached) return;
  if (!slot.defined() || (cleared_elsewhere && cleared_elsewhere(page, parameter))) {
    drop(page, parameter);
  } else if (entry.with_graph.defined() && entry.with_graph._version() != entry.graph_version) {
    write(page, parameter, entry.with_graph.detach());
    entry.graph_version = entry.with_graph._version();
  }
}

void Gradients::settle_all() {
  for (auto& page : pages_) {
    for (size_t i = 0; i < page->entries_.size(); ++i) settle(*page, i, Replaced::kTake);
  }
}

void Gradients::looked_at(GradientPage& page, size_t parameter) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (!begun_) settle(page, parameter, Replaced::kLeave);
}

void Gradients::used(GradientPage& page, size_t parameter) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (!begun_) settle(page, parameter, Replaced::kTake);
}

void Gradients::optimizer_steps() const {
  if (!on_optimizer_step) return;
  for (const auto& page : pages_) {
    for (const auto& entry : page->entries_) {
      if (entry.present) return on_optimizer_step();
    }
  }
}

void Gradients::written() {
  const std::lock_guard lock(mutex_);
  norm_.reset();
}

void Gradients::accept_changes() {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  settle_all();
}

// Ranks that put their own gradients there mean the mean of them; those that put the same one there
// get the same.
void Gradients::take(GradientPage& page, size_t parameter, const at::Tensor& gradient) {
  const auto& name = named(page, parameter).name;
  const auto& sizes = page.layout().parameters[parameter].sizes;
  TORCH_CHECK(gradient.sizes() == sizes, "LibZeRO: a tensor of sizes ", gradient.sizes(),
              " was put in place of the gradient of '", name, "', which has sizes ",
              at::IntArrayRef(sizes), ". Put one of the parameter's sizes there.");
  TORCH_CHECK(gradient.layout() != at::kStrided ||
                  gradient.storage().nbytes() ==
                      static_cast<size_t>(gradient.numel() * gradient.element_size()),
              "LibZeRO: the gradient of '", name,
              "' was replaced by a part of another tensor, whose memory it would leave here. Put a "
              "clone() of it there.");
  at::Tensor values = (gradient.layout() == at::kStrided ? gradient : gradient.to_dense())
                          .detach()
                          .to(buffers_.device(), at::kFloat);
  finish_locked();
  if (options_.world_size > 1) {
    meet_others("a gradient put into .grad() by hand");
    control_.agree("the gradient that was put into .grad() by hand", name,
                   "Put gradients into the same parameters on all ranks.");
    values = values.clone();
    reduce_.all_reduce(values);
    values.mul_(1.0 / options_.world_size);
    if (direct()) reduced_ = true;
  }
  auto& entry = page.entries_[parameter];
  if (entry.attached) let_go(page, parameter);
  entry.graph.reset();
  entry.with_graph.reset();
  write(page, parameter, values);
  entry.content = GradientPage::Content::kSum;
  entry.present = true;
  page.holds_sums_ = true;
  show(page, parameter);
}

void Gradients::write(GradientPage& page, size_t parameter, const at::Tensor& values) {
  finish_locked();
  norm_.reset();
  release_views(nullptr);
  if (direct()) {
    page.shaped(page.home_.tensor, parameter).copy_(values);
    return;
  }
  const auto& slice = page.layout().parameters[parameter];
  const at::Tensor flat = at::empty({slice.numel}, values.options());
  flat.as_strided(slice.sizes, slice.strides).copy_(values);
  const at::Tensor home = home_range(page, parameter);
  const int64_t begin = options_.shard.index * page.layout().shard_numel;
  const int64_t skipped = std::clamp<int64_t>(begin - slice.offset, 0, slice.numel);
  home.copy_(flat.narrow(0, std::min(skipped, slice.numel - home.numel()), home.numel()));
}

void Gradients::drop(GradientPage& page, size_t parameter) {
  auto& entry = page.entries_[parameter];
  gradient_slot(named(page, parameter).tensor).reset();
  if (entry.present) let_go(page, parameter);
  entry.graph.reset();
  entry.with_graph.reset();
  entry.content = GradientPage::Content::kStale;
  entry.attached = false;
  entry.present = false;
  norm_.reset();
  if (on_presence) on_presence(page, parameter);
}

// A handle that someone has kept outlives the clearing, as with LibTorch. The page's memory does
// not: the handle gets its own, or, where that would need the other ranks, says so when it is used.
void Gradients::let_go(GradientPage& page, size_t parameter) {
  auto& entry = page.entries_[parameter];
  const at::Tensor& slot = gradient_slot(named(page, parameter).tensor);
  const bool in_slot = slot.defined() && slot.is_same(entry.view);
  const bool kept = entry.view.use_count() > (in_slot ? 2 : 1) ||
                    entry.view.storage().use_count() > 2;  // the page entry's and the view's
  if (!kept) return;
  if (options_.world_size == 1) {
    finish_locked();
    const at::Tensor copy = home_range(page, parameter)
                                .to(buffers_.device(), at::kFloat,
                                    /*non_blocking=*/false, /*copy=*/true);
    entry.storage->detach(keeping(copy, copy.data_ptr()));
  } else {
    entry.storage->abandon("LibZeRO: this gradient of '" + named(page, parameter).name +
                           "' was cleared since the handle to it was taken. Under several ranks "
                           "clone() it before it is cleared.");
  }
  page.renew(parameter, buffers_.device());
}

void Gradients::clear(Selection of) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  release_views(nullptr);
  bool all = true;
  for (auto& page : pages_) {
    if (!selected(*page, of)) {
      all = false;
      continue;
    }
    for (size_t i = 0; i < page->entries_.size(); ++i) {
      if (page->entries_[i].storage) drop(*page, i);
    }
    page->holds_sums_ = false;
  }
  if (!all) return;
  finished_ = true;
  reduced_ = false;
}

}  // namespace zero
