// SPDX-License-Identifier: Apache-2.0
// The safetensors files that together hold a model's weights: one file, or shards with an index as
// Hugging Face writes them (model.safetensors.index.json with a weight_map from tensor to file).
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <string>

#include "plugin/state/safetensors.h"

namespace zero {

class WeightFiles {
 public:
  struct Source {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };

  // A .safetensors file, an index (*.index.json), or a folder that holds one of them. All headers
  // are read and checked. Throws one error with everything that is wrong: files that are missing,
  // damaged or not named by the index, tensors that are not where the index says, names that are
  // stored twice.
  explicit WeightFiles(const std::filesystem::path& from);

  // Every tensor by its stored name. Points into this object.
  const std::map<std::string, Source>& tensors() const { return tensors_; }

 private:
  class Opener;
  std::deque<SafetensorsFile> files_;
  std::map<std::string, Source> tensors_;
};

}  // namespace zero
