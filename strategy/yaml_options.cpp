// SPDX-License-Identifier: Apache-2.0
#include "strategy/yaml_options.h"

#include <algorithm>
#include <map>

#include "plugin/config/fields.h"
#include "plugin/config/yaml_document.h"
#include "strategy/foreign_names.h"

namespace zero {
namespace {

constexpr std::string_view kStrategy = "strategy";
constexpr std::string_view kTrainer = "trainer";

// Why `key` is not known in this section, and what was probably meant.
template <class Config>
std::string unknown_key(std::string_view key, std::vector<std::string_view> other_names) {
  std::string reason = "unknown key";
  const std::vector<std::string_view> names = field_names<Config>();
  other_names.insert(other_names.begin(), names.begin(), names.end());
  if constexpr (std::is_same_v<Config, EngineConfig>) {
    if (find_field<TrainerSettings>(key)) return reason + "; it belongs under trainer:";
  } else {
    if (find_field<EngineConfig>(key)) {
      return reason + "; it belongs at the top level or under strategy:";
    }
  }
  const std::string_view advice = advice_for_foreign_name(key);
  if (!advice.empty()) return reason + "; " + std::string(advice);
  if (const auto name = nearest(key, other_names)) {
    return reason + "; did you mean " + std::string(*name) + "?";
  }
  return reason + "; known are " + join_or(other_names);
}

class Reader {
 public:
  explicit Reader(ConfigFile& result) : result_(result) {}

  void read(const YamlDocument& document) {
    auto& problems = result_.flags.problems;
    problems.insert(problems.end(), document.problems.begin(), document.problems.end());
    if (!problems.empty() && document.root.kind == YamlValue::Kind::kNull) return;
    if (document.root.kind != YamlValue::Kind::kMap) {
      problems.push_back(document.root.where +
                         (document.root.kind == YamlValue::Kind::kNull
                              ? ": holds no settings; write flags such as 'stage: 2' into it"
                              : ": must be a map of flags such as 'stage: 2'"));
      return;
    }
    for (const YamlEntry& entry : document.root.entries) {
      if (is_comment(entry)) continue;
      if (entry.key == kStrategy) {
        section(entry, result_.flags.values);
      } else if (entry.key == kTrainer) {
        section(entry, result_.trainer);
      } else {
        setting(entry, "", {kStrategy, kTrainer}, result_.flags.values);
      }
    }
  }

 private:
  static bool is_comment(const YamlEntry& entry) { return entry.key.starts_with('_'); }

  void problem(const std::string& where, const std::string& key, const std::string& reason) {
    result_.flags.problems.push_back(problem_line(where, key, reason));
  }

  // False, and a problem, where `name` was met before.
  bool first_time(std::string_view name, const std::string& path, const std::string& where) {
    const auto [met, fresh] = met_.try_emplace(std::string(name), path, where);
    if (fresh) return true;
    const auto& [first_path, first_where] = met->second;
    problem(
        where, path,
        path == first_path
            ? "stands here for the second time, first at " + first_where + "; keep one of the two"
            : "means the same as " + first_path + " at " + first_where + "; keep one of the two");
    return false;
  }

  template <class Config>
  void section(const YamlEntry& entry, Config& config) {
    if (!first_time(entry.key, entry.key, entry.where)) return;
    if (entry.value.kind != YamlValue::Kind::kMap) {
      problem(entry.value.where, entry.key, "must be a map of settings; fill it or remove it");
      return;
    }
    for (const YamlEntry& child : entry.value.entries) {
      if (!is_comment(child)) setting(child, entry.key + ".", {}, config);
    }
  }

  template <class Config>
  void setting(const YamlEntry& entry, const std::string& prefix,
               const std::vector<std::string_view>& other_names, Config& config) {
    const std::string path = prefix + entry.key;
    const Field<Config>* const field = find_field<Config>(entry.key);
    if (field == nullptr) {
      problem(entry.where, path, unknown_key<Config>(entry.key, other_names));
      return;
    }
    if (!first_time(field->name, path, entry.where)) return;
    const YamlValue& value = entry.value;
    if (value.kind != YamlValue::Kind::kScalar) {
      const char* const got = value.kind == YamlValue::Kind::kMap    ? "a map"
                              : value.kind == YamlValue::Kind::kList ? "a list"
                                                                     : "nothing";
      problem(value.where, path, "must be " + allowed_values(*field) + ", got " + got);
      return;
    }
    std::string reason =
        set_from_scalar(*field, config, value.scalar, {Source::kFile, value.where, path});
    // resolve() looks at the ranges of flags; nobody else looks at the trainer's.
    if constexpr (std::is_same_v<Config, TrainerSettings>) {
      if (reason.empty()) reason = value_problem(*field, config);
    }
    if (!reason.empty()) problem(value.where, path, reason);
  }

  ConfigFile& result_;
  std::map<std::string, std::pair<std::string, std::string>> met_;  // name: path, place
};

}  // namespace

ConfigFile read_config_file(const std::filesystem::path& file) {
  ConfigFile result;
  Reader(result).read(read_yaml(file));
  return result;
}

ConfigFile parse_config(const std::string& text, const std::string& name) {
  ConfigFile result;
  Reader(result).read(parse_yaml(text, name));
  return result;
}

Flags parse_arguments(const std::vector<std::string>& arguments) {
  Flags flags;
  std::map<std::string_view, std::string> met;  // field name: argument
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string::npos) {
      flags.problems.push_back("command line: " + argument +
                               ": must have the form --flag=value, such as --stage=2");
      continue;
    }
    const std::string name = argument.substr(2, equals - 2);
    const Field<EngineConfig>* const field = find_field<EngineConfig>(name);
    if (field == nullptr) {
      flags.problems.push_back(
          problem_line("command line", "--" + name, unknown_key<EngineConfig>(name, {})));
      continue;
    }
    const auto [first, fresh] = met.try_emplace(field->name, argument);
    if (!fresh) {
      flags.problems.push_back(problem_line(
          "command line", argument, "was given before as " + first->second + "; keep one of them"));
      continue;
    }
    const std::string reason =
        set_from_scalar(*field, flags.values, Scalar{argument.substr(equals + 1), false},
                        {Source::kCommandLine, "command line", "--" + name});
    if (!reason.empty()) {
      flags.problems.push_back(problem_line("command line", "--" + name, reason));
    }
  }
  return flags;
}

}  // namespace zero
