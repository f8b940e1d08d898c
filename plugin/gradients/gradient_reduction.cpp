// SPDX-License-Identifier: Apache-2.0
#include "plugin/gradients/gradient_reduction.h"

#include <algorithm>

namespace zero {

namespace {

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

}  // namespace

GradientReduction::GradientReduction(const ReductionOptions& options, Communicator& link)
    : options_(options),
      link_(link),
      ranks_(link.world_size()),
      before_(options.prescale ? 1.0 / ranks_ : 1.0 / options.predivide),
      after_(options.prescale ? 1.0 : options.predivide / ranks_) {}

void GradientReduction::cover(int64_t largest, Buffers& buffers, Ledger& ledger) {
  // Never more than the largest page has.
  part_ = std::max<int64_t>(std::min(options_.piece / ranks_, divided_up(largest, ranks_)), 1);
  if (ranks_ == 1 || largest == 0) return;
  const auto allocate = [&](int64_t numel, at::ScalarType dtype) {
    ledger.predict(MemoryClass::kStaging, Place::kDevice,
                   numel * static_cast<int64_t>(c10::elementSize(dtype)));
    return buffers.allocate(MemoryClass::kStaging, Place::kDevice, numel, dtype);
  };
  const bool in_pieces = options_.scatter && part_ * ranks_ < largest;
  if (narrow() || in_pieces) outgoing_ = allocate(part_ * ranks_, options_.wire);
  if (!narrow()) return;
  incoming_ = allocate(part_ * ranks_, options_.wire);
  sums_ = allocate(part_, at::kFloat);
}

void GradientReduction::mean_of_part(const at::Tensor& whole, const at::Tensor& own) {
  if (ranks_ == 1) return;
  if (!options_.scatter) return mean(whole);
  if (before_ != 1.0) at::Tensor(whole).mul_(before_);
  const int64_t numel = own.numel();
  if (!narrow() && numel <= part_) {
    link_.reduce_scatter(own, whole);
    count(own.nbytes() * (ranks_ - 1));
  } else {
    for (int64_t begin = 0; begin < numel; begin += part_) {
      const int64_t length = std::min(part_, numel - begin);
      sum_of_parts(whole.view({ranks_, numel}).narrow(1, begin, length),
                   own.narrow(0, begin, length));
    }
  }
  if (after_ != 1.0) at::Tensor(own).mul_(after_);
}

void GradientReduction::sum_of_parts(const at::Tensor& parts, const at::Tensor& sums) {
  const at::Tensor outgoing = outgoing_.tensor.narrow(0, 0, parts.numel());
  outgoing.view(parts.sizes()).copy_(parts);
  if (narrow()) return sum_over_wire(outgoing, sums);
  link_.reduce_scatter(sums, outgoing);
  count(sums.nbytes() * (ranks_ - 1));
}

// A collective that sums would sum in the wire's type.
void GradientReduction::sum_over_wire(const at::Tensor& outgoing, const at::Tensor& sums) {
  const at::Tensor incoming = incoming_.tensor.narrow(0, 0, outgoing.numel());
  link_.all_to_all(incoming, outgoing);
  count(outgoing.nbytes() / ranks_ * (ranks_ - 1));
  const at::Tensor parts = incoming.view({ranks_, sums.numel()});
  at::Tensor(sums).copy_(parts[0]);
  for (int rank = 1; rank < ranks_; ++rank) at::Tensor(sums).add_(parts[rank]);
}

void GradientReduction::mean(const at::Tensor& whole) {
  if (ranks_ == 1) return;
  if (before_ != 1.0) at::Tensor(whole).mul_(before_);
  for (int64_t begin = 0; begin < whole.numel(); begin += part_ * ranks_) {
    const at::Tensor piece =
        whole.narrow(0, begin, std::min(part_ * ranks_, whole.numel() - begin));
    if (narrow()) {
      mean_over_wire(piece);
    } else {
      link_.all_reduce(piece);
      count(2 * piece.nbytes() / ranks_ * (ranks_ - 1));
    }
  }
  if (!narrow() && after_ != 1.0) at::Tensor(whole).mul_(after_);
}

// Each rank takes the mean of a part and sends it to all, also to itself, in the wire's type.
void GradientReduction::mean_over_wire(const at::Tensor& values) {
  const int64_t part = divided_up(values.numel(), ranks_);
  at::Tensor outgoing = outgoing_.tensor.narrow(0, 0, part * ranks_);
  outgoing.narrow(0, 0, values.numel()).copy_(values);
  outgoing.narrow(0, values.numel(), outgoing.numel() - values.numel()).zero_();
  at::Tensor sums = sums_.tensor.narrow(0, 0, part);
  sum_over_wire(outgoing, sums);
  if (after_ != 1.0) sums.mul_(after_);
  const at::Tensor mine = outgoing.narrow(0, 0, part).copy_(sums);
  const at::Tensor incoming = incoming_.tensor.narrow(0, 0, part * ranks_);
  link_.all_gather(incoming, mine);
  count(mine.nbytes() * (ranks_ - 1));
  at::Tensor(values).copy_(incoming.narrow(0, 0, values.numel()));
}

void GradientReduction::count(int64_t received_bytes) {
  ++traffic_.reductions;
  traffic_.reduced_bytes += received_bytes;
}

}  // namespace zero
