// SPDX-License-Identifier: Apache-2.0
// Real training under a configuration, and what can be seen of it from outside.
#pragma once

#include <torch/torch.h>

#include <set>
#include <string>
#include <vector>

#include "zero/activation_report.h"
#include "zero/strategy.h"
#include "zero/trainer.h"

namespace zero::testing {

// Lines of a configuration file: "stage: 3".
using Lines = std::vector<std::string>;

struct ObservedRun {
  EngineConfig config;  // with what its consumers have read
  MemoryReport memory;  // after the last step
  ActivationReport activations;
  TrainSummary summary;
  StepReport step;  // the last
  int64_t micro_batches = 0;
  int threads_started = 0;           // by setup
  bool takes_own_optimizer = false;  // one of a class that LibZeRO does not know
  at::Device device{at::kCPU};
  at::ScalarType weight_type = at::kFloat;
};

// Four optimizer steps of zero::Trainer on a stack of four layers of 1 MiB, each a checkpointed
// region, on the ranks that run it; `lines` as a file. The losses of the micro-batches in
// `overflow_at`, counted from 0, are infinite.
ObservedRun observed_run(const Lines& lines, const std::set<int64_t>& overflow_at = {});

}  // namespace zero::testing
