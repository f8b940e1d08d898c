// SPDX-License-Identifier: Apache-2.0
#include "plugin/config/document.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

namespace zero {
namespace {

bool is_json(const std::filesystem::path& file, const std::string& text) {
  const std::string ending = file.extension().string();
  constexpr std::array<std::string_view, 4> kJson = {".json", ".jsonc", ".json5", ".hjson"};
  if (std::ranges::find(kJson, ending) != kJson.end()) return true;
  if (ending == ".yaml" || ending == ".yml") return false;
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

}  // namespace

std::string kind_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kScalar:
      return as_written(node.scalar);
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return "nothing";
}

bool is_auto(const Node& node) {
  return node.kind == Node::Kind::kScalar && equal_ignoring_case(node.scalar.text, "auto");
}

Document failed_document(std::string_view problem) {
  Document document;
  document.problems.push_back(printable(problem));
  return document;
}

Document read_document(const std::filesystem::path& file) {
  const std::string name = file.string();
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    return failed_document(name +
                           ": there is no such file; check the path, relative ones start "
                           "at " +
                           std::filesystem::current_path().string());
  }
  if (std::filesystem::is_directory(status)) {
    return failed_document(name + ": is a folder; name the file in it");
  }
  if (std::filesystem::is_regular_file(status) && std::filesystem::file_size(file) > kLargestFile) {
    return failed_document(name + ": too large for a configuration");
  }
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  const std::string text = bytes.str();
  // An empty file sets the fail bit of the copy; one that cannot be opened has it before.
  if (!stream.is_open() || stream.bad()) {
    return failed_document(name + ": cannot be read; check its permissions");
  }
  return is_json(file, text) ? parse_json(text, name) : parse_yaml(text, name);
}

}  // namespace zero
