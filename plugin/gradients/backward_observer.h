// SPDX-License-Identifier: Apache-2.0
// Sees the beginning and the end of every backward pass, whoever starts it: LibTorch asks for its autograd engine
// through a stub, and ours is the engine that was there before, with a bell at its door.
#pragma once

namespace zero {

class BackwardListener {
 public:
  // Before the first gradient of the outermost backward() flows. May throw: then backward does not run.
  virtual void backward_begins() = 0;
  // After its last gradient. `completed` is false when it ended by an exception; then this must not throw.
  virtual void backward_ends(bool completed) = 0;

 protected:
  ~BackwardListener() = default;
};

// autograd::grad() is not observed: it accumulates nothing. Nested and concurrent backward passes count as one.
class BackwardSubscription {
 public:
  explicit BackwardSubscription(BackwardListener& listener);
  ~BackwardSubscription();
  BackwardSubscription(const BackwardSubscription&) = delete;
  BackwardSubscription& operator=(const BackwardSubscription&) = delete;

 private:
  BackwardListener& listener_;
};

}  // namespace zero
