// SPDX-License-Identifier: Apache-2.0
// configs/schema.json: a JSON Schema for editors, from the tables of settings and keys. It accepts
// what the readers accept, as far as a schema can say that.
#include <map>
#include <memory>

#include "plugin/config/key.h"
#include "trainer_integration/command_line/config_commands.h"
#include "trainer_integration/command_line/document_text.h"

namespace zero {
namespace {

// A tree of keys: sections hold children.
struct SchemaNode {
  const TableRow* row = nullptr;
  std::map<std::string, SchemaNode> children;
};

void place(SchemaNode& root, std::string_view path, const TableRow& row) {
  SchemaNode* node = &root;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    node = &node->children[std::string(path.substr(0, dot))];
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  node->row = &row;
}

SchemaNode tree() {
  SchemaNode root;
  for (const TableRow& row : key_table()) {
    for (const std::string& name : row.names) place(root, name, row);
  }
  // Flat names stand at the top and under `strategy:`.
  SchemaNode& strategy = root.children["strategy"];
  for (const TableRow& row : key_table()) {
    for (const std::string& name : row.flat_names) {
      place(strategy, name, row);
      if (root.children.find(name) == root.children.end()) place(root, name, row);
    }
  }
  return root;
}

std::string list_of(const std::vector<std::string_view>& words) {
  std::string list;
  for (const std::string_view word : words)
    list.append(list.empty() ? "" : ", ").append(in_quotes(word));
  return "[" + list + "]";
}

// Numbers may stand in quotes and sizes have units, so texts are welcome where numbers are.
std::string type_of(const SettingRow& setting) {
  const std::string_view type = setting.type();
  if (type == "bool") return R"(["boolean", "string", "null"])";
  if (type == "int" || type == "number") return R"(["number", "string", "null"])";
  if (type == "list") return R"(["array", "string", "null"])";
  return R"(["string", "null"])";
}

std::string type_of(ValueType type) {
  switch (type) {
    case ValueType::kSwitch:
      return R"(["boolean", "string", "null"])";
    case ValueType::kWhole:
    case ValueType::kNumber:
      return R"(["number", "string", "null"])";
    case ValueType::kText:
      return R"(["string", "null"])";
    case ValueType::kList:
      return R"(["array", "string", "null"])";
    case ValueType::kMap:
      return R"(["object", "null"])";
    case ValueType::kAny:
      break;
  }
  return "";
}

std::string description(const TableRow& row) {
  if (row.key == nullptr) {
    std::string text(row.setting->help());
    text.append("; ").append(row.setting->allowed());
    if (!row.setting->acts_when().empty()) text.append("; acts ").append(row.setting->acts_when());
    return text;
  }
  if (row.kind == KeyKind::kOutside)
    return std::string("not part of LibZeRO: ").append(row.key->says);
  if (!row.key->says.empty()) return std::string(row.key->says);
  return row.setting == nullptr ? "" : std::string(row.setting->help());
}

void write(const SchemaNode& node, const std::string& indent, std::string& out);

void write_children(const SchemaNode& node, const std::string& indent, std::string& out) {
  const std::string inner = indent + "  ";
  out.append(inner).append("\"patternProperties\": {\"^[_#]\": {}},\n");
  out.append(inner).append("\"additionalProperties\": false,\n");
  out.append(inner).append("\"properties\": {\n");
  bool first = true;
  for (const auto& [name, child] : node.children) {
    if (!first) out += ",\n";
    first = false;
    out.append(inner).append("  ").append(in_quotes(name)).append(": ");
    write(child, inner + "  ", out);
  }
  out.append("\n").append(inner).append("}\n");
}

void write(const SchemaNode& node, const std::string& indent, std::string& out) {
  const std::string inner = indent + "  ";
  std::string says;
  if (node.row != nullptr) says = description(*node.row);
  if (node.children.empty()) {
    out += '{';
    if (!says.empty()) out.append("\"description\": ").append(in_quotes(says));
    std::string type;
    if (node.row != nullptr && node.row->key == nullptr) {
      type = type_of(*node.row->setting);
    } else if (node.row != nullptr && node.row->kind != KeyKind::kSection) {
      type = type_of(node.row->key->type);
    }
    if (!type.empty()) out.append(says.empty() ? "" : ", ").append("\"type\": ").append(type);
    if (node.row != nullptr && node.row->key == nullptr && !node.row->setting->choices().empty()) {
      out.append(", \"examples\": ").append(list_of(node.row->setting->choices()));
    }
    out += '}';
    return;
  }
  out += "{\n";
  if (!says.empty())
    out.append(inner).append("\"description\": ").append(in_quotes(says)).append(",\n");
  // A section may be written as a switch, or left out by null.
  out.append(inner).append(R"("type": ["object", "boolean", "string", "null"],)").append("\n");
  write_children(node, indent, out);
  out.append(indent).append("}");
}

}  // namespace

std::string configuration_schema() {
  std::string out = "{\n";
  out.append("  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n");
  out.append("  \"$comment\": \"Written by `zero config schema`; a test keeps it so.\",\n");
  out.append("  \"title\": \"LibZeRO configuration\",\n");
  out.append("  \"type\": \"object\",\n");
  write_children(tree(), "", out);
  return out + "}\n";
}

}  // namespace zero
