// SPDX-License-Identifier: Apache-2.0
#include "plugin/gradients/gradient_page.h"

#include "plugin/gradients/gradients.h"

namespace zero {

GradientPage::GradientPage(Gradients& owner, ParameterPage& parameters, at::Device device)
    : owner_(owner), parameters_(parameters), entries_(layout().parameters.size()) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (layout().parameters[i].parameter.optimizer < 0) continue;
    renew(i, device);
    ++expected_;
  }
}

void GradientPage::renew(size_t parameter, at::Device device) {
  const auto& slice = layout().parameters[parameter];
  auto& entry = entries_[parameter];
  entry.storage =
      std::make_unique<PagedStorage>(*this, slice.numel * static_cast<int64_t>(sizeof(float)),
                                     device, "the gradient of '" + slice.parameter.name + "'");
  entry.view = entry.storage->tensor(slice.sizes, slice.strides, 0, at::kFloat, /*tagged=*/true);
  if (whole_.defined()) entry.storage->bind(range(whole_, parameter).data_ptr());
}

void GradientPage::pin(Access access) { owner_.pin(*this, access); }
void GradientPage::unpin() noexcept { owner_.unpin(*this); }

at::Tensor GradientPage::range(const at::Tensor& whole, size_t parameter) const {
  const auto& slice = layout().parameters[parameter];
  return whole.narrow(0, slice.offset, slice.numel);
}

at::Tensor GradientPage::shaped(const at::Tensor& whole, size_t parameter) const {
  const auto& slice = layout().parameters[parameter];
  return whole.as_strided(slice.sizes, slice.strides, whole.storage_offset() + slice.offset);
}

void GradientPage::bind(const at::Tensor& whole) {
  whole_ = whole;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].storage) entries_[i].storage->bind(range(whole_, i).data_ptr());
  }
}

void GradientPage::release() {
  for (auto& entry : entries_) {
    if (entry.storage) entry.storage->release();
  }
  whole_.reset();
}

}  // namespace zero
