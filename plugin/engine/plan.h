// SPDX-License-Identifier: Apache-2.0
// From flags to what each room is built with. Every flag of a room is read here, so that one that was
// given and cannot act in this run stays unread and is named after the first step.
#pragma once

#include <string>

#include "plugin/gradients/gradients.h"
#include "plugin/gradients/loss_scaler.h"
#include "plugin/optimizer/sharded_optimizer.h"
#include "plugin/paging/parameter_pages.h"
#include "plugin/partition/world.h"
#include "zero/engine_config.h"

namespace zero {

struct Plan {
  Pinning pinning;
  PagingOptions paging;
  GradientOptions gradients;
  ShardedOptimizerOptions optimizer;
};

// Throws when flags contradict each other, or ask for a kernel that is not there.
Plan make_plan(const EngineConfig& config, const World& world);

// The loss scale of the run, a static 1 unless precision is fp16. Throws as make_plan does.
LossScaler make_scaler(const EngineConfig& config);

// What must be equal on all ranks, a flag a line.
std::string flags_text(const EngineConfig& config);

}  // namespace zero
