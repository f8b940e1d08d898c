// SPDX-License-Identifier: Apache-2.0
#include "plugin/autograd/saved_tensor_policy.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plugin/autograd/process_wide.h"

namespace zero {

namespace {

thread_local std::vector<SavedTensorPolicy*> scopes;

ProcessWide<SavedTensorPolicy>& process_policy() {
  static auto* const only = new ProcessWide<SavedTensorPolicy>;
  return *only;
}

SavedTensorHooks process_hooks(uint64_t region) {
  const auto policy = process_policy().get();
  return policy ? policy->hooks(region) : nullptr;
}

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorPolicy& policy) { scopes.push_back(&policy); }
SavedTensorScope::~SavedTensorScope() { scopes.pop_back(); }

void set_process_policy(std::shared_ptr<SavedTensorPolicy> policy) {
  process_policy().set(std::move(policy));
}

SavedTensorHooks current_hooks() {
  return scopes.empty() ? process_hooks(0) : scopes.back()->hooks(0);
}

SavedTensorHooks hooks_outside(const SavedTensorPolicy& scope, uint64_t region) {
  const auto inside = std::find(scopes.rbegin(), scopes.rend(), &scope);
  TORCH_INTERNAL_ASSERT(inside != scopes.rend());
  const auto outside = std::next(inside);
  return outside == scopes.rend() ? process_hooks(region) : (*outside)->hooks(region);
}

}  // namespace zero
