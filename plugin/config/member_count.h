// SPDX-License-Identifier: Apache-2.0
// How many members a struct of settings has: a table is checked against it when it is compiled.
#pragma once

#include <cstddef>

namespace zero {

struct AnyMember {
  template <class T>
  operator T() const;
};

template <class Struct, class... Members>
constexpr size_t member_count() {
  if constexpr (requires { Struct{Members{}..., AnyMember{}}; }) {
    return member_count<Struct, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

template <class Struct>
inline constexpr size_t kMemberCount = member_count<Struct>();

}  // namespace zero
