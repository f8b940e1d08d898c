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

// Who saves a tensor: an operator, or a checkpointed region its argument.
enum class SavedBy : uint8_t { kOperator, kRegion };

class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  // Hooks for the next saved tensor; empty: LibTorch keeps the tensor itself.
  virtual SavedTensorHooks hooks(SavedBy by) = 0;
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

// Hooks of the policy in force on this thread; empty where there is none.
SavedTensorHooks current_hooks(SavedBy by);
// The same as before this thread entered the scope of `policy`, which it is in.
SavedTensorHooks hooks_outside(const SavedTensorPolicy& policy, SavedBy by);

}  // namespace zero
