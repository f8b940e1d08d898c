// SPDX-License-Identifier: Apache-2.0
// What a function's results depend on besides its arguments: random generators and autocast.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <utility>
#include <vector>

namespace zero {

// A snapshot, and the way back to it. Covers the CPU's generator, those of the GPUs that are passed
// or current, and autocast on CPU and CUDA.
class Environment {
 public:
  static Environment current(bool with_rng, const std::vector<at::Device>& devices);

  // While it lives this thread has the snapshot's autocast, and the generators continue from the
  // snapshot; then everything is as it was before.
  class Restored {
   public:
    explicit Restored(const Environment& wanted);
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;
    ~Restored();

   private:
    const Environment& wanted_;
    std::vector<at::Tensor> generators_before_;
    std::array<std::pair<bool, at::ScalarType>, 2> autocast_before_;
    bool cache_before_;
  };

 private:
  using Autocast = std::array<std::pair<bool, at::ScalarType>, 2>;  // enabled, dtype; CPU, CUDA
  static Autocast current_autocast();
  static void set_autocast(const Autocast& autocast);

  std::vector<std::pair<at::Generator, at::Tensor>> generators_;  // with their states
  Autocast autocast_;
  bool cache_ = true;
};

}  // namespace zero
