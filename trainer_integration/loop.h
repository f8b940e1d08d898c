// SPDX-License-Identifier: Apache-2.0
// The trainer's loop without the strategy behind it: LoopTarget is all that it calls, so a test can
// stand in for the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>

#include "zero/strategy.h"
#include "zero/trainer.h"

namespace zero {

struct LoopTarget {
  int rank = 0;
  int world_size = 1;
  int64_t accumulation_steps = 1;
  std::function<void(const at::Tensor&)> backward;
  std::function<StepReport()> step;
  std::function<void()> zero_grad;
  std::function<MemoryReport()> memory_report;
};

// `endless`: the stream is known to have no end, so `options` must give steps. Progress goes to
// `out`; `terminal` says whether a line there can be written over.
TrainSummary run_loop(const LoopTarget& target, const TrainerOptions& options,
                      const TrainerCallbacks& callbacks, const NextMicroBatch& next, bool endless,
                      std::ostream& out, bool terminal);

}  // namespace zero
