// SPDX-License-Identifier: Apache-2.0
#include "plugin/config/yaml_document.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>

namespace zero {
namespace {

class Converter {
 public:
  Converter(const std::string& name, YamlDocument& document) : name_(name), document_(document) {}

  std::string place(const YAML::Mark& mark) const {
    return name_ + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
  }

  YamlValue value(const YAML::Node& node, int depth) {
    YamlValue result;
    result.where = place(node.Mark());
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        result.kind = YamlValue::Kind::kScalar;
        // The library marks a plain scalar with the tag "?".
        result.scalar = {node.Scalar(), node.Tag() != "?"};
        break;
      case YAML::NodeType::Sequence:
        result.kind = YamlValue::Kind::kList;
        break;
      case YAML::NodeType::Map:
        result.kind = YamlValue::Kind::kMap;
        // The limit also ends documents that contain themselves through an anchor.
        if (depth < kDeepestMap) {
          for (const auto& pair : node) entry(pair.first, pair.second, depth, result);
        }
        break;
    }
    return result;
  }

 private:
  void entry(const YAML::Node& key, const YAML::Node& child, int depth, YamlValue& map) {
    if (!key.IsScalar()) {
      document_.problems.push_back(place(key.Mark()) +
                                   ": a key must be a name, not a map, a list or nothing");
      return;
    }
    YamlEntry result{key.Scalar(), place(key.Mark()), value(child, depth + 1)};
    // The library puts a value that is not written at the next token.
    if (result.value.kind == YamlValue::Kind::kNull) result.value.where = result.where;
    map.entries.push_back(std::move(result));
  }

  const std::string& name_;
  YamlDocument& document_;
};

// Listens to nothing; parsing with it finds the ends of documents.
class Silent : public YAML::EventHandler {
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::Load drops what follows the first document, and YAML::LoadAll never ends for a text that
// starts with a comma.
bool has_second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Silent silent;
  return parser.HandleNextDocument(silent) && parser.HandleNextDocument(silent);
}

YamlDocument failed(std::string problem) {
  YamlDocument document;
  document.problems.push_back(std::move(problem));
  return document;
}

}  // namespace

YamlDocument parse_yaml(const std::string& text, const std::string& name) {
  YamlDocument document;
  Converter convert(name, document);
  try {
    if (has_second_document(text)) {
      return failed(name +
                    ": holds more than one YAML document; remove '---' between them, or stray text "
                    "before or after the flags");
    }
    document.root = convert.value(YAML::Load(text), 0);
    if (document.root.kind == YamlValue::Kind::kNull) document.root.where = name;
  } catch (const YAML::DeepRecursion& error) {
    return failed(convert.place(error.mark) +
                  ": nested too deeply; a configuration has at most one level of sections");
  } catch (const YAML::Exception& error) {
    return failed(convert.place(error.mark) + ": not valid YAML: " + error.msg);
  }
  return document;
}

YamlDocument read_yaml(const std::filesystem::path& file) {
  const std::string name = file.string();
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    return failed(name + ": there is no such file; check the path, relative ones start at " +
                  std::filesystem::current_path().string());
  }
  if (std::filesystem::is_directory(status)) {
    return failed(name + ": is a folder; name the YAML file in it");
  }
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return failed(name + ": cannot be read; check its permissions");
  return parse_yaml(text.str(), name);
}

}  // namespace zero
