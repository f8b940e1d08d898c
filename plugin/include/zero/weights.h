// SPDX-License-Identifier: Apache-2.0
// Weights from and to safetensors files, tensor by tensor through a small window: the memory that a
// load or an export needs does not grow with the model.
//
//   zero::load_weights(*model, "gpt-j-6b/");                       // file, index or folder
//   zero::export_weights(*model, "out/model.safetensors", at::kBFloat16);
//
// After zero::Strategy::setup use the same functions: operators on paged parameters fetch and write
// pages by themselves. Under several ranks both calls are collective; each rank reads the files,
// and rank 0 writes (see zero::Strategy::export_weights).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace zero {

struct LoadOptions {
  // True: every parameter and buffer must be stored and every stored tensor must be wanted. False:
  // the differences stand in the report.
  bool strict = true;
  // From stored names to the model's: std::regex (ECMAScript) and replacement, applied in order.
  std::vector<std::pair<std::string, std::string>> rename = {};
  // Regular expressions over whole names: these may be missing or left over in any mode.
  std::vector<std::string> ignore = {};
  // Regular expressions over whole model names: stored as the transpose of the parameter (2-D).
  std::vector<std::string> transposed = {};
  int64_t window_bytes = int64_t{16} << 20;  // host memory for bytes on their way
};

struct LoadReport {
  int64_t tensors = 0;                  // loaded
  int64_t bytes = 0;                    // read from files
  std::vector<std::string> missing;     // parameters and buffers that were not stored
  std::vector<std::string> unexpected;  // stored tensors that the model does not have
};

// Copies stored values into the model's parameters and buffers, converting dtypes (never from
// floating point to integers). A weight that the model holds under several names may be stored under
// any of them. Everything is checked before anything is overwritten; c10::Error lists all missing,
// unexpected, doubly mapped and wrongly shaped tensors.
LoadReport load_weights(torch::nn::Module& model, const std::filesystem::path& from,
                        const LoadOptions& options = {});

// Writes parameters and buffers under their names, a tied weight once, floating point ones in
// `dtype` when it is given. The file is written beside `file`, flushed to the disk and then renamed.
void export_weights(const torch::nn::Module& model, const std::filesystem::path& file,
                    std::optional<at::ScalarType> dtype = std::nullopt);

}  // namespace zero
