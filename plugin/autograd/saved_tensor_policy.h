// SPDX-License-Identifier: Apache-2.0
// Decides what becomes of a tensor that an operator saves for its backward: LibTorch asks its
// autograd engine for hooks at each one, and ours (backward_observer.h) asks the policy in force.
//
// A thread's innermost scope is in force; where a thread has none, the policy of the process is.
// All functions may be called from any thread.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

namespace zero {

using SavedTensorHooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;

class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  // Hooks for the next saved tensor; empty: whoever saves it keeps the tensor itself. `region` is the
  // number of the checkpointed region that saves it as its argument; 0: an operator does.
  virtual SavedTensorHooks hooks(uint64_t region) = 0;
};

// A policy for what this thread saves while the scope lives.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;
  ~SavedTensorScope();
};

// Empty: none. Hooks that the policy before has made stay valid.
void set_process_policy(std::shared_ptr<SavedTensorPolicy> policy);

// Hooks for what an operator on this thread saves; empty where no policy is in force.
SavedTensorHooks current_hooks();
// Hooks for an argument of a region, by the policy that was in force before this thread entered the
// region's scope.
SavedTensorHooks hooks_outside(const SavedTensorPolicy& scope, uint64_t region);

}  // namespace zero
