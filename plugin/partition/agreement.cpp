// SPDX-License-Identifier: Apache-2.0
#include "plugin/partition/agreement.h"

#include <algorithm>
#include <sstream>

namespace zero {
namespace {

constexpr size_t kShown = 160;  // characters of a value in a message
constexpr size_t kBefore = 40;  // of these, how many before the first difference

struct Holders {
  std::string value;
  std::vector<int> ranks;
};

std::vector<Holders> group(const std::vector<std::string>& values) {
  std::vector<Holders> groups;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const Holders& g) { return g.value == values[rank]; });
    if (same == groups.end()) same = groups.insert(groups.end(), {values[rank], {}});
    same->ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

// First position at which not all values agree; a shorter one ends there.
size_t first_difference(const std::vector<Holders>& groups) {
  const std::string& first = groups.front().value;
  size_t position = first.size();
  for (const Holders& g : groups) {
    const size_t common = std::min(first.size(), g.value.size());
    const auto at = std::mismatch(first.begin(), first.begin() + common, g.value.begin()).first;
    position = std::min<size_t>(position, at - first.begin());
  }
  return position;
}

// The line, or of a long one the part around the first difference.
void show(std::ostream& text, const std::string& line, size_t difference) {
  size_t begin = 0;
  if (line.size() > kShown && difference > kBefore) {
    begin = std::min(difference - kBefore, line.size() - kBefore);
  }
  text << (begin > 0 ? "\"... " : "\"") << line.substr(begin, kShown)
       << (begin + kShown < line.size() ? " ...\"" : "\"");
}

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  std::ostringstream text;
  text << (ranks.size() == 1 ? "rank " : "ranks ");
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text << (i + 1 == ranks.size() ? " and " : ", ");
    text << ranks[i];
  }
  return text.str();
}

std::string describe_difference(const std::vector<std::string>& values) {
  const std::vector<Holders> groups = group(values);
  const size_t difference = first_difference(groups);
  const std::string& first = groups.front().value;
  const bool lines = std::any_of(groups.begin(), groups.end(), [](const Holders& g) {
    return g.value.find('\n') != std::string::npos;
  });
  // Up to the first difference all values are the same, so its line begins at the same place in all
  // of them.
  const size_t before = difference == 0 ? std::string::npos : first.rfind('\n', difference - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  const auto line_number = 1 + std::count(first.begin(), first.begin() + begin, '\n');

  std::ostringstream text;
  for (const Holders& g : groups) {
    text << "  " << name_ranks(g.ranks) << ": ";
    if (lines) text << "line " << line_number << ": ";
    if (lines && begin >= g.value.size()) {
      text << "(ends before this line)\n";
    } else {
      const size_t end = std::min(g.value.find('\n', begin), g.value.size());
      show(text, g.value.substr(begin, end - begin), difference - begin);
      text << (lines && difference == g.value.size() ? " (ends here)\n" : "\n");
    }
  }
  return text.str();
}

}  // namespace zero
