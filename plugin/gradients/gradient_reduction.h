// SPDX-License-Identifier: Apache-2.0
// The mean of a page's gradients over all ranks: in which pieces, in which type on the wire, by
// which collective, and what is divided before and after it. Whatever the type on the wire, sums are
// taken in fp32, and on the CPU in rank order, so that the size of the pieces does not change a bit.
// Works on the current stream. Not thread-safe; its owner locks.
#pragma once

#include "plugin/memory/buffers.h"
#include "plugin/partition/communicator.h"
#include "zero/engine_config.h"

namespace zero {

struct ReductionOptions {
  int64_t piece = kNoLimit;          // elements of a collective; at least one a rank
  at::ScalarType wire = at::kFloat;  // fp32, bf16 or fp16
  bool scatter = true;     // reduce-scatter; false: all-reduce, also where a part is enough
  bool prescale = false;   // divide by the number of ranks before
  double predivide = 1.0;  // else by this before, and by the rest after
};

class GradientReduction {
 public:
  GradientReduction(const ReductionOptions& options, Communicator& link);
  // Pages have at most `largest` elements from now on. No reduction may be running.
  void cover(int64_t largest, Buffers& buffers, Ledger& ledger);

  // The mean of this rank's part of `whole`, fp32 [ranks * n]; `own` is that part. What stands in
  // the other parts has no meaning afterwards.
  void mean_of_part(const at::Tensor& whole, const at::Tensor& own);
  // The mean of all of it, fp32, in place, with the same bits on every rank.
  void mean(const at::Tensor& whole);

  const TrafficCounters& traffic() const { return traffic_; }

 private:
  bool narrow() const { return options_.wire != at::kFloat; }
  // parts: [ranks, n] of this rank, in any layout; sums: [n], fp32.
  void sum_of_parts(const at::Tensor& parts, const at::Tensor& sums);
  void sum_over_wire(const at::Tensor& outgoing, const at::Tensor& sums);
  void mean_over_wire(const at::Tensor& values);
  void count(int64_t received_bytes);

  ReductionOptions options_;
  Communicator& link_;
  int ranks_;
  double before_;  // factors
  double after_;
  int64_t part_ = 1;  // elements of one rank in a piece
  Buffer outgoing_;   // [ranks * part], in the wire's type
  Buffer incoming_;   // the same, where the wire is narrower than fp32
  Buffer sums_;       // [part] fp32, likewise
  TrafficCounters traffic_;
};

}  // namespace zero
