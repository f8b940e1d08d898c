// SPDX-License-Identifier: Apache-2.0
#include "plugin/config/values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace zero {
namespace {

template <class T>
struct Choices;
template <>
struct Choices<Precision> {
  static constexpr std::array<std::string_view, 3> kNames = {"fp32", "bf16", "fp16"};
};
template <>
struct Choices<NonfiniteGradients> {
  static constexpr std::array<std::string_view, 3> kNames = {"skip", "error", "apply"};
};
template <>
struct Choices<NumberType> {
  static constexpr std::array<std::string_view, 3> kNames = {"fp32", "bf16", "fp16"};
};
template <>
struct Choices<DeviceChoice> {
  static constexpr std::array<std::string_view, 3> kNames = {"auto", "cpu", "cuda"};
};
template <>
struct Choices<UpdateKernel> {
  static constexpr std::array<std::string_view, 4> kNames = {"auto", "avx512", "avx2", "portable"};
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// YAML 1.1 spellings of a boolean, which 1.2 readers still meet.
bool means_true(std::string_view word) { return is_one_of(word, {"true", "yes", "on"}); }
bool means_false(std::string_view word) { return is_one_of(word, {"false", "no", "off"}); }

// The number at the front of `text`; `rest` is what follows it.
std::optional<double> leading_number(std::string_view text, std::string_view& rest) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  rest = std::string_view(end, static_cast<size_t>(text.data() + text.size() - end));
  return value;
}

std::optional<double> unit_factor(std::string_view unit) {
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"B", 1},        {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},    {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, factor] : kUnits) {
    if (name == unit) return factor;
  }
  return std::nullopt;
}

// A number or a word in quotes is what it means; the reader is told.
std::string quotes_notice(const Scalar& scalar) {
  return scalar.quoted ? "read " + as_written(scalar) + " as " + scalar.text : "";
}

// Whole numbers are read exactly; a form with '.', an exponent or a unit goes through a double.
Parsed<int64_t> parse_whole(const Scalar& scalar, Unit unit) {
  std::string_view text = scalar.text;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  int64_t exact = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exact);
  const bool all_digits = end == text.data() + text.size();
  if (all_digits && error == std::errc()) return {exact, "", quotes_notice(scalar)};

  std::string_view rest;
  const std::optional<double> number = leading_number(text, rest);
  const std::optional<double> factor =
      unit == Unit::kBytes ? unit_factor(rest)
                           : (rest.empty() ? std::optional<double>(1.0) : std::nullopt);
  if (!number || !factor) return {{}, "got " + as_written(scalar)};
  const double value = *number * *factor;
  if (std::abs(value) >= 0x1p63) return {{}, "got " + as_written(scalar) + ", which is too large"};
  const auto rounded = static_cast<int64_t>(std::floor(value));
  const bool with_unit = unit == Unit::kBytes && !rest.empty();
  if (value == std::floor(value)) {
    return {rounded, "", with_unit ? std::string() : quotes_notice(scalar)};
  }
  if (unit != Unit::kNone && value > 0) {
    return {rounded, "", "rounded " + scalar.text + " down to " + std::to_string(rounded)};
  }
  return {
      {},
      "got the fraction " + as_written(scalar) + "; did you mean " + std::to_string(rounded) + "?"};
}

template <class T>
Parsed<T> parse_choice(const Scalar& scalar) {
  const auto& names = Choices<T>::kNames;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == scalar.text) return {static_cast<T>(i), ""};
  }
  std::string reason = "got " + as_written(scalar);
  if (const auto name = nearest(scalar.text, choices<T>())) {
    reason += "; did you mean " + std::string(*name) + "?";
  }
  return {{}, reason};
}

}  // namespace

template <class T>
std::vector<std::string_view> choices() {
  if constexpr (std::is_enum_v<T>) {
    return {Choices<T>::kNames.begin(), Choices<T>::kNames.end()};
  } else {
    return {};
  }
}

std::string as_written(const Scalar& scalar) {
  return scalar.quoted ? "the string \"" + scalar.text + "\"" : scalar.text;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) { return lower(a) == lower(b); }

template <>
Parsed<bool> parse_value<bool>(const Scalar& scalar, Unit) {
  const std::string word = lower(scalar.text);
  if (word == "1" || word == "0") {
    const bool is_true = word == "1";
    return {is_true, "", "read " + as_written(scalar) + (is_true ? " as true" : " as false")};
  }
  const bool is_true = means_true(word);
  if (!is_true && !means_false(word)) return {{}, "got " + as_written(scalar)};
  return {is_true, "", quotes_notice(scalar)};
}

