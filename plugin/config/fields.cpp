// SPDX-License-Identifier: Apache-2.0
#include "plugin/config/fields.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace zero {

std::string problem_line(std::string_view where, std::string_view key, std::string_view reason) {
  std::string line(where);
  line.append(": ").append(key).append(": ").append(reason);
  return printable(line);
}

namespace {

std::string few_numbers(int64_t min, double max) {
  std::vector<std::string> numbers;
  for (int64_t i = min; static_cast<double>(i) <= max; ++i) numbers.push_back(std::to_string(i));
  return join_or({numbers.begin(), numbers.end()});
}

}  // namespace

template <class Config>
std::string allowed_values(const Field<Config>& field) {
  return with_setting(field, Config{}, [&](const auto& setting) -> std::string {
    using Value = std::remove_cvref_t<decltype(setting.peek())>;
    if constexpr (std::is_same_v<Value, bool>) return "true or false";
    if constexpr (std::is_enum_v<Value>) return join_or(choices<Value>());
    if constexpr (std::is_same_v<Value, std::string>) {
      return field.one_of.empty() ? "a text" : join_or(field.one_of);
    }
    if constexpr (std::is_same_v<Value, std::vector<double>>) {
      return "a list of two numbers from " + print_value(field.range.min, Unit::kNone) + " to " +
             print_value(field.range.max, Unit::kNone);
    }
    if constexpr (std::is_same_v<Value, double>) {
      if (std::isfinite(field.range.max)) {
        return "a number from " + print_value(field.range.min, Unit::kNone) + " to " +
               print_value(field.range.max, Unit::kNone);
      }
      return (field.above_min ? "a number above " : "a number of at least ") +
             print_value(field.range.min, Unit::kNone);
    }
    const auto min = static_cast<int64_t>(field.range.min);
    if (field.range.max - field.range.min <= 4) return few_numbers(min, field.range.max);
    if (std::isfinite(field.range.max)) {
      return "a whole number from " + std::to_string(min) + " to " +
             std::to_string(static_cast<int64_t>(field.range.max));
    }
    if (field.unit == Unit::kBytes) {
      return "a size such as 32MiB, 1GB or 5e8, at least " + print_value(min, Unit::kBytes);
    }
    if (field.unit == Unit::kElements) {
      return "a whole number of elements, at least " + std::to_string(min);
    }
    return "a whole number of at least " + std::to_string(min);
  });
}

template <class Config>
std::string value_text(const Field<Config>& field, const Config& config) {
  return with_setting(field, config,
                      [&](const auto& setting) { return print_value(setting.peek(), field.unit); });
}

template <class Config>
const Provenance& provenance_of(const Field<Config>& field, const Config& config) {
  return with_setting(
      field, config, [](const auto& setting) -> const Provenance& { return setting.provenance(); });
}

template <class Config>
bool given(const Field<Config>& field, const Config& config) {
  return with_setting(field, config, [](const auto& setting) { return setting.given(); });
}

template <class Config>
bool read_by_consumer(const Field<Config>& field, const Config& config) {
  return with_setting(field, config,
                      [&](const auto& setting) { return setting.read_by(field.consumer); });
}

namespace {

template <class Config>
Scalar respelled(const Field<Config>& field, const Scalar& scalar) {
  for (const auto& [spelling, meaning] : field.spellings) {
    if (equal_ignoring_case(spelling, scalar.text)) return {std::string(meaning), false};
  }
  return scalar;
}

// A text out of a list gets the list's letter case.
template <class Config>
Parsed<std::string> one_of(const Field<Config>& field, const Scalar& scalar) {
  for (const std::string_view word : field.one_of) {
    if (equal_ignoring_case(word, scalar.text)) return {std::string(word), ""};
  }
  std::string reason = "got " + as_written(scalar);
  if (const auto word = nearest(scalar.text, field.one_of)) {
    reason.append("; did you mean ").append(*word).append("?");
  }
  return {{}, reason};
}

Parsed<std::vector<double>> parse_list(const Node& node) {
  if (node.kind != Node::Kind::kList) return {{}, "got " + kind_text(node)};
  Parsed<std::vector<double>> result{std::vector<double>(), "", ""};
  for (const Node& item : node.items) {
    const Parsed<double> number = parse_value<double>(item.scalar, Unit::kNone);
    if (item.kind != Node::Kind::kScalar || !number.value) {
      return {{}, "got " + kind_text(item) + " in the list"};
    }
    result.value->push_back(*number.value);
    if (!number.notice.empty()) result.notice = number.notice;
  }
  return result;
}

template <class Value, class Config>
Parsed<Value> parse_node(const Field<Config>& field, const Node& node) {
  if constexpr (std::is_same_v<Value, std::vector<double>>) {
    return parse_list(node);
  } else {
    if (node.kind != Node::Kind::kScalar) return {{}, "got " + kind_text(node)};
    const Scalar scalar = respelled(field, node.scalar);
    if constexpr (std::is_same_v<Value, std::string>) {
      if (!field.one_of.empty()) return one_of(field, scalar);
    }
    return parse_value<Value>(scalar, field.unit);
  }
}

}  // namespace

