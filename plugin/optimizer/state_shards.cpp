// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/state_shards.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace zero {

void check_whole(const Moments<at::Tensor*>& moments, const NamedParameter& parameter) {
  for (const at::Tensor* moment : moments) {
    if (moment == nullptr || !moment->defined()) continue;
    TORCH_CHECK(moment->sizes() == parameter.tensor.sizes(), "LibZeRO: the optimizer's state for '",
                parameter.name, "' has sizes ", moment->sizes(), " for a parameter of ",
                parameter.tensor.sizes(),
                ". Clear the optimizer's state, or load the one that belongs to this model.");
  }
}

at::Tensor shard_of(const at::Tensor& whole, const MasterShard& shard, const MasterRange& range) {
  const auto& slice = shard.page().layout().parameters[range.parameter];
  const at::Tensor flat = at::empty({slice.numel}, at::TensorOptions().dtype(at::kFloat));
  flat.as_strided(slice.sizes, slice.strides, 0).copy_(whole);
  const int64_t skipped = std::clamp<int64_t>(shard.first() - slice.offset, 0, slice.numel);
  const auto geometry = shard.geometry(range);
  return flat.narrow(0, skipped, range.length)
      .to(shard.device())
      .as_strided(geometry.sizes, geometry.strides);
}

void check_fits(const at::Tensor& held, const MasterShard::Geometry& geometry) {
  TORCH_CHECK(held.sizes() == at::IntArrayRef(geometry.sizes),
              "LibZeRO: the optimizer's state has sizes ", held.sizes(),
              " where this rank's master has ", at::IntArrayRef(geometry.sizes),
              ". A state is loaded on the rank and with the stage and number of ranks it was saved "
              "with.");
}

void move_into(const MasterShard& shard, const MasterRange& range, size_t moment, at::Tensor& held,
               double initial) {
  if (held.defined() && shard.is_moment_of(held, range, moment)) return;
  const at::Tensor own = shard.moment_of(range, moment);
  if (held.defined()) {
    check_fits(held, shard.geometry(range));
    own.copy_(held);
  } else {
    own.fill_(initial);
  }
  held = own;
}

at::Tensor whole_moment(const MasterShard& shard, size_t moment, Communicator& gather) {
  const auto& layout = shard.page().layout();
  const at::Tensor own = shard.moment(moment).to(gather.device());
  if (layout.shard_numel == layout.numel) return own;
  const at::Tensor whole = at::empty({layout.numel}, own.options());
  gather.all_gather(whole, own);
  return whole;
}

at::Tensor part_of(const at::Tensor& whole, const PageLayout& layout, size_t parameter) {
  const auto& slice = layout.parameters[parameter];
  return whole.as_strided(slice.sizes, slice.strides, slice.offset).clone();
}

}  // namespace zero
