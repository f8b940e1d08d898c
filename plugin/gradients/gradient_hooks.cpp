// SPDX-License-Identifier: Apache-2.0
// Where gradients come in: hooks on the parameters' accumulators.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <vector>

#include "plugin/gradients/gradient_slot.h"
#include "plugin/gradients/gradients.h"

namespace zero {

namespace {

// Hangs on a parameter's accumulator, behind all hooks of the user, and leaves autograd nothing to
// accumulate: `.grad` is ours alone, and passes of several threads cannot meet in it. (LibTorch
// runs its hook *after* accumulation outside of the lock that guards `.grad`.)
class TakeGradient final : public torch::autograd::FunctionPreHook {
 public:
  TakeGradient(Gradients& owner, GradientPage& page, size_t parameter)
      : owner_(owner), page_(page), parameter_(parameter) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    if (gradients[0].defined()) owner_.arrived(page_, parameter_, gradients[0]);
    return {at::Tensor()};
  }

 private:
  Gradients& owner_;
  GradientPage& page_;
  size_t parameter_;
};

}  // namespace

void Gradients::add(ParameterPage& page) {
  const std::lock_guard lock(mutex_);
  make_room_for(page.layout().numel);
  order_.push_back(static_cast<int>(pages_.size()));
  book(page);
}

void Gradients::backward_begins() {
  if (options_.on_pass) options_.on_pass(/*begins=*/true);
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (before_backward) before_backward();
  hook_parameters();
}

void Gradients::attach() { hook_parameters(); }

void Gradients::hook_parameters() {
  for (auto& page : pages_) {
    for (size_t i = 0; i < page->entries_.size(); ++i) {
      const auto& entry = page->entries_[i];
      if (!entry.storage || entry.accumulator) continue;
      if (!page->layout().parameters[i].parameter.tensor.requires_grad()) continue;  // frozen
      hook_accumulator(*page, i);
      // set_ gives a parameter a new accumulator, without hooks: torch::load does that. A hook on
      // the parameter itself stays.
      const at::Tensor& parameter = page->layout().parameters[i].parameter.tensor;
      page->entries_[i].follower = parameter.register_hook(
          [this, &gradients = *page, i](const at::Tensor&) { hook_accumulator(gradients, i); });
      watch_gradient(parameter, [this, &gradients = *page, i] { looked_at(gradients, i); });
    }
  }
}

void Gradients::hook_accumulator(GradientPage& page, size_t parameter) {
  const std::lock_guard lock(mutex_);
  auto& entry = page.entries_[parameter];
  const auto accumulator =
      torch::autograd::impl::grad_accumulator(page.layout().parameters[parameter].parameter.tensor);
  if (accumulator == entry.accumulator) return;
  accumulator->add_pre_hook(std::make_unique<TakeGradient>(*this, page, parameter));
  entry.accumulator = accumulator;
}

void Gradients::detach() {
  for (const auto& page : pages_) {
    for (size_t i = 0; i < page->entries_.size(); ++i) {
      auto& entry = page->entries_[i];
      if (!entry.accumulator) continue;
      unwatch_gradient(named(*page, i).tensor);
      page->layout().parameters[i].parameter.tensor.remove_hook(entry.follower);
      std::erase_if(entry.accumulator->pre_hooks(), [](const auto& hook) {
        return dynamic_cast<const TakeGradient*>(hook.get()) != nullptr;
      });
    }
  }
}

}  // namespace zero
