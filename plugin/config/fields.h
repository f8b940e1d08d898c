// SPDX-License-Identifier: Apache-2.0
// The one table of settings. The YAML reader, the command line, the options, the checks, the report
// and the tests are made from it. A setting that stands in EngineConfig and not here does not
// compile (field_table.cpp).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "plugin/config/document.h"
#include "plugin/config/values.h"
#include "zero/run_config.h"

namespace zero {

// What "auto" is filled from, see fill_auto().
enum class AutoFrom : uint8_t {
  kNobody,        // refused by name
  kWidth2,        // the model's width, squared
  kWidth2Tenths,  // 0.9 of that
  kWidth10,       // ten times the width
  kModelType,     // the number type of the model's parameters
  kBatch,         // what the caller's loader and the other two batch numbers say
  kOptimizer,     // the caller's optimizer
  kSteps,         // the number of steps that the caller runs
};

template <class Config>
struct Field {
  using Member =
      std::variant<Setting<bool> Config::*, Setting<int> Config::*, Setting<int64_t> Config::*,
                   Setting<double> Config::*, Setting<Precision> Config::*,
                   Setting<NumberType> Config::*, Setting<NonfiniteGradients> Config::*,
                   Setting<DeviceChoice> Config::*, Setting<UpdateKernel> Config::*,
                   Setting<std::string> Config::*, Setting<std::vector<double>> Config::*>;
  std::string_view name;  // also the flat name in a file and the one on a command line
  Member member;
  Consumer consumer;
  std::string_view help;  // one line
  // Other names that mean the same. One with a '.' is a whole path.
  std::vector<std::string_view> aliases = {};
  Unit unit = Unit::kNone;
  Range range = {};                 // numbers only
  int needs_stage = 0;              // `true` is refused below this stage
  std::string_view not_yet = {};    // `true` is refused for this reason
  std::string_view acts_when = {};  // the runs in which the consumer reads it; empty: all
  // Where DeepSpeed's files have it: "zero_optimization.stage"; "stage" alone is at the top. Empty:
  // it is ours alone.
  std::string_view path = {};
  // Below this stage it does nothing: accepted, with a line that says so.
  int acts_at_stage = 0;
  // Texts only: what may be written, any letter case.
  std::vector<std::string_view> one_of = {};
  // Other spellings of values: {"bf16-mixed", "bf16"}.
  std::vector<std::pair<std::string_view, std::string_view>> spellings = {};
  AutoFrom auto_from = AutoFrom::kNobody;
  // Optimizer and scheduler parameters: the types that have it; empty: all.
  std::vector<std::string_view> of_types = {};
  bool above_min = false;  // the range's lower end is outside
};

// What became of a value: why it was not taken, or how it was understood where that differs from
// how it was written.
struct Taken {
  std::string reason;
  std::string notice;
};

std::span<const Field<EngineConfig>> fields_of(const EngineConfig*);
std::span<const Field<OptimizerSettings>> fields_of(const OptimizerSettings*);
std::span<const Field<SchedulerSettings>> fields_of(const SchedulerSettings*);
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

// Parses `node` into the setting. "auto" is taken; see fill_auto().
template <class Config>
Taken set_from_node(const Field<Config>& field, Config& config, const Node& node,
                    Provenance provenance);
template <class Config>
Taken set_from_scalar(const Field<Config>& field, Config& config, const Scalar& scalar,
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
