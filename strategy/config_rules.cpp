// SPDX-License-Identifier: Apache-2.0
// Rules across the keys of one source.
#include <algorithm>
#include <array>

#include "strategy/config_reader.h"

namespace zero {
namespace {

class Rules {
 public:
  Rules(const MetKeys& met, Flags& flags) : met_(met), flags_(flags) {}

  void nvme(const std::string& section) {
    const Met* const device = find(section + ".device");
    if (device == nullptr || !says(*device, "nvme") || find(section + ".nvme_path") != nullptr) {
      return;
    }
    problem(*device, "is nvme, but nvme_path is missing");
  }

  // Loss scaling stands in many bf16 sections that were once fp16 ones.
  void loss_scale_of_bf16() {
    static constexpr std::array<std::pair<std::string_view, double>, 5> kDefaults = {
        {{"loss_scale", 0},
         {"initial_scale_power", 16},
         {"loss_scale_window", 1000},
         {"hysteresis", 2},
         {"min_loss_scale", 1}}};
    std::vector<const Met*> keys;
    bool all_default = true;
    for (const auto& [name, value] : kDefaults) {
      const Met* const key = find("bf16." + std::string(name));
      if (key == nullptr) continue;
      keys.push_back(key);
      const Parsed<double> number = parse_value<double>(key->node->scalar, Unit::kNone);
      all_default = all_default && number.value == value;
    }
    if (keys.empty()) return;
    const std::string line =
        "bf16 has no loss scaling; " +
        std::string(keys.size() > 1 ? "these keys belong" : "this key belongs") + " to fp16";
    if (all_default) {
      for (const Met* const key : keys) flags_.notices.push_back({key->where, key->path, line});
    } else {
      flags_.problems.push_back(
          problem_line(keys.front()->where, joined(keys),
                       line + "; remove " + (keys.size() > 1 ? "them" : "it")));
    }
  }

  void amp_beside_fp16() {
    const Met* const amp = find("amp");
    const Met* const fp16 = find("fp16.enabled");
    if (amp == nullptr || fp16 == nullptr || !is_on(*fp16)) return;
    const auto& entries = amp->node->entries;
    const auto enabled =
        std::ranges::find_if(entries, [](const Entry& entry) { return entry.key == "enabled"; });
    if (enabled != entries.end() && is_true(enabled->value)) {
      problem(*amp, "amp and fp16 exclude each other (" + fp16->path + " at " + fp16->where +
                        "); keep one");
    }
  }

  // Parameters that the optimizer or schedule of this name does not have.
  void parameters_of(const std::string& section) {
    const Met* const type = find(section + ".type");
    const std::vector<const Met*> all = in_section(section + ".params.");
    if (type == nullptr) {
      if (!all.empty()) problem(*all.front(), "needs " + section + ".type beside it");
      return;
    }
    const auto choices = type->row->setting->choices();
    const auto known = std::ranges::find_if(choices, [&](std::string_view name) {
      return equal_ignoring_case(name, type->node->scalar.text);
    });
    if (known == choices.end()) return;  // said already, or another spelling of a known one
    std::vector<const Met*> foreign;
    for (const Met* const parameter : all) {
      if (!has(*parameter, *known)) foreign.push_back(parameter);
    }
    if (!foreign.empty()) problem_of_type(section, *known, foreign, choices);
    required_of(section, *known, *type);
  }

  // Where DeepSpeed's names mean something else than LibTorch's, or a number is taken elsewhere.
  void meanings_of_training() {
    const auto& optimizer = flags_.values.optimizer;
    const std::string& type = optimizer.type.peek();
    if (const Met* const met = find("optimizer.type")) {
      if (type == "Adam" && !optimizer.adam_w_mode.given()) {
        notice(*met,
               "Adam is AdamW here, as in DeepSpeed; params.adam_w_mode: false makes it Adam "
               "with an L2 term");
      }
      if ((type == "AdamW" || type == "Adam") && !optimizer.weight_decay.given()) {
        notice(*met,
               "params.weight_decay is not given, so it is 0, as in DeepSpeed; the default "
               "of torch::optim::AdamW is 0.01");
      }
    }
    const auto& scheduler = flags_.values.scheduler;
    const Met* const schedule = find("scheduler.type");
    const bool warms_up =
        scheduler.type.peek() == "WarmupLR" || scheduler.type.peek() == "WarmupDecayLR";
    if (schedule != nullptr && warms_up && !scheduler.warmup_max_lr.given()) {
      notice(*schedule,
             "params.warmup_max_lr is not given, so the warm-up ends at the optimizer's "
             "own learning rate");
    }
  }

