// SPDX-License-Identifier: Apache-2.0
#include "plugin/autograd/saved_tensor_policy.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace zero {

namespace {

thread_local std::vector<SavedTensorPolicy*> scopes;

struct ProcessPolicy {
  std::atomic<bool> present{false};  // operators ask for each tensor: most find nothing, at once
  std::mutex mutex;
  std::shared_ptr<SavedTensorPolicy> policy;
};

ProcessPolicy& process_policy() {
  static auto* const only = new ProcessPolicy;  // never destroyed: autograd threads may end last
  return *only;
}

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorPolicy& policy) { scopes.push_back(&policy); }
SavedTensorScope::~SavedTensorScope() { scopes.pop_back(); }

void set_process_policy(std::shared_ptr<SavedTensorPolicy> policy) {
  ProcessPolicy& process = process_policy();
  const std::lock_guard lock(process.mutex);
  process.policy.swap(policy);
  process.present = process.policy != nullptr;
}

namespace {

SavedTensorHooks process_hooks(SavedBy by) {
  ProcessPolicy& process = process_policy();
  if (!process.present.load(std::memory_order_acquire)) return nullptr;
  std::shared_ptr<SavedTensorPolicy> policy;
  {
    const std::lock_guard lock(process.mutex);
    policy = process.policy;
  }
  return policy ? policy->hooks(by) : nullptr;
}

}  // namespace

SavedTensorHooks current_hooks(SavedBy by) {
  return scopes.empty() ? process_hooks(by) : scopes.back()->hooks(by);
}

SavedTensorHooks hooks_outside(const SavedTensorPolicy& policy, SavedBy by) {
  const auto scope = std::find(scopes.rbegin(), scopes.rend(), &policy);
  TORCH_INTERNAL_ASSERT(scope != scopes.rend());
  const auto outside = std::next(scope);
  return outside == scopes.rend() ? process_hooks(by) : (*outside)->hooks(by);
}

}  // namespace zero
