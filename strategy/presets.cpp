// SPDX-License-Identifier: Apache-2.0
#include "strategy/presets.h"

#include "plugin/config/fields.h"

namespace zero {
namespace {

struct Preset {
  std::string_view name;
  int stage;
  bool offload_parameters;
  bool offload_optimizer;
};

constexpr Preset kPresets[] = {
    {"zero_stage_1", 1, false, false},        {"zero_stage_2", 2, false, false},
    {"zero_stage_3", 3, false, false},        {"zero_stage_1_offload", 1, false, true},
    {"zero_stage_2_offload", 2, false, true}, {"zero_stage_3_offload", 3, true, true},
};

// "deepspeed" alone is stage 2 for the trainers that have it.
std::string own_name_of(const std::string& name) {
  constexpr std::string_view kOtherPrefix = "deepspeed_";
  if (name == "deepspeed") return "zero_stage_2";
  return name.starts_with(kOtherPrefix) ? "zero_" + name.substr(kOtherPrefix.size()) : name;
}

}  // namespace

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

Flags preset_flags(const std::string& name) {
  const std::string own_name = own_name_of(name);
  Flags flags;
  for (const Preset& preset : kPresets) {
    if (preset.name != own_name) continue;
    const auto from = [&](const char* flag) {
      return Provenance{Source::kPreset, "preset " + name, flag};
    };
    flags.values.engine.stage.set(preset.stage, from("stage"));
    if (preset.offload_parameters) {
      flags.values.engine.offload_parameters.set(true, from("offload_parameters"));
    }
    if (preset.offload_optimizer) {
      flags.values.engine.offload_optimizer.set(true, from("offload_optimizer"));
    }
    return flags;
  }
  if (own_name == "zero_stage_3_offload_nvme") {
    flags.problems.push_back(problem_line(
        "preset", name, "homes on NVMe are not supported yet; use zero_stage_3_offload"));
    return flags;
  }
  std::string reason = "there is no such preset";
  if (const auto close = nearest(own_name, preset_names())) {
    reason += "; did you mean " + std::string(*close) + "?";
  }
  flags.problems.push_back(
      problem_line("preset", name, reason + "; known are " + join_or(preset_names())));
  return flags;
}

EngineConfig preset(const std::string& name) { return resolve({}, {preset_flags(name)}); }

}  // namespace zero
