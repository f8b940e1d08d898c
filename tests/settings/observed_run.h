// SPDX-License-Identifier: Apache-2.0
// Real training under a configuration, and what can be seen of it from outside.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

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
  StepReport step;                  // the last
  std::vector<at::Tensor> weights;  // of the model, whole, after the last step
  int64_t micro_batches = 0;
  int threads_started = 0;           // by setup
  bool takes_own_optimizer = false;  // one of a class that LibZeRO does not know
  at::Device device{at::kCPU};
  at::ScalarType weight_type = at::kFloat;
};

// Two optimizer steps of zero::Trainer on a stack of four layers of 1 MiB, on the ranks that run
// it; `lines` as a file. With `regions` each layer is a checkpointed region, its arguments are of
// 256 KiB and 2 KiB, and all ranks have the same batches.
ObservedRun observed_run(const Lines& lines, bool regions);

}  // namespace zero::testing
