// SPDX-License-Identifier: Apache-2.0
// Completes whole pages that stay from all ranks' shards after an update: by all-gather or by
// broadcasts, in pieces. Works on the current stream. Not thread-safe; one thread updates.
#pragma once

#include "plugin/memory/buffers.h"
#include "plugin/partition/communicator.h"
#include "zero/engine_config.h"

namespace zero {

struct WeightGatherOptions {
  int64_t piece = kNoLimit;  // elements of a collective; at least one a rank
  bool broadcasts = false;   // one from each rank instead of an all-gather
};

class WeightGather {
 public:
  // For pages of at most `largest` elements of at most `element` bytes each.
  WeightGather(const WeightGatherOptions& options, Communicator& link, int64_t largest,
               int64_t element, Buffers& buffers, Ledger& ledger);

  // whole: [ranks * n]; this rank's part of it holds its new values.
  void complete(const at::Tensor& whole);

  const TrafficCounters& traffic() const { return traffic_; }

 private:
  void broadcast_parts(const at::Tensor& whole, int64_t part);
  void gather_piece(const at::Tensor& parts);
  void count(int64_t received_bytes);

  WeightGatherOptions options_;
  Communicator& link_;
  int ranks_;
  int64_t part_;    // elements of one rank in a piece
  Buffer staging_;  // bytes of a piece, where pages are larger
  TrafficCounters traffic_;
};

}  // namespace zero
