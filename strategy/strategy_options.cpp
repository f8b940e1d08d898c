// SPDX-License-Identifier: Apache-2.0
#include "zero/strategy_options.h"

#include <algorithm>
#include <map>

#include "plugin/config/setting_row.h"
#include "strategy/batch_numbers.h"

namespace zero {
namespace {

void overlay(const Flags& layer, RunConfig& config) {
  for (const Flags::Denial& denial : layer.denials) {
    const SettingRow& row = *find_setting(denial.setting);
    const Provenance& from = row.provenance(config);
    if (from.source < denial.from.source && row.value_text(config) == denial.value) {
      row.reset(config, denial.from);
    }
  }
  for (const SettingRow* const row : setting_rows()) row->overlay(layer.values, config);
}

// Switches that act only from some stage on.
void check_stages(const RunConfig& config, std::vector<std::string>& problems) {
  const Setting<int>& stage = config.engine.stage;
  for (const SettingRow* const row : setting_rows()) {
    if (row->needs_stage() == 0 || stage.peek() >= row->needs_stage()) continue;
    if (row->value_text(config) != "true") continue;
    const std::string needed = std::to_string(row->needs_stage());
    const Provenance& from = row->provenance(config);
    problems.push_back(problem_line(
        from.where, from.flag,
        "needs stage " + needed + (row->needs_stage() < 3 ? " or above" : "") + ", but stage is " +
            std::to_string(stage.peek()) + " (" + stage.provenance().where + "); set stage to " +
            needed + ", or " + std::string(row->name()) + " to false"));
  }
}

// A flag that cannot act without another, whatever source gives that one.
void check_partners(const EngineConfig& config, std::vector<std::string>& problems) {
  const Setting<bool>& contiguous = config.contiguous_memory_optimization;
  if (!contiguous.peek() || config.number_checkpoints.given()) return;
  problems.push_back(problem_line(contiguous.provenance().where, contiguous.provenance().flag,
                                  "needs number_checkpoints beside it; give it, or do without "
                                  "both"));
}

// "auto" that nobody will fill. What the model or the optimizer tell is filled at setup.
void check_auto(const RunConfig& config, std::vector<std::string>& problems) {
  for (const SettingRow* const row : setting_rows()) {
    if (!row->automatic(config) || row->auto_from() != AutoFrom::kNobody) continue;
    const Provenance& from = row->provenance(config);
    problems.push_back(problem_line(
        from.where, from.flag,
        "must be " + row->allowed() + ", got auto, which nobody here fills; write a value"));
  }
}

std::string stage_line(int acts_at, const Setting<int>& stage) {
  return "acts at stage " + std::to_string(acts_at) + (acts_at < 3 ? " and above" : " only") +
         ", so it does nothing here: stage is " + std::to_string(stage.peek()) + " (" +
         stage.provenance().where + ")";
}

using Notices = std::vector<Flags::Notice>;

std::string_view filled_from(AutoFrom from) {
  switch (from) {
    case AutoFrom::kWidth2:
      return "auto is filled at setup: the square of the model's width";
    case AutoFrom::kWidth2Tenths:
      return "auto is filled at setup: 0.9 times the square of the model's width";
    case AutoFrom::kWidth10:
      return "auto is filled at setup: ten times the model's width";
    case AutoFrom::kModelType:
      return "auto is filled at setup from the model's parameters";
    case AutoFrom::kBatch:
      return "auto is filled at setup from the other batch numbers";
    case AutoFrom::kOptimizer:
      return "auto is the value of the program's own optimizer";
    case AutoFrom::kSteps:
      return "auto is the number of steps that the program runs";
    case AutoFrom::kNobody:
      break;
  }
  return "";
}

void add_open_settings(const RunConfig& config, Notices& notices) {
  for (const SettingRow* const row : setting_rows()) {
    if (!row->automatic(config)) continue;
    const Provenance& from = row->provenance(config);
    notices.push_back({from.where, from.flag, std::string(filled_from(row->auto_from()))});
  }
}

void add_idle_settings(const RunConfig& config, Notices& notices) {
  for (const SettingRow* const row : setting_rows()) {
    if (!row->given(config) || row->acts_at_stage() == 0) continue;
    const Provenance& from = row->provenance(config);
    notices.push_back({from.where, from.flag, "", row->acts_at_stage()});
  }
}

// One line for all keys about which the same is said, in the order of the first of them.
std::vector<std::string> lines_of(const Notices& notices, const Setting<int>& stage) {
  struct Line {
    std::string where;
    std::string keys;
    std::string says;
  };
  std::vector<Line> lines;
  for (const Flags::Notice& notice : notices) {
    const bool idle = stage.peek() < notice.acts_at_stage;
    const std::string says = idle ? stage_line(notice.acts_at_stage, stage) : notice.says;
    if (says.empty()) continue;
    const auto same = std::ranges::find_if(lines, [&](const Line& l) { return l.says == says; });
    if (same == lines.end()) {
      lines.push_back({notice.where, notice.key, says});
    } else {
      same->keys.append(", ").append(notice.key);
    }
  }
  std::vector<std::string> texts;
  for (const Line& line : lines) texts.push_back(problem_line(line.where, line.keys, line.says));
  return texts;
}

// A layer has one source.
Source source_of(const Flags& layer) {
  for (const SettingRow* const row : setting_rows()) {
    if (row->given(layer.values)) return row->provenance(layer.values).source;
  }
  return layer.denials.empty() ? Source::kDefault : layer.denials.front().from.source;
}

}  // namespace

void StrategyOptions::give_text(const char* flag, const std::string& text) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.scalar = {text, false};
  const Taken taken = find_setting(flag)->set(flags_.values, node, {Source::kCode, "code", flag});
  if (!taken.reason.empty()) flags_.problems.push_back(problem_line("code", flag, taken.reason));
  if (!taken.notice.empty()) flags_.notices.push_back({"code", flag, taken.notice});
}

std::vector<std::string> problems_of(const Flags& flags) {
  std::vector<std::string> problems = flags.problems;
  for (const SettingRow* const row : setting_rows()) {
    if (!row->given(flags.values)) continue;
    const std::string reason = row->problem(flags.values);
    const Provenance& from = row->provenance(flags.values);
    if (!reason.empty()) problems.push_back(problem_line(from.where, from.flag, reason));
  }
  return problems;
}

Resolved resolve_all(const StrategyOptions& code, std::vector<Flags> layers,
                     const Surroundings& around) {
  layers.push_back(code.flags());
  // A denial looks at what weaker sources gave, so these come first.
  std::ranges::stable_sort(layers, {}, [](const Flags& layer) { return source_of(layer); });
  Resolved result;
  std::vector<std::string> problems;
  Notices notices;
  for (const Flags& layer : layers) {
    const std::vector<std::string> own = problems_of(layer);
    problems.insert(problems.end(), own.begin(), own.end());
    notices.insert(notices.end(), layer.notices.begin(), layer.notices.end());
    overlay(layer, result.config);
  }
  check_stages(result.config, problems);
  check_auto(result.config, problems);
  check_partners(result.config.engine, problems);
  fill_batch_numbers(result.config.engine, around.world_size, problems);
  if (!problems.empty()) throw ConfigError(std::move(problems));
  add_open_settings(result.config, notices);
  add_idle_settings(result.config, notices);
  result.notices = lines_of(notices, result.config.engine.stage);
  return result;
}

EngineConfig resolve(const StrategyOptions& code, std::vector<Flags> layers) {
  return resolve_all(code, std::move(layers)).config.engine;
}

}  // namespace zero
