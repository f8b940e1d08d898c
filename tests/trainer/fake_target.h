// SPDX-License-Identifier: Apache-2.0
// A strategy's place taken by plain LibTorch: gradients come from autograd, an update is SGD on one
// weight.
#pragma once

#include <torch/torch.h>

#include <sstream>
#include <string>
#include <vector>

#include "trainer_integration/loop.h"

namespace zero::testing {

struct FakeTarget {
  torch::Tensor weight = torch::ones({}, torch::requires_grad());
  std::vector<double> backward_losses;  // as they came in
  std::vector<double> step_gradients;   // of `weight`, at each step
  int64_t gradients_forgotten = 0;      // calls of zero_grad
  int64_t reports = 0;                  // calls of memory_report
  bool applied = true;                  // what step() reports
  LoopTarget target;

  explicit FakeTarget(int64_t accumulation_steps = 1) {
    target.accumulation_steps = accumulation_steps;
    target.backward = [this](const at::Tensor& loss) {
      backward_losses.push_back(loss.item<double>());
      loss.backward();
    };
    target.step = [this] {
      torch::NoGradGuard no_grad;
      step_gradients.push_back(weight.grad().item<double>());
      weight.sub_(0.1 * weight.grad());
      weight.mutable_grad().reset();
      StepReport report;
      report.applied = applied;
      report.gradient_norm = std::abs(step_gradients.back());
      return report;
    };
    target.zero_grad = [this] {
      weight.mutable_grad().reset();
      ++gradients_forgotten;
    };
    target.memory_report = [this] {
      ++reports;
      return MemoryReport();
    };
  }
  FakeTarget(const FakeTarget&) = delete;
  FakeTarget& operator=(const FakeTarget&) = delete;

  // The loss of batch x is weight * x, so its gradient is x.
  template <class Source>
  TrainSummary fit(const TrainerOptions& options, Source& source,
                   const TrainerCallbacks& callbacks = {}) {
    auto loss = [this](double x) { return weight * x; };
    auto tokens = [](double) { return 10; };
    return run_loop(target, options, callbacks, micro_batch_stream(source, loss, tokens),
                    !BatchRange<Source>, printed, /*terminal=*/false);
  }
  std::ostringstream printed;
};

}  // namespace zero::testing
