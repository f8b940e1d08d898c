// SPDX-License-Identifier: Apache-2.0
// Optimizer state between its two forms: whole tensors in a parameter's shape, as LibTorch's
// optimizers keep them, and this rank's part of a page's moments.
#pragma once

#include "plugin/optimizer/master_shard.h"
#include "plugin/partition/communicator.h"

namespace zero {

// Throws unless each moment that is there has the parameter's sizes.
void check_whole(const Moments<at::Tensor*>& moments, const NamedParameter& parameter);

// The part of a whole moment that belongs to this rank's master, in the master's place.
at::Tensor shard_of(const at::Tensor& whole, const MasterShard& shard, const MasterRange& range);

// Throws unless a moment has the sizes of this rank's part: a state was loaded that belongs
// elsewhere.
void check_fits(const at::Tensor& held, const MasterShard::Geometry& geometry);

// `held` becomes this rank's part of a moment, which takes its values; an undefined one starts from
// `initial`.
void move_into(const MasterShard& shard, const MasterRange& range, size_t moment, at::Tensor& held,
               double initial);

// A moment of the whole page, fp32 [numel], on `gather`'s device. Collective where ranks share it.
at::Tensor whole_moment(const MasterShard& shard, size_t moment, Communicator& gather);
// A copy of one parameter's part of it, in the parameter's shape.
at::Tensor part_of(const at::Tensor& whole, const PageLayout& layout, size_t parameter);

}  // namespace zero
