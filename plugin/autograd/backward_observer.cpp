// SPDX-License-Identifier: Apache-2.0
#include "plugin/autograd/backward_observer.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "plugin/autograd/saved_tensor_policy.h"

namespace zero {

namespace {

using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::variable_list;

// Of the passes that this thread starts.
thread_local double scale_here = 1.0;

class Listeners {
 public:
  void add(BackwardListener& listener) {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(&listener);
    count_ = listeners_.size();
  }
  void remove(BackwardListener& listener) {
    const std::lock_guard lock(mutex_);
    std::erase(listeners_, &listener);
    count_ = listeners_.size();
  }
  void pass_begins() {
    const std::lock_guard lock(mutex_);
    for (auto* listener : listeners_) listener->backward_begins();
  }
  void pass_ended(bool completed) {
    const std::lock_guard lock(mutex_);  // a listener that goes away waits for its last call
    for (auto* listener : listeners_) listener->backward_ends(completed);
  }
  size_t count() const { return count_; }
  std::mutex& turn() { return turn_; }
  std::atomic<bool>& running() { return running_; }
  std::atomic<double>& scale() { return scale_; }

 private:
  std::mutex turn_;   // held for a whole pass
  std::mutex mutex_;  // guards what follows
  std::vector<BackwardListener*> listeners_;
  std::atomic<size_t> count_{0};
  std::atomic<bool> running_{false};
  std::atomic<double> scale_{1.0};  // of the pass that is running
};

Listeners& listeners() {
  static auto* const all =
      new Listeners;  // never destroyed: autograd threads may end after static objects
  return *all;
}

// Hands the work to the engine that was there before. LibTorch starts its device threads once per
// process, for the first engine that runs a backward on a GPU, so an engine of our own would stand
// without threads in a process that has already trained something.
class ObservedEngine final : public Engine {
 public:
  explicit ObservedEngine(Engine& inner) : inner_(inner) {}

  variable_list execute(const edge_list& roots, const variable_list& inputs, bool keep_graph,
                        bool create_graph, bool accumulate_grad,
                        const edge_list& outputs) override {
    const auto run = [&] {
      return inner_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    };
    const bool inside_another =
        listeners().running() && torch::autograd::get_current_graph_task_id() != -1;
    if (!accumulate_grad || inside_another) return run();
    const std::lock_guard turn(listeners().turn());
    listeners().pass_begins();
    listeners().running() = true;
    listeners().scale() = scale_here;
    variable_list result;
    try {
      result = run();
    } catch (...) {
      listeners().running() = false;
      listeners().pass_ended(false);
      throw;
    }
    listeners().running() = false;
    listeners().pass_ended(true);
    return result;
  }

  SavedTensorHooks get_default_saved_variable_hooks() override { return current_hooks(); }

 private:
  Engine& inner_;
};

ObservedEngine* the_engine = nullptr;

Engine& observed_engine() { return *the_engine; }

}  // namespace

void install_observed_engine() {
  static const bool installed = [] {
    the_engine = new ObservedEngine(
        Engine::get_default_engine());  // never destroyed: LibTorch keeps the stub
    torch::autograd::set_default_engine_stub(&observed_engine);
    return true;
  }();
  (void)installed;
}

ScaledPasses::ScaledPasses(double scale) : before_(scale_here) { scale_here = scale; }
ScaledPasses::~ScaledPasses() { scale_here = before_; }

double running_scale() { return listeners().scale(); }

BackwardSubscription::BackwardSubscription(BackwardListener& listener) : listener_(listener) {
  install_observed_engine();
  listeners().add(listener_);
}

bool BackwardSubscription::alone() const { return listeners().count() == 1; }

BackwardSubscription::~BackwardSubscription() { listeners().remove(listener_); }

}  // namespace zero
