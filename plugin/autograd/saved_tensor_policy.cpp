// SPDX-License-Identifier: Apache-2.0
#include "plugin/autograd/saved_tensor_policy.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plugin/autograd/process_wide.h"

namespace zero {

namespace {

struct Scope {
  SavedTensorPolicy* policy;
  int pass;  // the backward inside which it was entered; -1: outside any
};
thread_local std::vector<Scope> scopes;

ProcessWide<SavedTensorPolicy>& process_policy() {
  static auto* const only = new ProcessWide<SavedTensorPolicy>;
  return *only;
}

SavedTensorHooks process_hooks(uint64_t region) {
  const auto policy = process_policy().get();
  return policy ? policy->hooks(region) : nullptr;
}

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorPolicy& policy) {
  scopes.push_back({&policy, torch::autograd::get_current_graph_task_id()});
}
SavedTensorScope::~SavedTensorScope() { scopes.pop_back(); }

void set_process_policy(std::shared_ptr<SavedTensorPolicy> policy) {
  process_policy().set(std::move(policy));
}

SavedTensorHooks current_hooks() {
  if (scopes.empty()) return process_hooks(0);
  // A backward inside a scope runs on this thread or on another one, as the device has it. So that
  // scopes are the same either way, what it saves is kept as usual.
  if (scopes.back().pass != torch::autograd::get_current_graph_task_id()) return nullptr;
  return scopes.back().policy->hooks(0);
}

SavedTensorHooks hooks_outside(const SavedTensorPolicy& scope, uint64_t region) {
  const auto inside = std::find_if(scopes.rbegin(), scopes.rend(),
                                   [&](const Scope& one) { return one.policy == &scope; });
  TORCH_INTERNAL_ASSERT(inside != scopes.rend());
  const auto outside = std::next(inside);
  return outside == scopes.rend() ? process_hooks(region) : outside->policy->hooks(region);
}

}  // namespace zero
