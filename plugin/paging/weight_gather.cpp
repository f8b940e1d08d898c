// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/weight_gather.h"

#include <algorithm>

namespace zero {

WeightGather::WeightGather(const WeightGatherOptions& options, Communicator& link, int64_t largest,
                           int64_t element, Buffers& buffers, Ledger& ledger)
    : options_(options),
      link_(link),
      ranks_(link.world_size()),
      part_(std::max<int64_t>(options.piece / ranks_, 1)) {
  if (ranks_ == 1 || options_.broadcasts || largest / ranks_ <= part_) return;
  const int64_t bytes = part_ * ranks_ * element;
  ledger.predict(MemoryClass::kStaging, Place::kDevice, bytes);
  staging_ = buffers.allocate(MemoryClass::kStaging, Place::kDevice, bytes, at::kByte);
}

void WeightGather::complete(const at::Tensor& whole) {
  if (ranks_ == 1) return;
  const int64_t part = whole.numel() / ranks_;
  if (options_.broadcasts) return broadcast_parts(whole, part);
  if (part <= part_) {
    link_.all_gather(whole, whole.narrow(0, link_.rank() * part, part));
    count(whole.nbytes() / ranks_ * (ranks_ - 1));
    return;
  }
  for (int64_t begin = 0; begin < part; begin += part_) {
    gather_piece(whole.view({ranks_, part}).narrow(1, begin, std::min(part_, part - begin)));
  }
}

void WeightGather::broadcast_parts(const at::Tensor& whole, int64_t part) {
  const int64_t longest = part_ * ranks_;
  for (int64_t begin = 0; begin < whole.numel();) {
    const int64_t root = begin / part;
    const int64_t length = std::min(longest, (root + 1) * part - begin);
    const at::Tensor piece = whole.narrow(0, begin, length);
    link_.broadcast(piece, static_cast<int>(root));
    count(root == link_.rank() ? 0 : piece.nbytes());
    begin += length;
  }
}

// parts: [ranks, n], rows apart from each other.
void WeightGather::gather_piece(const at::Tensor& parts) {
  const at::Tensor staged =
      staging_.tensor.narrow(0, 0, parts.numel() * parts.element_size()).view(parts.scalar_type());
  at::Tensor rows = staged.view(parts.sizes());
  at::Tensor mine = rows[link_.rank()];
  mine.copy_(parts[link_.rank()]);
  link_.all_gather(staged, mine);
  at::Tensor(parts).copy_(rows);
  count(staged.nbytes() / ranks_ * (ranks_ - 1));
}

void WeightGather::count(int64_t received_bytes) {
  ++traffic_.weight_gathers;
  traffic_.gathered_bytes += received_bytes;
}

}  // namespace zero