 private:
  void notice(const Met& met, const std::string& says) {
    flags_.notices.push_back({met.node->where, met.path, says});
  }
  static bool says(const Met& met, std::string_view word) {
    return equal_ignoring_case(met.node->scalar.text, word);
  }
  static bool is_true(const Node& node) {
    return node.kind == Node::Kind::kScalar &&
           parse_value<bool>(node.scalar, Unit::kNone).value == true;
  }
  static bool is_on(const Met& met) { return is_true(*met.node); }
  static std::string joined(const std::vector<const Met*>& keys) {
    std::string paths;
    for (const Met* const key : keys) paths.append(paths.empty() ? "" : ", ").append(key->path);
    return paths;
  }
  static bool has(const Met& parameter, std::string_view type) {
    if (parameter.row->setting == nullptr) return true;
    const auto& types = parameter.row->setting->of_types();
    return types.empty() || std::ranges::find(types, type) != types.end();
  }

  const Met* find(const std::string& path) const {
    const auto found = met_.find(path);
    if (found == met_.end() || found->second.node->kind == Node::Kind::kNull) return nullptr;
    return &found->second;
  }
  std::vector<const Met*> in_section(const std::string& prefix) const {
    std::vector<const Met*> keys;
    for (const auto& [path, met] : met_) {
      const bool set = met.node->kind != Node::Kind::kNull;
      if (set && path.starts_with(prefix)) keys.push_back(&met);
    }
    return keys;
  }
  void problem(const Met& met, const std::string& reason) {
    flags_.problems.push_back(problem_line(met.node->where, met.path, reason));
  }

  void problem_of_type(const std::string& section, std::string_view type,
                       const std::vector<const Met*>& foreign,
                       const std::vector<std::string_view>& choices) {
    std::vector<std::string_view> names;
    for (const Met* const parameter : foreign) names.push_back(last_name(parameter->row->path));
    std::string reason(type);
    reason.append(" has no ").append(join_or(names));
    std::vector<std::string> meant;
    for (const std::string_view other : choices) {
      if (std::ranges::all_of(foreign, [&](const Met* met) { return has(*met, other); })) {
        meant.emplace_back(other);
      }
    }
    std::vector<std::string_view> own;
    for (const SettingRow* const row : setting_rows()) {
      const auto& types = row->of_types();
      if (row->path().starts_with(section + ".params.") &&
          std::ranges::find(types, type) != types.end()) {
        own.push_back(last_name(row->path()));
      }
    }
    for (const std::string_view name : names) {
      const auto close = nearest(name, own);
      if (close && std::ranges::find(meant, *close) == meant.end()) meant.emplace_back(*close);
    }
    if (!meant.empty()) {
      reason.append("; did you mean ").append(join_or({meant.begin(), meant.end()})).append("?");
    }
    flags_.problems.push_back(problem_line(foreign.front()->where, joined(foreign), reason));
  }

  void required_of(const std::string& section, std::string_view type, const Met& met) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kRequired = {
        {{"WarmupDecayLR", "total_num_steps"},
         {"WarmupCosineLR", "total_num_steps"},
         {"OneCycle", "cycle_min_lr"},
         {"OneCycle", "cycle_max_lr"}}};
    for (const auto& [of_type, name] : kRequired) {
      const std::string path = section + ".params." + std::string(name);
      if (of_type == type && find(path) == nullptr) {
        problem(met, std::string(type) + " needs " + path + "; give it");
      }
    }
  }

  const MetKeys& met_;
  Flags& flags_;
};

}  // namespace

void check_rules(const MetKeys& met, bool sections, Flags& flags) {
  Rules rules(met, flags);
  rules.nvme("zero_optimization.offload_param");
  rules.nvme("zero_optimization.offload_optimizer");
  rules.loss_scale_of_bf16();
  rules.amp_beside_fp16();
  rules.parameters_of("optimizer");
  rules.parameters_of("scheduler");
  rules.meanings_of_training();
  const bool any_batch =
      met.contains("train_batch_size") || met.contains("train_micro_batch_size_per_gpu");
  if (sections && !any_batch) {
    flags.notices.push_back(
        {met.begin()->second.where.substr(0, met.begin()->second.where.find(':')), "batch size",
         "is not given, so the data loader's counts; train_batch_size or "
         "train_micro_batch_size_per_gpu would have it checked"});
  }
}

}  // namespace zero
