// SPDX-License-Identifier: Apache-2.0
// A trainer with flags of its own, as many projects have one: what it does with them is what the
// test beside it asks.
#pragma once

#include <string>
#include <vector>

#include "zero/strategy.h"

// "--zero 3 --offload --accumulate 4" as this project's users write it.
struct MyFlags {
  int zero = 0;
  bool offload = false;
  int accumulate = 1;
};

inline zero::StrategyOptions strategy_from(const MyFlags& flags) {
  return zero::StrategyOptions()
      .stage(flags.zero)
      .offload_parameters(flags.offload)
      .offload_optimizer(flags.offload)
      .gradient_accumulation_steps(flags.accumulate);
}
