// SPDX-License-Identifier: Apache-2.0
// Trains the boring model for a few steps and tells the device memory at each layer boundary.
#pragma once

#include <zero/activation_report.h>
#include <zero/memory_report.h>

#include <filesystem>
#include <string>
#include <vector>

#include "examples/boring_model/model.h"

namespace boring {

struct Workload {
  ModelSizes sizes;
  int64_t batch = 256;  // samples
  int64_t rows = 256;   // of a sample
  int64_t steps = 6;    // the last one is shown
  std::string precision = "fp16";
  std::string device = "auto";
};

struct Series {
  bool cpu_checkpointing = false;
  std::vector<int64_t> boundary_bytes;  // of the last forward: linear_in, linear_0 ..., linear_out
  double step_seconds = 0;              // median of all steps but the first two
  int64_t moved_bytes = 0;              // to the host, in the last step
  zero::MemoryReport memory;            // after the last step
  zero::ActivationReport activations;
};

// One run, with a model and a strategy of its own. On a GPU bytes are those of LibTorch's CUDA
// allocator; on the CPU those of its CPU allocator without what the strategy keeps in host memory.
Series run_series(const Workload& workload, bool cpu_checkpointing);

// "linear_in", "linear_0", ..., "linear_out"
std::vector<std::string> boundary_names(const ModelSizes& sizes);
std::string table(const Workload& workload, const std::vector<Series>& all);
std::string picture(const Workload& workload, const std::vector<Series>& all);

}  // namespace boring
