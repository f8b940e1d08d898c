// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/parameter_page.h"

#include "plugin/paging/parameter_pages.h"

namespace zero {

ParameterPage::ParameterPage(ParameterPages& owner, int id, PageLayout layout, at::Device device,
                             bool permanent)
    : id_(id),
      layout_(std::move(layout)),
      permanent_(permanent),
      owner_(owner),
      home_ready_(device),
      ready_(device),
      last_use_(device) {
  const auto element = static_cast<int64_t>(c10::elementSize(layout_.dtype));
  for (const auto& slice : layout_.storages) {
    const char* const kind = layout_.parameters.size() == 1 ? "parameter " : "parameters ";
    storages_.push_back(
        std::make_unique<PagedStorage>(*this, slice.numel * element, device, kind + slice.what));
  }
}

void ParameterPage::mark_stale(std::function<void()> refresh, Bytes bytes) {
  const std::lock_guard lock(stale_mutex_);
  refresh_ = std::move(refresh);
  if (stale_.exchange(true)) return;
  ++owner_.stale_;
  if (!permanent_) return;
  set_tagged(true);
  if (bytes == Bytes::kOld) release_storages();
}

void ParameterPage::freshen() {
  if (!stale()) return;
  const std::lock_guard lock(stale_mutex_);
  if (!stale()) return;
  refresh_();
  if (permanent_) {
    bind_storages(whole_.data_ptr());
    set_tagged(false);
  }
  stale_.store(false, std::memory_order_release);
  --owner_.stale_;
}

void ParameterPage::bind_storages(void* page) {
  const auto element = static_cast<int64_t>(c10::elementSize(layout_.dtype));
  for (size_t i = 0; i < storages_.size(); ++i) {
    storages_[i]->bind(static_cast<char*>(page) + layout_.storages[i].offset * element);
  }
}

void ParameterPage::release_storages() {
  for (const auto& storage : storages_) storage->release();
}

// What the user has given another storage since is left for reclaim().
void ParameterPage::set_tagged(bool tagged) {
  for (const auto& slice : layout_.parameters) {
    if (holds(slice)) point_at_page(slice, tagged);
  }
}

void ParameterPage::point_at_page(const ParameterSlice& slice, bool tagged) {
  // Not under inference mode: the parameter would become an inference tensor for good.
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  at::Tensor parameter = slice.parameter.tensor;
  parameter.set_data(storages_[slice.storage]->tensor(slice.sizes, slice.strides,
                                                      slice.storage_offset, layout_.dtype, tagged));
}

bool ParameterPage::holds(const ParameterSlice& slice) const {
  return slice.parameter.tensor.storage().unsafeGetStorageImpl() ==
         storages_[slice.storage]->impl();
}

void ParameterPage::reclaim() {
  for (size_t i = 0; i < layout_.parameters.size(); ++i) {
    const ParameterSlice& slice = layout_.parameters[i];
    const at::Tensor& parameter = slice.parameter.tensor;
    if (holds(slice)) {
      TORCH_CHECK(parameter.sizes() == slice.sizes && parameter.strides() == slice.strides &&
                      parameter.storage_offset() == slice.storage_offset,
                  "LibZeRO: '", slice.parameter.name,
                  "' was given other sizes or strides in place: ", parameter.sizes(), ", ",
                  parameter.strides(), " instead of ", at::IntArrayRef(slice.sizes), ", ",
                  at::IntArrayRef(slice.strides),
                  ". Resize or transpose parameters before setup, or use a view of it in forward.");
      continue;
    }
    // A load writes fp32 bytes under a 16-bit tensor that keeps its dtype: twice as many bytes as it
    // can be.
    const auto dense = static_cast<size_t>(slice.numel) * parameter.element_size();
    const bool foreign_bytes = c10::elementSize(layout_.dtype) == 2 &&
                               parameter.storage_offset() == 0 &&
                               parameter.storage().nbytes() == 2 * dense;
    TORCH_CHECK(
        parameter.sizes() == slice.sizes && parameter.scalar_type() == layout_.dtype &&
            !foreign_bytes,
        "LibZeRO: after setup the storage of '", slice.parameter.name,
        "' was replaced by one of sizes ", parameter.sizes(), ", ", parameter.scalar_type(), ", ",
        parameter.storage().nbytes(), " bytes, which does not fit its page of ", layout_.dtype,
        ". Load, resize or convert the model before setup, or copy_ values into the parameter.");
    const at::NoGradGuard no_grad;
    const at::Tensor values = parameter.detach().clone();
    point_at_page(slice, !permanent_);
    // Into the page's own bytes: a write through the parameter would outdate the graph that has
    // just used the values.
    pin(Access::kWrite);
    announce_write();
    whole_.as_strided(slice.sizes, slice.strides, whole_.storage_offset() + slice.offset)
        .copy_(values);
    unpin();
    if (permanent_ && on_rewritten) on_rewritten(i);
  }
}

void ParameterPage::pin(Access access) {
  owner_.freshen();
  if (residency_ != nullptr) residency_->pin(*this, access);
}

void ParameterPage::pin_beyond_budget() {
  owner_.freshen();
  if (residency_ != nullptr) residency_->pin_beyond_budget(*this);
}

void ParameterPage::unpin() noexcept {
  if (residency_ != nullptr) residency_->unpin(*this);
}

void ParameterPage::announce_write() {
  if (residency_ != nullptr) residency_->announce_write(*this);
}

std::string ParameterPage::name() const {
  std::string text = "page " + std::to_string(id_);
  text.append(" (").append(layout_.storages.front().what);
  if (layout_.storages.size() > 1) text.append(" ... ").append(layout_.storages.back().what);
  return text.append(")");
}

}  // namespace zero
