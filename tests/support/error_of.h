// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace zero::testing {

// What the call throws, or nothing.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace zero::testing