template <class Config>
Taken set_from_node(const Field<Config>& field, Config& config, const Node& node,
                    Provenance provenance) {
  return with_setting(field, config, [&](auto& setting) -> Taken {
    using Value = std::remove_cvref_t<decltype(setting.peek())>;
    Parsed<Value> parsed = parse_node<Value>(field, node);
    // Who fills it, or whether a stronger source replaces it, is seen when all sources are there.
    if (!parsed.value && is_auto(node)) {
      setting.set_auto(std::move(provenance));
      return {};
    }
    if (!parsed.value) {
      return {"must be " + allowed_values(field) + ", " + parsed.reason, ""};
    }
    setting.set(std::move(*parsed.value), std::move(provenance));
    return {"", parsed.notice};
  });
}

template <class Config>
Taken set_from_scalar(const Field<Config>& field, Config& config, const Scalar& scalar,
                      Provenance provenance) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.scalar = scalar;
  return set_from_node(field, config, node, std::move(provenance));
}

template <class Config>
std::string value_problem(const Field<Config>& field, const Config& config) {
  return with_setting(field, config, [&](const auto& setting) -> std::string {
    using Value = std::remove_cvref_t<decltype(setting.peek())>;
    if (setting.automatic() || !setting.given()) return "";
    if constexpr (std::is_same_v<Value, bool>) {
      if (setting.peek() && !field.not_yet.empty()) {
        return std::string(field.not_yet) + "; set it to false or remove it";
      }
    } else if constexpr (std::is_arithmetic_v<Value>) {
      const auto value = static_cast<double>(setting.peek());
      // Written so that a NaN is outside too.
      if (!(value >= field.range.min && value <= field.range.max) || std::isinf(value) ||
          (field.above_min && value == field.range.min)) {
        return "must be " + allowed_values(field) + ", got " +
               print_value(setting.peek(), Unit::kNone);
      }
    } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
      const bool outside = std::ranges::any_of(setting.peek(), [&](double value) {
        return !(value >= field.range.min && value <= field.range.max);
      });
      if (outside || setting.peek().size() != 2) {
        return "must be " + allowed_values(field) + ", got " +
               print_value(setting.peek(), Unit::kNone);
      }
    } else if constexpr (std::is_enum_v<Value>) {
      const auto index = static_cast<size_t>(setting.peek());
      if (index >= choices<Value>().size()) {
        return "must be " + allowed_values(field) + ", got the enum value " + std::to_string(index);
      }
    }
    return "";
  });
}

template <class Config>
const Field<Config>* find_field(std::string_view name) {
  for (const Field<Config>& field : fields<Config>()) {
    if (field.name == name || std::ranges::find(field.aliases, name) != field.aliases.end()) {
      return &field;
    }
  }
  return nullptr;
}

template <class Config>
std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for (const Field<Config>& field : fields<Config>()) {
    names.push_back(field.name);
    names.insert(names.end(), field.aliases.begin(), field.aliases.end());
  }
  return names;
}

namespace {

bool acts_at_this_stage(const Field<EngineConfig>& field, const EngineConfig& config) {
  return config.stage.peek() >= field.acts_at_stage;
}
template <class Config>
bool acts_at_this_stage(const Field<Config>&, const Config&) {
  return true;
}

template <class Config>
std::vector<std::string> unread(const Config& config) {
  std::vector<std::string> sentences;
  for (const Field<Config>& field : fields<Config>()) {
    if (!given(field, config) || read_by_consumer(field, config)) continue;
    if (!acts_at_this_stage(field, config)) continue;
    std::string sentence(field.name);
    sentence.append(" = ").append(value_text(field, config)).append(" (");
    sentence.append(provenance_of(field, config).where).append(") has no effect here: the ");
    sentence.append(name_of(field.consumer)).append(" part of the engine has not read it. ");
    if (field.acts_when.empty()) {
      sentence.append(
          "It should in every run, so this is a defect of the engine: report it, or "
          "remove the flag.");
    } else {
      sentence.append("It acts ").append(field.acts_when);
      sentence.append("; see to that, or remove the flag.");
    }
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

}  // namespace

std::vector<std::string> unread_settings(const EngineConfig& config) { return unread(config); }
std::vector<std::string> unread_settings(const OptimizerSettings& settings) {
  return unread(settings);
}
std::vector<std::string> unread_settings(const SchedulerSettings& settings) {
  return unread(settings);
}
std::vector<std::string> unread_settings(const TrainerSettings& settings) {
  return unread(settings);
}

#define ZERO_FIELD_FUNCTIONS(Config)                                                        \
  template std::string allowed_values(const Field<Config>&);                                \
  template std::string value_text(const Field<Config>&, const Config&);                     \
  template const Provenance& provenance_of(const Field<Config>&, const Config&);            \
  template bool given(const Field<Config>&, const Config&);                                 \
  template bool read_by_consumer(const Field<Config>&, const Config&);                      \
  template Taken set_from_node(const Field<Config>&, Config&, const Node&, Provenance);     \
  template Taken set_from_scalar(const Field<Config>&, Config&, const Scalar&, Provenance); \
  template std::string value_problem(const Field<Config>&, const Config&);                  \
  template const Field<Config>* find_field<Config>(std::string_view);                       \
  template std::vector<std::string_view> field_names<Config>();
ZERO_FIELD_FUNCTIONS(EngineConfig)
ZERO_FIELD_FUNCTIONS(OptimizerSettings)
ZERO_FIELD_FUNCTIONS(SchedulerSettings)
ZERO_FIELD_FUNCTIONS(TrainerSettings)
#undef ZERO_FIELD_FUNCTIONS

}  // namespace zero
