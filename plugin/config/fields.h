// SPDX-License-Identifier: Apache-2.0
// The one table of settings. The YAML reader, the command line, the options, the checks, the report
// and the tests are made from it. A setting that stands in EngineConfig and not here does not
// compile (field_table.cpp).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plugin/config/values.h"
#include "zero/engine_config.h"

namespace zero {

template <class Config>
struct Field {
  using Member =
      std::variant<Setting<bool> Config::*, Setting<int> Config::*, Setting<int64_t> Config::*,
                   Setting<double> Config::*, Setting<Precision> Config::*,
                   Setting<NumberType> Config::*, Setting<NonfiniteGradients> Config::*,
                   Setting<DeviceChoice> Config::*, Setting<UpdateKernel> Config::*>;
  std::string_view name;
  Member member;
  Consumer consumer;
  std::string_view help;                       // one line
  std::vector<std::string_view> aliases = {};  // other names that mean the same
  Unit unit = Unit::kNone;
  Range range = {};                 // numbers only
  int needs_stage = 0;              // `true` is refused below this stage
  std::string_view not_yet = {};    // `true` is refused for this reason
  std::string_view acts_when = {};  // the runs in which the consumer reads it; empty: all
};

std::span<const Field<EngineConfig>> fields_of(const EngineConfig*);
std::span<const Field<TrainerSettings>> fields_of(const TrainerSettings*);
template <class Config>
std::span<const Field<Config>> fields() {
  return fields_of(static_cast<const Config*>(nullptr));
}

// Calls `call(setting)` with the Setting<T> that `field` describes.
template <class Config, class Owner, class Call>
decltype(auto) with_setting(const Field<Config>& field, Owner&& owner, Call&& call) {
  return std::visit([&](auto member) -> decltype(auto) { return call(owner.*member); },
                    field.member);
}

// The values a user may write, as a phrase: "0, 1, 2 or 3", "true or false".
template <class Config>
std::string allowed_values(const Field<Config>& field);
// The setting's value as a user would write it.
template <class Config>
std::string value_text(const Field<Config>& field, const Config& config);
template <class Config>
const Provenance& provenance_of(const Field<Config>& field, const Config& config);
template <class Config>
bool given(const Field<Config>& field, const Config& config);
template <class Config>
bool read_by_consumer(const Field<Config>& field, const Config& config);

// Parses `scalar` into the setting. Returns what is wrong with it, empty when it was taken.
template <class Config>
std::string set_from_scalar(const Field<Config>& field, Config& config, const Scalar& scalar,
                            Provenance provenance);
// What is wrong with the value that stands in the setting by itself: range, or a switch that is not
// there yet.
template <class Config>
std::string value_problem(const Field<Config>& field, const Config& config);

// One line of a ConfigError: "configs/x.yaml:3:8: strategy.stage: must be ...".
std::string problem_line(std::string_view where, std::string_view key, std::string_view reason);

// The field with this name or alias; null when there is none.
template <class Config>
const Field<Config>* find_field(std::string_view name);
// All names and aliases, in table order.
template <class Config>
std::vector<std::string_view> field_names();

}  // namespace zero
