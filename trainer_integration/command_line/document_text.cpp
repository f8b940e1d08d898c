// SPDX-License-Identifier: Apache-2.0
#include "trainer_integration/command_line/document_text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace zero {
namespace {

bool is_word(std::string_view text, std::initializer_list<std::string_view> words) {
  const auto equal = [&](std::string_view word) {
    return std::ranges::equal(text, word, [](unsigned char a, unsigned char b) {
      return std::tolower(a) == std::tolower(b);
    });
  };
  return std::ranges::any_of(words, equal);
}

// -12.5e+3, with digits before and after the point: what JSON calls a number.
bool is_json_number(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t first = i;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0) ++i;
    return i - first;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const bool leading_zero = i < text.size() && text[i] == '0';
  const size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

// Text that YAML reads back as it stands, without quotes.
bool is_plain(std::string_view text) {
  constexpr std::string_view kAllowed = "_./+-";
  const auto harmless = [&](unsigned char c) {
    return std::isalnum(c) != 0 || kAllowed.find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !text.empty() && std::ranges::all_of(text, harmless) &&
         (std::isalnum(static_cast<unsigned char>(text.front())) != 0 || text.front() == '_' ||
          text.front() == '/' || is_json_number(text));
}

std::string json_scalar(const Scalar& scalar) {
  const std::string& text = scalar.text;
  if (scalar.quoted) return in_quotes(text);
  if (is_json_number(text)) return text;
  if (is_word(text, {"true", "yes", "on"})) return "true";
  if (is_word(text, {"false", "no", "off"})) return "false";
  return in_quotes(text);
}

std::string yaml_scalar(const Scalar& scalar) {
  return !scalar.quoted && is_plain(scalar.text) ? scalar.text : in_quotes(scalar.text);
}

std::string yaml_key(const std::string& key) {
  const bool word = is_word(key, {"true", "false", "yes", "no", "on", "off", "null", "y", "n"});
  return is_plain(key) && !word ? key : in_quotes(key);
}

void json_node(const Node& node, const std::string& indent, std::string& out) {
  const std::string inner = indent + "  ";
  const auto close = [&](bool any, char bracket) {
    if (any) out.append("\n").append(indent);
    out += bracket;
  };
  switch (node.kind) {
    case Node::Kind::kNull:
      out += "null";
      return;
    case Node::Kind::kScalar:
      out += json_scalar(node.scalar);
      return;
    case Node::Kind::kList:
      out += '[';
      for (size_t i = 0; i < node.items.size(); ++i) {
        if (i > 0) out += ", ";
        json_node(node.items[i], inner, out);
      }
      out += ']';
      return;
    case Node::Kind::kMap:
      out += '{';
      for (size_t i = 0; i < node.entries.size(); ++i) {
        out.append(i > 0 ? ",\n" : "\n").append(inner);
        out.append(in_quotes(node.entries[i].key)).append(": ");
        json_node(node.entries[i].value, inner, out);
      }
      close(!node.entries.empty(), '}');
      return;
  }
}

// In one line: what stands in lists, and what is empty.
std::string yaml_flow(const Node& node) {
  std::string out;
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kScalar:
      return yaml_scalar(node.scalar);
    case Node::Kind::kList:
      for (const Node& item : node.items) {
        out.append(out.empty() ? "" : ", ").append(yaml_flow(item));
      }
      return "[" + out + "]";
    case Node::Kind::kMap:
      for (const Entry& entry : node.entries) {
        out.append(out.empty() ? "" : ", ").append(yaml_key(entry.key)).append(": ");
        out.append(yaml_flow(entry.value));
      }
      return "{" + out + "}";
  }
  return out;
}

void yaml_map(const Node& map, const std::string& indent, std::string& out) {
  for (const Entry& entry : map.entries) {
    out.append(indent).append(yaml_key(entry.key)).append(":");
    if (entry.value.kind == Node::Kind::kMap && !entry.value.entries.empty()) {
      out += '\n';
      yaml_map(entry.value, indent + "  ", out);
    } else {
      out.append(" ").append(yaml_flow(entry.value)).append("\n");
    }
  }
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::array<char, 16> kDigits = {'0', '1', '2', '3', '4', '5', '6', '7',
                                            '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append(1, '\\').append(1, c);
    } else if (byte < 0x20 || byte == 0x7f) {
      out.append("\\u00").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string yaml_text(const Node& root) {
  if (root.kind != Node::Kind::kMap || root.entries.empty()) return yaml_flow(root) + "\n";
  std::string out;
  yaml_map(root, "", out);
  return out;
}

std::string json_text(const Node& root) {
  std::string out;
  json_node(root, "", out);
  return out + "\n";
}

}  // namespace zero
