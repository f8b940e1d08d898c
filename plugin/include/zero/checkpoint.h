// SPDX-License-Identifier: Apache-2.0
// Activation checkpointing: a region keeps its arguments instead of what its operators save, and
// runs again when backward needs that.
//
//   x = zero::checkpoint(block, x, mask);                              // a module or any callable
//   x = zero::checkpoint([&](at::Tensor h) { return net->up(h); }, x);
//   auto [h, c] = zero::checkpoint(zero::CheckpointOptions().name("cell"), cell, x, state);
//
// Works with and without a zero::Strategy; under one with cpu_checkpointing the tensors among the
// arguments wait in host memory. Pass tensors as arguments, not by capture: only arguments are
// moved. What is captured by reference must live until backward has run.
//
// Arguments are of any types that can be copied; tensors_in.h tells in which of them tensors are
// found. The function gets copies of them, as lvalues. It returns one or several tensors, in any
// type. Regions nest. Under NoGradGuard the function is simply called.
//
// Gradients have the same bits as without, also with dropout: the second run sees the first one's
// random state and autocast. It stops as soon as everything that was saved is there again. retain_graph,
// several backwards, double backward and autograd::grad() work; each backward runs the region again.
//
// Errors are c10::Error and name the region: an argument, or a parameter used inside, that was
// changed in place between the two runs; a second run that saves other tensors than the first (other
// number, shape, type or operator); a function that returns no tensor. A function must do the same
// both times: what it counts or appends elsewhere happens twice. (So batch norm takes its running
// statistics twice a step, with the same batch.)
//
// Any thread. CPU random numbers come from one generator in the process: threads that use it while
// another one's region runs again may get the same numbers.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/arg.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "zero/tensors_in.h"

namespace zero {

struct CheckpointOptions {
  TORCH_ARG(std::string, name);          // for messages and reports; else the function's type
  TORCH_ARG(bool, preserve_rng) = true;  // false: cheaper where nothing is random
  // Keeps what the first run saved and compares it bit by bit: an error where a function does not
  // repeat itself. For debugging: it takes the memory that checkpointing saves.
  TORCH_ARG(bool, check_determinism) = false;
};

class RecordedRegion;

namespace detail {

// The first run of a region, from construction to destruction. Lives on the stack of
// zero::checkpoint().
class RegionRun {
 public:
  using RunAgain = std::function<void(const std::vector<at::Tensor>& arguments)>;
  RegionRun(const CheckpointOptions& options, const std::type_info& function,
            const std::vector<at::Tensor>& arguments, RunAgain run_again);
  RegionRun(const RegionRun&) = delete;
  RegionRun& operator=(const RegionRun&) = delete;
  ~RegionRun();
  // After the function has returned. Throws when it has changed an argument in place.
  void finish();

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

[[noreturn]] void no_tensor_returned(const CheckpointOptions& options,
                                     const std::type_info& function);

// A callable for a module holder, a shared pointer to a module, or any callable.
template <class Fn>
auto callable(Fn&& fn) {
  using Given = std::decay_t<Fn>;
  if constexpr (requires(const Given& holder) { holder.ptr()->parameters(); }) {
    return [module = fn.ptr()](auto&... arguments) { return module->forward(arguments...); };
  } else if constexpr (requires(const Given& pointer) { pointer->parameters(); }) {
    return [module = std::decay_t<Fn>(fn)](auto&... arguments) {
      return module->forward(arguments...);
    };
  } else {
    return Given(std::forward<Fn>(fn));
  }
}

template <class Result>
bool holds_a_tensor(Result& result) {
  bool found = !Walk<Result>::kSeen;  // nobody can say
  auto look = [&found](const at::Tensor& tensor) { found = found || tensor.defined(); };
  walk(result, look);
  return found;
}

}  // namespace detail

template <class Fn, class... Args>
auto checkpoint(const CheckpointOptions& options, Fn&& fn, Args&&... args) {
  using Function = decltype(detail::callable(std::forward<Fn>(fn)));
  using Arguments = std::tuple<detail::KeptType<Args>...>;
  static_assert(std::is_copy_constructible_v<Arguments>,
                "zero::checkpoint runs the function twice, so its arguments must be copyable");
  static_assert(
      std::is_invocable_v<const Function&, detail::KeptType<Args>&...>,
      "zero::checkpoint cannot call the function with these arguments. It passes lvalues, "
      "and calls the function twice as const: a mutable lambda would do something else "
      "the second time");
  using Result = std::invoke_result_t<const Function&, detail::KeptType<Args>&...>;
  static_assert(!std::is_reference_v<Result>,
                "zero::checkpoint needs a function that returns a value, not a reference");
  const auto& type = typeid(std::decay_t<Fn>);
  if constexpr (std::is_void_v<Result>) {
    detail::no_tensor_returned(options, type);
  } else {
    const auto function = std::make_shared<const Function>(detail::callable(std::forward<Fn>(fn)));
    Arguments arguments(detail::keep(std::forward<Args>(args))...);
    if (!at::GradMode::is_enabled()) return Result(std::apply(*function, arguments));
    Arguments frame = arguments;  // what stays: the arguments without their tensors
    std::vector<at::Tensor> tensors;
    auto take = [&tensors](at::Tensor& tensor) { tensors.push_back(std::move(tensor)); };
    detail::walk(frame, take);
    detail::RegionRun run(options, type, tensors,
                          [function, frame](const std::vector<at::Tensor>& values) {
                            Arguments again = frame;
                            auto next = values.begin();
                            auto put = [&next](at::Tensor& tensor) { tensor = *next++; };
                            detail::walk(again, put);
                            (void)std::apply(*function, again);
                          });
    tensors.clear();
    Result result = std::apply(*function, arguments);
    run.finish();
    if (!detail::holds_a_tensor(result)) detail::no_tensor_returned(options, type);
    return result;
  }
}

template <class Fn, class... Args>
requires(!std::is_same_v<std::decay_t<Fn>, CheckpointOptions>) auto checkpoint(Fn&& fn,
                                                                               Args&&... args) {
  return checkpoint(CheckpointOptions(), std::forward<Fn>(fn), std::forward<Args>(args)...);
}

namespace detail {

template <class Impl, class Method>
class CheckpointedForward;

template <class Impl, class Owner, class Result, class... Args>
class CheckpointedForward<Impl, Result (Owner::*)(Args...)> : public Impl {
 public:
  using Impl::Impl;
  Result forward(Args... args) {
    // The graph keeps the module alive, as far as somebody shares it.
    auto self = this->weak_from_this().lock();
    return checkpoint(
        CheckpointOptions().name(this->name()),
        [this, self](auto&... arguments) { return this->Impl::forward(arguments...); },
        std::forward<Args>(args)...);
  }
};

}  // namespace detail

// A module type whose forward is a region. Names of parameters and modules stay those of Impl:
//
//   using Block = torch::nn::ModuleHolder<zero::Checkpointed<BlockImpl>>;
//
// Impl::forward is one member function, not const; its default arguments are to be written out.
template <class Impl>
using Checkpointed = detail::CheckpointedForward<Impl, decltype(&Impl::forward)>;

// Runs the modules in `segments` parts of nearly equal length, each a region but the last, whose
// activations backward needs first. Throws when there are not that many modules.
at::Tensor checkpoint_sequential(torch::nn::Sequential modules, int64_t segments, at::Tensor input);

}  // namespace zero
