// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/interposer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>

#include "plugin/paging/operator_facts.h"

namespace zero {

namespace {

template <class Action>
void for_each_tensor(const c10::IValue& value, const Action& action) {
  if (value.isTensor()) {
    action(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) action(element.toTensor());
    }
  }
}

void pin_value(PinScope& pins, const c10::IValue& value, Access access) {
  for_each_tensor(value, [&](const at::Tensor& tensor) { pins.add(tensor, access); });
}

void check_reduction(const c10::OperatorHandle& op, const c10::IValue& value) {
  for_each_tensor(value, [&](const at::Tensor& tensor) {
    const PagedStorage* const storage = paged_storage_of(tensor);
    if (storage != nullptr) storage->page().check_reduction(op.schema().name());
  });
}

// set_ on a paged tensor would move it out of its page: torch::load into a parameter does that. The
// values are what is meant, so they are copied into the page.
void copy_instead_of_set(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const auto arguments = torch::jit::last(*stack, count);
  const at::Tensor self = arguments[0].toTensor();
  TORCH_CHECK(arguments[1].isTensor() && arguments[1].toTensor().sizes() == self.sizes(),
              "LibZeRO: set_ on ", paged_storage_of(self)->what(),
              " would take it out of its page. Only a tensor of the same shape can be loaded into "
              "it; copy_ it, or "
              "call zero::Strategy::teardown() first.");
  const at::Tensor source = arguments[1].toTensor();
  at::Tensor(self).copy_(source);
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, self);
}

void interpose(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const OperatorFacts& facts = facts_of(op);
  PinScope pins;
  if (!facts.reads_no_bytes) {
    const auto arguments = torch::jit::last(*stack, facts.writes.size());
    if (facts.replaces_storage && paged_storage_of(arguments[0].toTensor()) != nullptr) {
      copy_instead_of_set(op, stack);
      return;
    }
    for (size_t i = 0; i < facts.writes.size(); ++i) {
      if (facts.reduces) check_reduction(op, arguments[i]);
      pin_value(pins, arguments[i], facts.writes[i] ? Access::kWrite : Access::kRead);
    }
    pins.begin();
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kPagedKey), stack);
}

// The recurrent layers are composites that compare raw weight pointers on CUDA before any operator
// below them runs. Sent on below autograd they reach the interposer whole, so one call pins all
// their weights; the operators inside see autograd as before.
void send_below_autograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack) {
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

struct Libraries {
  Libraries()
      : all(torch::Library::IMPL, "_", kPagedKey, __FILE__, __LINE__),
        recurrent(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCUDA, __FILE__,
                  __LINE__) {
    all.fallback(torch::CppFunction::makeFromBoxedFunction<&interpose>());
    for (const char* name : {"lstm", "gru", "rnn_tanh", "rnn_relu"}) {
      for (const char* form : {".input", ".data"}) {
        recurrent.impl((std::string(name) += form).c_str(),
                       torch::CppFunction::makeFromBoxedFunction<&send_below_autograd>());
      }
    }
  }
  torch::Library all;
  torch::Library recurrent;
};

// Never destroyed: tagged tensors may outlive every static object. In static memory, so that it is
// no leak.
union InstalledForGood {
  InstalledForGood() : libraries() {}
  ~InstalledForGood() {}
  Libraries libraries;
};

}  // namespace

void install_interposer() { static const InstalledForGood interposer; }

PinScope::~PinScope() {
  for (auto page = pages_.rbegin(); page != pages_.rend(); ++page) (*page)->unpin();
}

void PinScope::add(const at::Tensor& tensor, Access access) {
  PagedStorage* const storage = paged_storage_of(tensor);
  if (storage == nullptr) return;
  pages_.reserve(pages_.size() + 1);
  storage->page().pin(access);
  pages_.push_back(&storage->page());
  if (access == Access::kWrite &&
      std::find(written_.begin(), written_.end(), &storage->page()) == written_.end()) {
    written_.push_back(&storage->page());
  }
}

void PinScope::begin() {
  for (Page* page : written_) page->announce_write();
}

}  // namespace zero
