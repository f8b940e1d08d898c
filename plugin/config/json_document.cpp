// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <optional>

#include "plugin/config/document.h"

namespace zero {
namespace {

// What stopped the reader; only this file sees it.
struct Stop {
  std::string problem;
};

void append_utf8(uint32_t code, std::string& text) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

class JsonReader {
 public:
  JsonReader(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  Node document() {
    skip_blank();
    if (at_end()) {
      Node empty;
      empty.where = name_;
      return empty;
    }
    Node root = value(0);
    skip_blank();
    if (!at_end())
      stop("text after the end of the configuration; remove it, or a bracket too many");
    return root;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool looking_at(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  void advance(size_t count = 1) {
    for (; count > 0 && !at_end(); --count, ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
    }
  }
  std::string place() const {
    return name_ + ":" + std::to_string(line_) + ":" + std::to_string(at_ - line_start_ + 1);
  }
  [[noreturn]] void stop(const std::string& reason) const { stop_at(place(), reason); }
  [[noreturn]] static void stop_at(const std::string& where, const std::string& reason) {
    throw Stop{where + ": not valid JSON: " + reason};
  }

  void skip_comment() {
    if (looking_at("/*")) {
      const std::string begin = place();
      const size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) stop_at(begin, "a comment that does not end; write */");
      advance(end + 2 - at_);
      return;
    }
    advance(std::min(text_.find('\n', at_), text_.size()) - at_);
  }
  bool at_comment() const { return peek() == '#' || looking_at("//") || looking_at("/*"); }
  // Blanks and comments. True when a line ended in them.
  bool skip_blank() {
    const size_t line = line_;
    while (!at_end()) {
      if (std::isspace(static_cast<unsigned char>(peek())) != 0) {
        advance();
      } else if (at_comment()) {
        skip_comment();
      } else {
        break;
      }
    }
    return line_ != line;
  }

  Node value(int depth) {
    Node node;
    node.where = place();
    if (depth > kDeepestNode || ++nodes_ > kMostNodes) {
      stop("nested too deeply or too large for a configuration");
    }
    if (peek() == '{') {
      map(node, depth);
    } else if (peek() == '[') {
      list(node, depth);
    } else if (peek() == '"' || peek() == '\'') {
      node.kind = Node::Kind::kScalar;
      node.scalar = {quoted_text(), true};
    } else {
      node.scalar = {bare_word(",]}\n"), false};
      if (node.scalar.text.empty())
        stop("a value is missing before '" + std::string(1, peek()) + "'");
      const bool nothing = node.scalar.text == "null" || node.scalar.text == "None";
      node.kind = nothing ? Node::Kind::kNull : Node::Kind::kScalar;
    }
    return node;
  }

  // Members up to `close`, each read by `member`.
  template <class Member>
  void members(char close, const std::string& opened, Member member) {
    advance();
    skip_blank();
    while (peek() != close) {
      if (at_end())
        stop_at(opened, std::string("the bracket is not closed; write '") + close + "'");
      member();
      const bool new_line = skip_blank();
      if (peek() == ',') {
        advance();
        skip_blank();
        if (peek() == ',') stop("two commas in a row; remove one");
      } else if (!new_line && peek() != close && !at_end()) {
        stop(std::string("expected ',' or '") + close + "', got '" + peek() + "'");
      }
    }
    advance();
  }

  void map(Node& node, int depth) {
    node.kind = Node::Kind::kMap;
    members('}', node.where, [&] {
      Entry entry;
      entry.where = place();
      entry.key = peek() == '"' || peek() == '\'' ? quoted_text() : bare_word(":,]}{[\n");
      skip_blank();
      if (peek() != ':') stop_at(entry.where, "a key needs ':' and a value after it");
      advance();
      skip_blank();
      if (at_end()) stop_at(entry.where, "a key needs a value after ':'");
      entry.value = value(depth + 1);
      node.entries.push_back(std::move(entry));
    });
  }

  void list(Node& node, int depth) {
    node.kind = Node::Kind::kList;
    members(']', node.where, [&] { node.items.push_back(value(depth + 1)); });
  }

  // A comment ends a word only after a blank, so that paths and addresses keep their slashes.
  std::string bare_word(std::string_view ends) {
    const size_t begin = at_;
    while (!at_end() && ends.find(peek()) == std::string_view::npos) {
      const bool after_blank =
          at_ > begin && std::isspace(static_cast<unsigned char>(text_[at_ - 1])) != 0;
      if (after_blank && at_comment()) break;
      advance();
    }
    std::string_view word = text_.substr(begin, at_ - begin);
    while (!word.empty() && std::isspace(static_cast<unsigned char>(word.back())) != 0) {
      word.remove_suffix(1);
    }
    return std::string(word);
  }

  std::string quoted_text() {
    const std::string begin = place();
    const char quote = peek();
    std::string text;
    advance();
    while (peek() != quote) {
      if (at_end() || peek() == '\n') {
        stop_at(begin, std::string("the text does not end on its line; write ") + quote);
      }
      if (peek() == '\\') {
        advance();
        escape(text);
      } else {
        text += peek();
        advance();
      }
    }
    advance();
    return text;
  }

  void escape(std::string& text) {
    static constexpr std::string_view kLetters = "bfnrt\"'\\/";
    static constexpr std::string_view kMeanings = "\b\f\n\r\t\"'\\/";
    const char letter = peek();
    if (letter == 'u') {
      advance();
      uint32_t code = 0;
      for (int digit = 0; digit < 4; ++digit) {
        if (std::isxdigit(static_cast<unsigned char>(peek())) == 0) {
          stop("\\u needs four hexadecimal digits");
        }
        const int c = std::tolower(static_cast<unsigned char>(peek()));
        code = code * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
        advance();
      }
      append_utf8(code, text);
      return;
    }
    const size_t meaning = kLetters.find(letter);
    if (letter == '\0' || meaning == std::string_view::npos) {
      stop("an escape that JSON does not know; write \\\\ for a backslash");
    }
    text += kMeanings[meaning];
    advance();
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t line_start_ = 0;
  size_t nodes_ = 0;
};

}  // namespace

Document parse_json(std::string_view text, const std::string& name) {
  if (text.size() > kLargestFile) return failed_document(name + ": too large for a configuration");
  Document document;
  try {
    document.root = JsonReader(text, name).document();
  } catch (const Stop& stop) {
    return failed_document(stop.problem);
  }
  return document;
}

}  // namespace zero
