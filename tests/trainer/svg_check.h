// SPDX-License-Identifier: Apache-2.0
// Just enough of an XML reader to say whether a picture is well formed and how many elements of a
// kind it has.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace zero::testing {

inline int count_of(const std::string& text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

inline ::testing::AssertionResult bad(const std::string& why) {
  return ::testing::AssertionFailure() << why;
}

// Text and attribute values: no raw '<', and '&' only as one of the entities that we write.
inline bool is_clean(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<' || text[i] == '>') return false;
    if (text[i] != '&') continue;
    const std::string_view rest = text.substr(i);
    if (!rest.starts_with("&amp;") && !rest.starts_with("&lt;") && !rest.starts_with("&gt;") &&
        !rest.starts_with("&quot;")) {
      return false;
    }
  }
  return true;
}

// One element that closes everything that it opens, quoted attributes, no number that is not one.
inline ::testing::AssertionResult is_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  bool had_root = false;
  size_t at = 0;
  while (at < svg.size()) {
    const size_t tag = svg.find('<', at);
    const std::string between = svg.substr(at, tag == std::string::npos ? tag : tag - at);
    if (!is_clean(between)) return bad("unescaped text: " + between);
    if (open.empty() && between.find_first_not_of(" \n") != std::string::npos)
      return bad("text outside");
    if (tag == std::string::npos) break;
    const size_t end = svg.find('>', tag);
    if (end == std::string::npos) return bad("a tag is not closed");
    std::string inside = svg.substr(tag + 1, end - tag - 1);
    at = end + 1;
    if (inside.starts_with('/')) {
      if (open.empty() || open.back() != inside.substr(1))
        return bad("unexpected </" + inside.substr(1));
      open.pop_back();
      continue;
    }
    if (open.empty() && had_root) return bad("two roots");
    had_root = true;
    const bool closed = inside.ends_with('/');
    if (closed) inside.pop_back();
    if (count_of(inside, "\"") % 2 != 0 || !is_clean(inside)) return bad("attributes of " + inside);
    if (count_of(inside, "\"nan") + count_of(inside, "\"inf") + count_of(inside, "\"-nan") > 0) {
      return bad("not a number in " + inside);
    }
    if (!closed) open.push_back(inside.substr(0, inside.find(' ')));
  }
  if (!had_root || !open.empty()) return bad("something stays open");
  return ::testing::AssertionSuccess();
}

}  // namespace zero::testing
