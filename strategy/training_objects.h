// SPDX-License-Identifier: Apache-2.0
// The optimizer and the schedule that a configuration describes, as LibTorch objects.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "zero/run_config.h"
#include "zero/schedulers.h"

namespace zero {

// Throws c10::Error where the configuration names no optimizer. What is not given has the default
// of the type in LibTorch, but for two where DeepSpeed's files count on its own: weight_decay is 0,
// and Adam is AdamW unless adam_w_mode is false.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerSettings& settings,
                                                        std::vector<at::Tensor> parameters);

// Throws c10::Error where the configuration names no schedule.
std::unique_ptr<Scheduler> make_scheduler(const SchedulerSettings& settings,
                                          torch::optim::Optimizer& optimizer);

}  // namespace zero
