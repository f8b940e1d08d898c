// SPDX-License-Identifier: Apache-2.0
#include "strategy/config_file.h"

#include <cstdlib>
#include <deque>

#include "strategy/config_reader.h"

namespace zero {
namespace {

// Words of a command line or a variable: text unless it is written as a list, a map or a string.
class Overrides {
 public:
  Overrides(Source source, std::string where, Flags& flags)
      : where_(std::move(where)), flags_(flags), reader_(source, flags) {}

  void give(const std::string& name, const std::string& written, const std::string& text) {
    if (text.empty()) {
      refuse(written, "has no value after '='; write one");
      return;
    }
    Node& node = nodes_.emplace_back();
    const bool structured =
        text.starts_with('[') || text.starts_with('{') || text.starts_with('"') || text == "null";
    if (structured) {
      Document document = parse_json(text, where_);
      if (!document.problems.empty()) {
        refuse(written, "got " + text + ", which is no value");
        return;
      }
      node = std::move(document.root);
    } else {
      node.kind = Node::Kind::kScalar;
      node.scalar = {text, false};
    }
    node.where = where_;
    reader_.single(name, written, node, where_);
  }
  void refuse(const std::string& name, const std::string& reason) {
    flags_.problems.push_back(problem_line(where_, name, reason));
  }
  // "path=value".
  void assignment(const std::string& text) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse(text, "must have the form path=value, such as zero_optimization.stage=2");
      return;
    }
    give(text.substr(0, equals), text.substr(0, equals), text.substr(equals + 1));
  }
  void finish() { reader_.finish(); }

 private:
  std::string where_;
  Flags& flags_;
  ConfigReader reader_;
  std::deque<Node> nodes_;  // the reader refers to them
};

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\n") - first + 1));
}

}  // namespace

Flags read_flags(const Document& document) {
  Flags flags;
  flags.problems = document.problems;
  if (!document.problems.empty() && document.root.kind == Node::Kind::kNull) return flags;
  ConfigReader reader(Source::kFile, flags);
  reader.document(document.root);
  reader.finish();
  return flags;
}

Flags read_config_file(const std::filesystem::path& file) {
  return read_flags(read_document(file));
}

Flags parse_config(std::string_view text, const std::string& name) {
  return read_flags(parse_yaml(text, name));
}

Flags parse_json_config(std::string_view text, const std::string& name) {
  return read_flags(parse_json(text, name));
}

Flags parse_arguments(const std::vector<std::string>& arguments) {
  Flags flags;
  Overrides overrides(Source::kCommandLine, "command line", flags);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const size_t equals = argument.find('=');
    if (argument == "--set" && i + 1 < arguments.size()) {
      overrides.assignment(arguments[++i]);
    } else if (argument.starts_with("--set=")) {
      overrides.assignment(argument.substr(6));
    } else if (!argument.starts_with("--") || equals == std::string::npos) {
      overrides.refuse(argument,
                       "must have the form --flag=value or --set path=value, such as --stage=2");
    } else {
      overrides.give(argument.substr(2, equals - 2), argument.substr(0, equals),
                     argument.substr(equals + 1));
    }
  }
  overrides.finish();
  return flags;
}

Flags parse_environment(std::string_view text) {
  Flags flags;
  Overrides overrides(Source::kEnvironment, "LIBZERO_SET", flags);
  while (!text.empty()) {
    const size_t end = text.find(';');
    const std::string assignment = trimmed(text.substr(0, end));
    if (!assignment.empty()) overrides.assignment(assignment);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  overrides.finish();
  return flags;
}

Flags flags_from_environment() {
  const char* const text = std::getenv("LIBZERO_SET");
  return text == nullptr ? Flags() : parse_environment(text);
}

}  // namespace zero
