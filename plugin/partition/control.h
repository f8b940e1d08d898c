// SPDX-License-Identifier: Apache-2.0
// Small exchanges between hosts: agreement checks, flags, norms, errors. Over Gloo, also where
// tensors live on GPUs.
//
// Every call is collective, blocks, and is bounded by the timeout of the world. The calls' names
// travel with their data: ranks that meet in different calls all get a RankMismatch that says who
// is where, instead of wrong bytes. One thread at a time. Failure of a peer: c10::Error on the
// others.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/partition/communicator.h"

namespace zero {

// Ranks hold different values where they must hold the same. The text is the same on every rank.
class RankMismatch : public c10::Error {
 public:
  explicit RankMismatch(const std::string& text) : c10::Error(text, nullptr) {}
};

class Control {
 public:
  static constexpr std::string_view kSameStart =
      "Start every rank with the same program, flags, files and environment, and seed whatever "
      "differs.";

  explicit Control(CommunicatorOptions options, const c10::intrusive_ptr<c10d::Store>& store);

  void barrier(std::string_view where);
  // One text per rank, in rank order.
  std::vector<std::string> all_gather_text(const std::string& text);
  // Element-wise OR over ranks: 0 or 1. Every rank gives as many flags.
  std::vector<uint8_t> any(const std::vector<uint8_t>& flags);
  // In rank order: the same bits on every rank.
  double sum(double value);
  // NaN on one rank is NaN on all.
  double max(double value);
  // Throws RankMismatch on every rank unless all gave the same value: what differs, who holds which
  // value, what to do. Long texts are shown from their first difference on.
  void agree(std::string_view what, const std::string& value, std::string_view remedy = kSameStart);
  // If any rank brings an error, every rank throws one text that names the ranks; no rank is left
  // waiting.
  void raise_together(const std::optional<std::string>& my_error);

  int rank() const { return link_.rank(); }
  int world_size() const { return link_.world_size(); }
  void set_timeout(std::chrono::milliseconds timeout) { link_.set_timeout(timeout); }
  void close(bool in_good_order) { link_.close(in_good_order); }

 private:
  // Sends `payload` to all and returns everyone's, after checking that all ranks are in the same
  // call.
  std::vector<std::string> exchange(const std::string& call, const std::string& payload);
  std::vector<std::string> gather_bytes(const std::string& message);

  Communicator link_;
};

}  // namespace zero
