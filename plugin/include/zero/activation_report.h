// SPDX-License-Identifier: Apache-2.0
// What became of activations since setup: which regions ran, and what was moved out of the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero {

// One name of zero::checkpoint regions. Times are measured with profile_activations only, and are
// then those of the host waiting for the device at both ends.
struct RegionReport {
  std::string name;
  int64_t runs = 0;          // in forward
  int64_t runs_again = 0;    // in backward
  double seconds = 0;        // of all runs in forward
  double seconds_again = 0;  // of all runs in backward
};

struct ActivationReport {
  int64_t regions = 0;         // runs in forward
  int64_t tensors_moved = 0;   // to the host, or to this rank's part
  int64_t bytes_moved = 0;     // away from the device
  int64_t bytes_returned = 0;  // and back
  int64_t tensors_kept = 0;    // that could have been moved, but are small, parameters or views of
                               // them, elsewhere, or beyond activation_offload_ratio
  int64_t largest_kept = 0;    // bytes of the largest of them
  int64_t boundary_waits = 0;  // of the host for the device, at ends of regions
  int64_t blocks_mapped = 0;   // how often memory was allocated for what is moved
  std::vector<RegionReport> by_name;  // in order of their first run
  std::string table() const;
};

}  // namespace zero
