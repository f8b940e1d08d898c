// SPDX-License-Identifier: Apache-2.0
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "plugin/config/document.h"

namespace zero {
namespace {

class Converter {
 public:
  Converter(const std::string& name, Document& document) : name_(name), document_(document) {}

  std::string place(const YAML::Mark& mark) const {
    return name_ + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
  }

  Node node(const YAML::Node& yaml, int depth) {
    Node result;
    result.where = place(yaml.Mark());
    if (full(depth, result.where)) return result;
    switch (yaml.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        result.kind = Node::Kind::kScalar;
        // The library marks a plain scalar with the tag "?".
        result.scalar = {yaml.Scalar(), yaml.Tag() != "?"};
        break;
      case YAML::NodeType::Sequence:
        result.kind = Node::Kind::kList;
        for (const auto& item : yaml) result.items.push_back(node(item, depth + 1));
        break;
      case YAML::NodeType::Map:
        result.kind = Node::Kind::kMap;
        for (const auto& pair : yaml) entry(pair.first, pair.second, depth, result);
        break;
    }
    return result;
  }

 private:
  // Aliases can make a small text grow without end, and a document can contain itself.
  bool full(int depth, const std::string& where) {
    if (depth <= kDeepestNode && ++nodes_ <= kMostNodes) return false;
    if (!reported_) {
      document_.problems.push_back(where +
                                   ": nested too deeply or too large for a configuration; write "
                                   "the settings out, without anchors");
    }
    reported_ = true;
    return true;
  }

  void entry(const YAML::Node& key, const YAML::Node& child, int depth, Node& map) {
    if (!key.IsScalar()) {
      document_.problems.push_back(place(key.Mark()) +
                                   ": a key must be a name, not a map, a list or nothing");
      return;
    }
    Entry result{key.Scalar(), place(key.Mark()), node(child, depth + 1)};
    // The library puts a value that is not written at the next token.
    if (result.value.kind == Node::Kind::kNull) result.value.where = result.where;
    map.entries.push_back(std::move(result));
  }

  const std::string& name_;
  Document& document_;
  size_t nodes_ = 0;
  bool reported_ = false;
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

}  // namespace

Document parse_yaml(std::string_view view, const std::string& name) {
  if (view.size() > kLargestFile) return failed_document(name + ": too large for a configuration");
  const std::string text(view);
  Document document;
  Converter convert(name, document);
  try {
    if (has_second_document(text)) {
      return failed_document(name +
                             ": holds more than one YAML document; remove '---' between them, or "
                             "stray text before or after the flags");
    }
    document.root = convert.node(YAML::Load(text), 0);
    if (document.root.kind == Node::Kind::kNull) document.root.where = name;
  } catch (const YAML::DeepRecursion& error) {
    return failed_document(convert.place(error.mark) +
                           ": nested too deeply for a configuration; write the settings out");
  } catch (const YAML::Exception& error) {
    return failed_document(convert.place(error.mark) + ": not valid YAML: " + error.msg);
  }
  return document;
}

}  // namespace zero
