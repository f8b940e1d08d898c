// SPDX-License-Identifier: Apache-2.0
// Tests on several ranks, each with a GPU of its own where the tests run on GPUs.
#pragma once

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "support/device.h"
#include "support/ranks.h"

namespace zero::testing {

// As on_ranks(), leaving out what needs more GPUs than there are and saying so.
inline void on_test_ranks(const std::vector<int>& counts, const std::string& body, const RankRun& run = {}) {
  std::vector<int> possible;
  for (const int ranks : counts) {
    if (test_device().is_cpu() || ranks <= static_cast<int>(torch::cuda::device_count())) {
      possible.push_back(ranks);
    } else {
      std::cout << "not run: " << body << " on " << ranks << " ranks, for want of GPUs\n";
    }
  }
  if (possible.empty()) GTEST_SKIP() << "fewer GPUs than ranks";
  on_ranks(possible, body, run);
}

}  // namespace zero::testing
