// SPDX-License-Identifier: Apache-2.0
// A configuration file as places, keys and values, before anything is known about its keys. YAML
// and JSON are read into the same form. Nothing is dropped: duplicate keys stay in the list, and
// what cannot be read is a problem. Only yaml_document.cpp knows the YAML library.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/config/values.h"

namespace zero {

struct Entry;

struct Node {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string where;           // "file:line:column"; both count from 1
  Scalar scalar;               // kScalar
  std::vector<Node> items;     // kList
  std::vector<Entry> entries;  // kMap, in file order
};

struct Entry {
  std::string key;
  std::string where;
  Node value;
};

struct Document {
  Node root;
  std::vector<std::string> problems;  // lines for ConfigError
};

// No configuration comes near these; what does is refused before it costs time or stack.
inline constexpr size_t kLargestFile = size_t{4} << 20;  // bytes
inline constexpr int kDeepestNode = 64;
inline constexpr size_t kMostNodes = 100000;

// `name` stands for the file in every place.
Document parse_yaml(std::string_view text, const std::string& name);
// JSON as people write it: // and /* */ and # comments, trailing commas, a line end for a comma,
// keys and words without quotes, single quotes, Python's True, False and None.
Document parse_json(std::string_view text, const std::string& name);

// By the file's ending (.json, .jsonc, .json5, .hjson; .yaml, .yml); where that says nothing, a
// text that starts with '{' is JSON.
Document read_document(const std::filesystem::path& file);

bool is_auto(const Node& node);
// "nothing", the value as it was written, "a list", "a map".
std::string kind_text(const Node& node);

// Nothing but the problem.
Document failed_document(std::string_view problem);

}  // namespace zero
