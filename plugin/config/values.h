// SPDX-License-Identifier: Apache-2.0
// Texts to values and back: how people write booleans, whole numbers, sizes and choices in YAML or
// on a command line.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/engine_config.h"

namespace zero {

// Sizes are whole; a fraction of one is rounded down with a notice. Elements are counted, not bytes.
enum class Unit : uint8_t { kNone, kBytes, kElements };

struct Range {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
};

// A value as it was written. Quotes matter: "8" is a string, 8 is a number.
struct Scalar {
  std::string text;
  bool quoted = false;
};

// Either a value, with a notice where it was not written as it was understood, or the reason why
// there is none.
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string reason;
  std::string notice = {};
};

// T: bool, int, int64_t, double, std::string or one of the choices. The range is not looked at.
template <class T>
Parsed<T> parse_value(const Scalar& scalar, Unit unit);
// As it stands in the file, for messages: the string "8", or 8.
std::string as_written(const Scalar& scalar);
bool equal_ignoring_case(std::string_view a, std::string_view b);

std::string print_value(bool value, Unit unit);
std::string print_value(int value, Unit unit);
std::string print_value(int64_t value, Unit unit);
std::string print_value(double value, Unit unit);
std::string print_value(const std::string& value, Unit unit);
std::string print_value(const std::vector<double>& value, Unit unit);
std::string print_value(Precision value, Unit unit);
std::string print_value(NumberType value, Unit unit);
std::string print_value(NonfiniteGradients value, Unit unit);
std::string print_value(DeviceChoice value, Unit unit);
std::string print_value(UpdateKernel value, Unit unit);

// The names of a choice in declaration order; empty for T that is no choice.
template <class T>
std::vector<std::string_view> choices();

// Control characters become \n, \t or \x01, so that a message stays one line.
std::string printable(std::string_view text);

// "a", "a or b", "a, b or c".
std::string join_or(const std::vector<std::string_view>& words);

// The candidate that `word` was probably meant to be: few edits away for its length, or made of
// mostly the same words. Case, '-' and '_' do not count.
std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates);

}  // namespace zero
