// SPDX-License-Identifier: Apache-2.0
#include "strategy/auto_values.h"

#include <map>
#include <type_traits>

#include "plugin/config/fields.h"

namespace zero {
namespace {

std::optional<int64_t> size_for(AutoFrom from, int64_t width) {
  switch (from) {
    case AutoFrom::kWidth2:
      return width * width;
    case AutoFrom::kWidth2Tenths:
      return width * width * 9 / 10;
    case AutoFrom::kWidth10:
      return width * 10;
    default:
      return std::nullopt;
  }
}

// True when the setting has its value.
template <class T>
bool fill(Setting<T>& setting, AutoFrom from, const Known& known) {
  if constexpr (std::is_same_v<T, int64_t>) {
    if (!known.width) return false;
    const std::optional<int64_t> size = size_for(from, *known.width);
    if (size) setting.fill(*size, "the model's width " + std::to_string(*known.width));
    return size.has_value();
  } else if constexpr (std::is_same_v<T, Precision>) {
    if (from != AutoFrom::kModelType || !known.precision) return false;
    setting.fill(*known.precision, "the model's parameters");
    return true;
  } else {
    return false;
  }
}

}  // namespace

std::vector<std::string> fill_auto(EngineConfig& config, const Known& known) {
  std::vector<std::string> problems;
  for (const auto& field : fields<EngineConfig>()) {
    with_setting(field, config, [&](auto& setting) {
      if (!setting.automatic() || fill(setting, field.auto_from, known)) return;
      const Provenance& from = setting.provenance();
      problems.push_back(
          problem_line(from.where, from.flag,
                       "is auto, and this model does not tell it; write " + allowed_values(field)));
    });
  }
  return problems;
}

std::optional<int64_t> model_width(
    const std::vector<std::pair<int64_t, int64_t>>& last_size_and_elements) {
  std::map<int64_t, int64_t> elements;
  for (const auto& [size, count] : last_size_and_elements) elements[size] += count;
  std::optional<int64_t> width;
  for (const auto& [size, count] : elements) {
    if (!width || count > elements[*width]) width = size;
  }
  return width;
}

}  // namespace zero
