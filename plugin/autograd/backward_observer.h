// SPDX-License-Identifier: Apache-2.0
// Sees the end of every backward pass, whoever starts it: LibTorch asks for its autograd engine
// through a stub, and ours is the engine that was there before, with a bell at its door.
//
// Passes that start on different threads take turns: gradients of one are never mixed with those of
// another, and a pass that has returned is complete. So a backward must not wait for one that
// another thread has yet to start. A pass inside another one (reentrant backward) belongs to the
// outer one. autograd::grad() is not a pass: it accumulates nothing.
#pragma once

namespace zero {

// From the first call on, for the life of the process, our engine stands at the door; it also asks
// the policy of saved_tensor_policy.h about each tensor that is saved.
void install_observed_engine();

class BackwardListener {
 public:
  // Before the first operator of a pass of any model, on the thread that starts it. May throw: then
  // that pass fails.
  virtual void backward_begins() = 0;
  // After the last gradient of a pass, also of one in which the listener had no part. `completed`
  // is false when it ended by an exception; then this must not throw.
  virtual void backward_ends(bool completed) = 0;

 protected:
  ~BackwardListener() = default;
};

// The passes that this thread starts while it lives are of a loss that was multiplied with `scale`.
class ScaledPasses {
 public:
  explicit ScaledPasses(double scale);
  ~ScaledPasses();
  ScaledPasses(const ScaledPasses&) = delete;
  ScaledPasses& operator=(const ScaledPasses&) = delete;

 private:
  double before_;
};

// What the loss of the pass that is running was multiplied with; 1 for one that was started
// otherwise. Any thread, during a pass.
double running_scale();

class BackwardSubscription {
 public:
  explicit BackwardSubscription(BackwardListener& listener);
  ~BackwardSubscription();
  BackwardSubscription(const BackwardSubscription&) = delete;
  BackwardSubscription& operator=(const BackwardSubscription&) = delete;

  // Nobody else listens.
  bool alone() const;

 private:
  BackwardListener& listener_;
};

}  // namespace zero
