// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <optional>

namespace zero {

// zero::export_weights of one rank among several: all read, those with `write` write.
void export_weights(const torch::nn::Module& model, const std::filesystem::path& file,
                    std::optional<at::ScalarType> dtype, bool write);

}  // namespace zero
