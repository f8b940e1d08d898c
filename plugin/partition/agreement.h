// SPDX-License-Identifier: Apache-2.0
// The words for values that differ between ranks. Pure functions: every rank makes the same text
// from the same values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zero {

// Who holds which value, one line for each distinct one, in order of its first rank:
//   rank 0, 2: "adamw"
//   rank 1: "sgd"
// Of long texts only the first differing line is shown, from shortly before the first difference.
// `values` has one entry per rank and at least two that differ.
std::string describe_difference(const std::vector<std::string>& values);

// "rank 1", "ranks 0, 2 and 3".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace zero
