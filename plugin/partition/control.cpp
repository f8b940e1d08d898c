// SPDX-License-Identifier: Apache-2.0
#include "plugin/partition/control.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "plugin/partition/agreement.h"

namespace zero {
namespace {

// One round carries this much; only longer messages need a second one.
constexpr int64_t kFirstRound = 256;
constexpr int64_t kHead = sizeof(int64_t);

std::string to_bytes(double value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

double to_double(const std::string& bytes) {
  double value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

Control::Control(CommunicatorOptions options, const c10::intrusive_ptr<c10d::Store>& store)
    : link_(std::move(options), store) {}

std::vector<std::string> Control::gather_bytes(const std::string& message) {
  const auto length = static_cast<int64_t>(message.size());
  const int64_t in_first = std::min(length, kFirstRound - kHead);
  at::Tensor mine = at::zeros({kFirstRound}, at::kByte);
  auto* to = mine.mutable_data_ptr<uint8_t>();
  std::memcpy(to, &length, kHead);
  std::memcpy(to + kHead, message.data(), in_first);
  at::Tensor all = at::empty({world_size() * kFirstRound}, at::kByte);
  link_.all_gather(all, mine);

  std::vector<int64_t> lengths(world_size());
  std::vector<std::string> messages(world_size());
  for (int rank = 0; rank < world_size(); ++rank) {
    const auto* from = all.const_data_ptr<uint8_t>() + rank * kFirstRound;
    std::memcpy(&lengths[rank], from, kHead);
    messages[rank].assign(reinterpret_cast<const char*>(from) + kHead,
                          std::min(lengths[rank], kFirstRound - kHead));
  }
  const int64_t rest = *std::max_element(lengths.begin(), lengths.end()) - (kFirstRound - kHead);
  if (rest <= 0) return messages;

  mine = at::zeros({rest}, at::kByte);
  std::memcpy(mine.mutable_data_ptr<uint8_t>(), message.data() + in_first, length - in_first);
  all = at::empty({world_size() * rest}, at::kByte);
  link_.all_gather(all, mine);
  for (int rank = 0; rank < world_size(); ++rank) {
    const auto* from = reinterpret_cast<const char*>(all.const_data_ptr<uint8_t>()) + rank * rest;
    const auto have = static_cast<int64_t>(messages[rank].size());
    messages[rank].append(from, lengths[rank] - have);
  }
  return messages;
}

std::vector<std::string> Control::exchange(const std::string& call, const std::string& payload) {
  if (world_size() == 1) return {payload};
  std::vector<std::string> messages = gather_bytes(call + '\0' + payload);
  std::vector<std::string> calls;
  for (std::string& message : messages) {
    const size_t end = message.find('\0');
    calls.push_back(message.substr(0, end));
    message.erase(0, end + 1);
  }
  if (std::any_of(calls.begin(), calls.end(), [&](const auto& c) { return c != calls[0]; })) {
    throw RankMismatch("zero: the ranks are at different places.\n" + describe_difference(calls) +
                       "Every rank must make the same calls in the same order.");
  }
  return messages;
}

void Control::barrier(std::string_view where) {
  exchange("barrier '" + std::string(where) + "'", "");
}

std::vector<std::string> Control::all_gather_text(const std::string& text) {
  return exchange("all_gather_text", text);
}

std::vector<uint8_t> Control::any(const std::vector<uint8_t>& flags) {
  const std::string call = "any of " + std::to_string(flags.size()) + " flags";
  std::vector<uint8_t> result(flags.size(), 0);
  for (const std::string& theirs : exchange(call, std::string(flags.begin(), flags.end()))) {
    for (size_t i = 0; i < result.size(); ++i) result[i] |= theirs[i] != 0;
  }
  return result;
}

double Control::sum(double value) {
  double total = 0;
  for (const std::string& theirs : exchange("sum", to_bytes(value))) total += to_double(theirs);
  return total;
}

double Control::max(double value) {
  double result = value;
  for (const std::string& theirs : exchange("max", to_bytes(value))) {
    const double other = to_double(theirs);
    if (std::isnan(other) || other > result) result = other;
  }
  return result;
}

void Control::agree(std::string_view what, const std::string& value, std::string_view remedy) {
  const auto values = exchange("agree on '" + std::string(what) + "'", value);
  if (std::all_of(values.begin(), values.end(), [&](const auto& v) { return v == values[0]; })) {
    return;
  }
  std::ostringstream text;
  text << "zero: the ranks disagree on " << what << ".\n" << describe_difference(values) << remedy;
  throw RankMismatch(text.str());
}

void Control::raise_together(const std::optional<std::string>& my_error) {
  // The first byte says whether there is an error: its text may be empty.
  const auto all = exchange("raise_together", my_error ? "E" + *my_error : "-");
  std::vector<int> failed;
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] != 'E') continue;
    failed.push_back(static_cast<int>(rank));
    texts.push_back(all[rank].substr(1));
  }
  if (failed.empty()) return;
  std::ostringstream text;
  if (all.size() == 1) {
    text << texts[0];
  } else if (std::all_of(texts.begin(), texts.end(), [&](auto& t) { return t == texts[0]; })) {
    text << name_ranks(failed) << " of " << all.size() << ": " << texts[0];
  } else {
    text << failed.size() << " of " << all.size() << " ranks failed.";
    for (size_t i = 0; i < failed.size(); ++i) text << "\nrank " << failed[i] << ": " << texts[i];
  }
  throw c10::Error(text.str(), nullptr);
}

}  // namespace zero
