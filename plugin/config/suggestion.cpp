// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "plugin/config/values.h"

namespace zero {
namespace {

std::string bare(std::string_view word) {
  std::string letters;
  for (const char c : word) {
    if (c != '_' && c != '-' && c != ' ') {
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return letters;
}

// Insertions, deletions, substitutions and swaps of neighbours, each one edit.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::set<std::string> words(std::string_view name) {
  std::set<std::string> result;
  std::string word;
  for (const char c : name) {
    if (c == '_' || c == '-' || c == ' ' || c == '.') {
      if (!word.empty()) result.insert(std::exchange(word, ""));
    } else {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  if (!word.empty()) result.insert(word);
  return result;
}

// Long names are mixed up by whole words: micro_batch_per_gpu, max_acceptable_batch_size.
std::optional<std::string_view> with_most_words_in_common(
    std::string_view name, const std::vector<std::string_view>& candidates) {
  const std::set<std::string> wanted = words(name);
  if (wanted.size() < 2) return std::nullopt;
  std::optional<std::string_view> best;
  double most = 0;  // of the words of both names
  for (const std::string_view candidate : candidates) {
    const std::set<std::string> other = words(candidate);
    const auto common = static_cast<double>(std::ranges::count_if(
        wanted, [&](const std::string& word) { return other.contains(word); }));
    const double share = common / (static_cast<double>(wanted.size() + other.size()) - common);
    if (common >= 2 && share >= 0.5 && share > most) {
      most = share;
      best = candidate;
    }
  }
  return best;
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates) {
  const std::string wanted = bare(word);
  constexpr size_t kLongestName = 64;  // nobody mistypes a flag into more; keeps the table small
  if (wanted.empty() || wanted.size() > kLongestName) return std::nullopt;
  std::optional<std::string_view> best;
  size_t fewest = wanted.size() / 3 + 1;  // a third of the letters wrong is another word
  for (const std::string_view candidate : candidates) {
    const size_t distance = edits(wanted, bare(candidate));
    if (distance < fewest) {
      fewest = distance;
      best = candidate;
    }
  }
  return best ? best : with_most_words_in_common(word, candidates);
}

}  // namespace zero
