// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/master_views.h"

namespace zero {

namespace {

constexpr int64_t kFloatBytes = sizeof(float);

void refuse_if_shared(const MasterShard& shard, const std::string& op, const std::string& what,
                      const char* remedy) {
  const auto& layout = shard.page().layout();
  TORCH_CHECK(layout.shard_numel == layout.numel, "LibZeRO: ", op, " over ", what,
              " would be taken over this rank's part alone. ", remedy);
}

at::Tensor tagged_tensor(const PagedStorage& storage, const MasterShard::Geometry& geometry) {
  return storage.tensor(geometry.sizes, geometry.strides, 0, at::kFloat, /*tagged=*/true);
}

}  // namespace

MasterView::MasterView(MasterShard& shard, MasterRange range, const std::string& name, Hooks hooks)
    : shard_(shard),
      range_(range),
      hooks_(std::move(hooks)),
      storage_(*this, range.length * kFloatBytes, shard.device(),
               "the master weights of '" + name + "'"),
      tensor_(tagged_tensor(storage_, shard.geometry(range))) {}

void MasterView::pin(Access access) {
  at::NoGradGuard no_grad;
  if (!values_.defined() || access == Access::kWrite) hooks_.before_use(access);
  if (!values_.defined()) {
    values_ = shard_.read(range_);
    storage_.bind(values_.data_ptr());
  }
  ++pins_;
  written_ |= access == Access::kWrite;
}

void MasterView::unpin() noexcept {
  if (--pins_ > 0) return;
  at::NoGradGuard no_grad;
  if (written_) {
    shard_.write(range_, values_);
    hooks_.on_written();
  }
  written_ = false;
  storage_.release();
  values_.reset();
}

void MasterView::check_reduction(const std::string& op) const {
  refuse_if_shared(shard_, op, storage_.what(),
                   "Take it over the model's parameter, which is whole.");
}

MasterGradient::MasterGradient(Gradients& gradients, const GradientPage& page,
                               const MasterShard& shard, MasterRange range, const std::string& name)
    : gradients_(gradients),
      page_(page),
      shard_(shard),
      range_(range),
      device_(shard.device()),
      storage_(*this, range.length * kFloatBytes, device_,
               "the reduced gradient of '" + name + "'"),
      tensor_(tagged_tensor(storage_, shard.geometry(range))) {}

void MasterGradient::check_reduction(const std::string& op) const {
  refuse_if_shared(shard_, op, storage_.what(),
                   "Call strategy.clip_grad_norm_(), or give clip_grad_norm_ the parameters of the "
                   "model instead of the optimizer's.");
}

at::Tensor MasterGradient::reduced() const {
  return gradients_.shard(page_).narrow(0, range_.begin, range_.length);
}

void MasterGradient::pin(Access access) {
  at::NoGradGuard no_grad;
  if (!values_.defined()) {
    gradients_.optimizer_steps();
    gradients_.finish();
    values_ = reduced().to(device_);
    storage_.bind(values_.data_ptr());
  }
  ++pins_;
  written_ |= access == Access::kWrite;
}

void MasterGradient::unpin() noexcept {
  if (--pins_ > 0) return;
  at::NoGradGuard no_grad;
  if (written_) {
    if (values_.device() != gradients_.shard(page_).device()) reduced().copy_(values_);
    gradients_.written();
  }
  written_ = false;
  storage_.release();
  values_.reset();
}

}  // namespace zero
