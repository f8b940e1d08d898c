// SPDX-License-Identifier: Apache-2.0
#include "plugin/gradients/gradient_slot.h"

#include <torch/csrc/autograd/variable.h>

namespace zero {

namespace {

using torch::autograd::AutogradMeta;

class WatchedGradient final : public AutogradMeta {
 public:
  explicit WatchedGradient(std::function<void()> before_look)
      : before_look_(std::move(before_look)) {}
  at::Tensor& mutable_grad() override {
    before_look_();
    return grad_;
  }
  const at::Tensor& grad() const override {
    before_look_();
    return grad_;
  }

 private:
  std::function<void()> before_look_;
};

void move_into(AutogradMeta& to, AutogradMeta& from) {
  to.name_ = std::move(from.name_);
  to.grad_ = std::move(from.grad_);
  to.grad_accumulator_ = std::move(from.grad_accumulator_);
  to.fw_grad_ = std::move(from.fw_grad_);
  to.hooks_ = std::move(from.hooks_);
  to.cpp_hooks_list_ = std::move(from.cpp_hooks_list_);
  to.post_acc_grad_hooks_ = std::move(from.post_acc_grad_hooks_);
  to.requires_grad_ = from.requires_grad_;
  to.grad_dtype_ = from.grad_dtype_;
  to.allow_grad_dtype_mismatch_ = from.allow_grad_dtype_mismatch_;
}

void replace(const at::Tensor& tensor, std::unique_ptr<AutogradMeta> with) {
  move_into(*with, *torch::autograd::impl::materialize_autograd_meta(tensor));
  tensor.unsafeGetTensorImpl()->set_autograd_meta(std::move(with));
}

}  // namespace

void watch_gradient(const at::Tensor& tensor, std::function<void()> before_look) {
  TORCH_INTERNAL_ASSERT(tensor.is_leaf());
  if (torch::autograd::impl::materialize_autograd_meta(tensor)->is_view_) return;
  replace(tensor, std::make_unique<WatchedGradient>(std::move(before_look)));
}

void unwatch_gradient(const at::Tensor& tensor) {
  auto* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (dynamic_cast<WatchedGradient*>(meta) == nullptr) return;
  replace(tensor, std::make_unique<AutogradMeta>());
}

at::Tensor& gradient_slot(const at::Tensor& tensor) {
  return torch::autograd::impl::materialize_autograd_meta(tensor)->grad_;
}

}  // namespace zero
