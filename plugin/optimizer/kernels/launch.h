// SPDX-License-Identifier: Apache-2.0
// The check after every kernel launch of this room.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace zero::kernels {

inline void check_launch(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(
        std::string(what) +
        ": CUDA refused the launch on the current device: " + cudaGetErrorString(error));
  }
}

}  // namespace zero::kernels
