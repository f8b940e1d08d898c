// SPDX-License-Identifier: Apache-2.0
// The device that engine tests run on: cpu, or what ZERO_TEST_DEVICE says.
#pragma once

#include <c10/core/Device.h>

#include <cstdlib>
#include <string>

namespace zero::testing {

inline std::string test_device_name() {
  const char* const name = std::getenv("ZERO_TEST_DEVICE");
  return name != nullptr ? name : "cpu";
}

inline at::Device test_device() { return at::Device(test_device_name()); }

}  // namespace zero::testing