template <>
Parsed<std::string> parse_value<std::string>(const Scalar& scalar, Unit) {
  if (scalar.text.empty()) return {{}, "got an empty text"};
  return {scalar.text, ""};
}

template <>
Parsed<int64_t> parse_value<int64_t>(const Scalar& scalar, Unit unit) {
  return parse_whole(scalar, unit);
}

template <>
Parsed<int> parse_value<int>(const Scalar& scalar, Unit unit) {
  const Parsed<int64_t> whole = parse_whole(scalar, unit);
  if (!whole.value) return {{}, whole.reason};
  if (!std::in_range<int>(*whole.value)) return {{}, "got " + as_written(scalar)};
  return {static_cast<int>(*whole.value), "", whole.notice};
}

template <>
Parsed<double> parse_value<double>(const Scalar& scalar, Unit) {
  std::string_view rest;
  const std::optional<double> number = leading_number(scalar.text, rest);
  if (!number || !rest.empty()) {
    const std::string word = lower(scalar.text);
    const bool is_switch = means_true(word) || means_false(word);
    return {{}, "got " + as_written(scalar) + (is_switch ? "; did you mean 1.0?" : "")};
  }
  return {*number, "", quotes_notice(scalar)};
}

template <>
Parsed<Precision> parse_value<Precision>(const Scalar& scalar, Unit) {
  if (is_one_of(lower(scalar.text), {"float16", "half", "16", "16-mixed"})) {
    return {{}, "got " + as_written(scalar) + "; did you mean fp16?"};
  }
  return parse_choice<Precision>(scalar);
}

template <>
Parsed<NumberType> parse_value<NumberType>(const Scalar& scalar, Unit) {
  return parse_choice<NumberType>(scalar);
}

template <>
Parsed<NonfiniteGradients> parse_value<NonfiniteGradients>(const Scalar& scalar, Unit) {
  return parse_choice<NonfiniteGradients>(scalar);
}

template <>
Parsed<DeviceChoice> parse_value<DeviceChoice>(const Scalar& scalar, Unit) {
  return parse_choice<DeviceChoice>(scalar);
}

template <>
Parsed<UpdateKernel> parse_value<UpdateKernel>(const Scalar& scalar, Unit) {
  return parse_choice<UpdateKernel>(scalar);
}

std::string print_value(bool value, Unit) { return value ? "true" : "false"; }
std::string print_value(int value, Unit unit) { return print_value(int64_t{value}, unit); }

std::string print_value(int64_t value, Unit unit) {
  if (unit == Unit::kBytes && value != 0) {
    static constexpr std::pair<int, const char*> kUnits[] = {{30, "GiB"}, {20, "MiB"}, {10, "KiB"}};
    for (const auto& [shift, name] : kUnits) {
      if (value % (int64_t{1} << shift) == 0) return std::to_string(value >> shift) + name;
    }
  }
  return std::to_string(value);
}

std::string print_value(double value, Unit) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string print_value(const std::string& value, Unit) { return value; }

std::string print_value(const std::vector<double>& value, Unit unit) {
  std::string text = "[";
  for (size_t i = 0; i < value.size(); ++i) {
    text.append(i > 0 ? ", " : "").append(print_value(value[i], unit));
  }
  return text + "]";
}

std::string print_value(Precision value, Unit) {
  return std::string(Choices<Precision>::kNames.at(static_cast<size_t>(value)));
}
std::string print_value(NumberType value, Unit) {
  return std::string(Choices<NumberType>::kNames.at(static_cast<size_t>(value)));
}
std::string print_value(NonfiniteGradients value, Unit) {
  return std::string(Choices<NonfiniteGradients>::kNames.at(static_cast<size_t>(value)));
}
std::string print_value(DeviceChoice value, Unit) {
  return std::string(Choices<DeviceChoice>::kNames.at(static_cast<size_t>(value)));
}
std::string print_value(UpdateKernel value, Unit) {
  return std::string(Choices<UpdateKernel>::kNames.at(static_cast<size_t>(value)));
}

std::string printable(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    } else {
      out += c;
    }
  }
  return out;
}

std::string join_or(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

template std::vector<std::string_view> choices<bool>();
template std::vector<std::string_view> choices<int>();
template std::vector<std::string_view> choices<int64_t>();
template std::vector<std::string_view> choices<double>();
template std::vector<std::string_view> choices<std::string>();
template std::vector<std::string_view> choices<std::vector<double>>();
template std::vector<std::string_view> choices<Precision>();
template std::vector<std::string_view> choices<NumberType>();
template std::vector<std::string_view> choices<NonfiniteGradients>();
template std::vector<std::string_view> choices<DeviceChoice>();
template std::vector<std::string_view> choices<UpdateKernel>();

}  // namespace zero
