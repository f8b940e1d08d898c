// SPDX-License-Identifier: Apache-2.0
#include "zero/strategy_options.h"

#include <type_traits>

#include "plugin/config/fields.h"

namespace zero {
namespace {

// Takes what `layer` gives, where nothing stronger has given it already.
void overlay(const EngineConfig& layer, EngineConfig& config) {
  for (const auto& field : fields<EngineConfig>()) {
    std::visit(
        [&](auto member) {
          const auto& theirs = layer.*member;
          auto& ours = config.*member;
          if (theirs.given() && theirs.provenance().source >= ours.provenance().source) {
            ours = theirs;
          }
        },
        field.member);
  }
}

void check_values(const EngineConfig& layer, std::vector<std::string>& problems) {
  for (const auto& field : fields<EngineConfig>()) {
    if (!given(field, layer)) continue;
    const std::string reason = value_problem(field, layer);
    const Provenance& from = provenance_of(field, layer);
    if (!reason.empty()) problems.push_back(problem_line(from.where, from.flag, reason));
  }
}

// Switches that act only from some stage on.
void check_stages(const EngineConfig& config, std::vector<std::string>& problems) {
  const int stage = config.stage.peek();
  for (const auto& field : fields<EngineConfig>()) {
    const auto* const member = std::get_if<Setting<bool> EngineConfig::*>(&field.member);
    if (member == nullptr || !(config.**member).given() || !(config.**member).peek() ||
        stage >= field.needs_stage) {
      continue;
    }
    const std::string needed = std::to_string(field.needs_stage);
    const std::string name(field.name);
    const Provenance& from = (config.**member).provenance();
    problems.push_back(problem_line(
        from.where, from.flag,
        "needs stage " + needed + (field.needs_stage < 3 ? " or above" : "") + ", but stage is " +
            std::to_string(stage) + " (" + config.stage.provenance().where + "); set stage to " +
            needed + ", or " + name + " to false"));
  }
}

}  // namespace

void StrategyOptions::give_text(const char* flag, const std::string& text) {
  const Field<EngineConfig>& field = *find_field<EngineConfig>(flag);
  const std::string reason =
      set_from_scalar(field, flags_.values, Scalar{text, false}, {Source::kCode, "code", flag});
  if (!reason.empty()) flags_.problems.push_back(problem_line("code", flag, reason));
}

EngineConfig resolve(const StrategyOptions& code, std::vector<Flags> layers) {
  layers.push_back(code.flags());
  EngineConfig config;
  std::vector<std::string> problems;
  for (const Flags& layer : layers) {
    problems.insert(problems.end(), layer.problems.begin(), layer.problems.end());
    check_values(layer.values, problems);
    overlay(layer.values, config);
  }
  check_stages(config, problems);
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return config;
}

}  // namespace zero
