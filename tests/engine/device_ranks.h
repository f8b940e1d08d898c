// SPDX-License-Identifier: Apache-2.0
// Tests on several ranks, each with a GPU of its own where the tests run on GPUs and there are
// enough of them; else the ranks share them and communicate over Gloo.
#pragma once

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "support/device.h"
#include "support/ranks.h"

namespace zero::testing {

inline void on_test_ranks(const std::vector<int>& counts, const std::string& body,
                          RankRun run = {}) {
  for (const int ranks : counts) {
    const bool share =
        test_device().is_cuda() && ranks > static_cast<int>(torch::cuda::device_count());
    run.environment.insert_or_assign("ZERO_SHARE_GPUS", std::string(1, share ? '1' : '0'));
    on_ranks({ranks}, body, run);
  }
}

}  // namespace zero::testing
