// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/parameter_page.h"

#include "plugin/paging/residency.h"

namespace zero {

ParameterPage::ParameterPage(int id, PageLayout layout, at::Device device, bool permanent)
    : id_(id),
      layout_(std::move(layout)),
      permanent_(permanent),
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

void ParameterPage::mark_stale(std::function<void()> refresh) {
  const std::lock_guard lock(stale_mutex_);
  refresh_ = std::move(refresh);
  if (stale_.exchange(true)) return;
  if (permanent_) set_tagged(true);
}

void ParameterPage::freshen() {
  if (!stale_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(stale_mutex_);
  if (!stale_.load()) return;
  refresh_();
  if (permanent_) set_tagged(false);
  stale_.store(false, std::memory_order_release);
}

void ParameterPage::set_tagged(bool tagged) {
  at::NoGradGuard no_grad;
  for (const auto& slice : layout_.parameters) {
    at::Tensor parameter = slice.parameter.tensor;
    parameter.set_data(storages_[slice.storage]->tensor(
        parameter.sizes(), parameter.strides(), parameter.storage_offset(), layout_.dtype, tagged));
  }
}

void ParameterPage::pin(Access access) {
  freshen();
  if (residency_ != nullptr) residency_->pin(*this, access);
}

void ParameterPage::pin_beyond_budget() {
  freshen();
  if (residency_ != nullptr) residency_->pin_beyond_budget(*this);
}

void ParameterPage::unpin() noexcept {
  if (residency_ != nullptr) residency_->unpin(*this);
}

}  // namespace zero
