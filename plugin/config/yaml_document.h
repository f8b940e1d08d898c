// SPDX-License-Identifier: Apache-2.0
// A YAML file as places, keys and scalars: all that a configuration needs. Only yaml_document.cpp
// knows the YAML library. Nothing is dropped: duplicate keys stay in the list, and what cannot be a
// configuration is a problem.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plugin/config/values.h"

namespace zero {

struct YamlEntry;

struct YamlValue {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string where;               // "file:line:column"
  Scalar scalar;                   // kScalar
  std::vector<YamlEntry> entries;  // kMap, in file order; left empty below kDeepestMap
};

struct YamlEntry {
  std::string key;
  std::string where;
  YamlValue value;
};

// Root and one section; a configuration has nothing deeper.
inline constexpr int kDeepestMap = 2;

struct YamlDocument {
  YamlValue root;
  std::vector<std::string> problems;  // lines for ConfigError
};

YamlDocument read_yaml(const std::filesystem::path& file);
// `name` stands for the file in every place.
YamlDocument parse_yaml(const std::string& text, const std::string& name);

}  // namespace zero
