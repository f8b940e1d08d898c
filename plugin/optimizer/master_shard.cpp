// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/master_shard.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/where.h>

#include <algorithm>
#ifdef LIBZERO_CUDA
#include <c10/cuda/CUDAStream.h>

#include "plugin/optimizer/kernels/update_cuda.h"
#endif

namespace zero {

namespace {

constexpr int kHalfBits = 16;

std::vector<MasterRange> ranges_in(const PageLayout& layout, ShardPlace shard) {
  std::vector<MasterRange> ranges;
  const int64_t begin = shard.index * layout.shard_numel;
  const int64_t end = begin + layout.shard_numel;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const auto& slice = layout.parameters[i];
    if (slice.parameter.optimizer < 0) continue;
    const int64_t from = std::clamp(slice.offset, begin, end);
    const int64_t to = std::clamp(slice.offset + slice.numel, begin, end);
    ranges.push_back({i, from - begin, to - from});
  }
  return ranges;
}

at::Tensor part(const at::Tensor& shard, const MasterRange& range) {
  return shard.defined() ? shard.narrow(0, range.begin, range.length) : at::Tensor();
}

// The bits of bf16 values as the high halves of 32-bit words.
at::Tensor high_bits(const at::Tensor& high) {
  return high.view(at::kShort).to(at::kInt).bitwise_left_shift(kHalfBits);
}

// fp32 values whose rounding to bf16 is `high` and whose remainder is `low`; see split_master.h.
at::Tensor join(const at::Tensor& high, const at::Tensor& low) {
  return (high_bits(high) + low).view(at::kFloat);
}

}  // namespace

MasterShard::MasterShard(ParameterPage& page, ShardPlace shard, Place home, Place place,
                         Buffers& buffers, Ledger& ledger)
    : page_(page),
      buffers_(buffers),
      ledger_(ledger),
      place_(place),
      first_(shard.index * page.layout().shard_numel),
      is_home_(home == place),
      device_(buffers.device_of(place)),
      ranges_(ranges_in(page.layout(), shard)),
      nothing_(at::empty({0}, at::TensorOptions().dtype(at::kFloat).device(device_))),
      published_(buffers.device()) {
  const auto dtype = page.layout().dtype;
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
              "LibZeRO: ", page.layout().storages.front().what, " would be updated in ", dtype,
              ", for which there is no kernel. Convert the parameter to fp32, or take "
              "it out of the optimizer.");
  if (!is_home_) own_ = allocate(MemoryClass::kMaster, dtype);
  const at::Tensor weights = is_home_ ? page.home() : own_.tensor;
  if (dtype == at::kBFloat16) {
    high_ = weights;
    low_ = allocate(MemoryClass::kMaster, at::kShort);
  } else if (dtype == at::kHalf) {
    rounded_ = weights;
    full_ = allocate(MemoryClass::kMaster, at::kFloat);
    master_ = full_.tensor;
  } else {
    master_ = weights;
  }
  if (device_.is_cuda())
    scale_ = buffers.allocate(MemoryClass::kStaging, Place::kDevice, 1, at::kFloat);
}

Buffer MasterShard::allocate(MemoryClass memory_class, at::ScalarType dtype) {
  const int64_t numel = page_.layout().shard_numel;
  ledger_.predict(memory_class, place_, numel * static_cast<int64_t>(c10::elementSize(dtype)));
  return buffers_.allocate(memory_class, place_, numel, dtype);
}

void MasterShard::initialize(const at::Tensor& exact_shard) {
  if (!is_home_) compute_weights().copy_(page_.home());
  if (rounded()) master_.copy_(exact_shard);
  if (!split()) return;
  // LibTorch rounds ties to even, the split form away from zero; a remainder of exactly half is one
  // unit too large for 16 bits where LibTorch rounded down.
  const at::Tensor exact = exact_shard.to(device_);
  low_.tensor.copy_((exact.view(at::kInt) - high_bits(high_)).clamp(INT16_MIN, INT16_MAX));
}

void MasterShard::follow(const at::Tensor& new_shard) {
  const at::Tensor incoming = new_shard.to(device_);
  if (split()) {
    const at::Tensor same = high_.view(at::kShort) == incoming.view(at::kShort);
    low_.tensor.mul_(same);
  }
  if (rounded()) {
    const at::Tensor same = rounded_.view(at::kShort) == incoming.view(at::kShort);
    at::where_out(master_, same, master_, incoming.to(at::kFloat));
  }
  compute_weights().copy_(incoming);
}

void MasterShard::follow_range(const MasterRange& range) {
  if (!is_home_) part(compute_weights(), range).copy_(part(page_.home(), range));
  if (split()) part(low_.tensor, range).zero_();
  if (rounded()) part(master_, range).copy_(part(rounded_, range));
}

namespace {

at::Tensor fingerprint(const at::Tensor& home) { return home.view(at::kInt).sum(at::kLong); }

}  // namespace

void MasterShard::note_home() {
  if (split() || rounded() || !is_home_)
    noted_ = fingerprint(page_.home());  // else home and master are one
}

void MasterShard::follow_unseen_writes() {
  if (!noted_.defined()) return;
  const at::Tensor same = fingerprint(page_.home()) == noted_;
  if (is_home_ && split()) {
    low_.tensor.mul_(same);
  } else if (is_home_) {
    at::where_out(master_, same, master_, rounded_.to(at::kFloat));
  } else if (!same.item<bool>()) {
    for (const auto& range : ranges_) follow_range(range);
  }
}

void MasterShard::publish() {
  if (rounded()) {
    published_.synchronize();
    rounded_.copy_(master_);
  }
  if (!is_home_) {
    at::Tensor(page_.home()).copy_(compute_weights(), /*non_blocking=*/true);
    published_.record();
  }
  page_.home_changed();
}

at::Tensor MasterShard::read(const MasterRange& range) const {
  if (!split()) return part(master_, range);
  return join(part(high_, range), part(low_.tensor, range));
}

void MasterShard::write(const MasterRange& range, const at::Tensor& values) {
  if (!split()) return;  // read() gave the master itself
  const at::Tensor bits = values.contiguous().view(at::kInt);
  const at::Tensor rounded = (bits + (1 << (kHalfBits - 1))).bitwise_right_shift(kHalfBits);
  part(high_, range).view(at::kShort).copy_(rounded);
  part(low_.tensor, range).copy_(bits);
}

void MasterShard::require(const Moments<bool>& needs) {
  for (size_t i = 0; i < needs.size(); ++i) {
    if (needs[i] && !has(i)) moments_[i] = allocate(MemoryClass::kMoments, at::kFloat);
  }
}

MasterShard::Geometry MasterShard::geometry(const MasterRange& range) const {
  const auto& slice = page_.layout().parameters[range.parameter];
  if (page_.layout().shard_numel == page_.layout().numel) return {slice.sizes, slice.strides};
  return {{range.length}, {1}};
}

at::Tensor MasterShard::moment_of(const MasterRange& range, size_t moment) const {
  if (range.length == 0) return nothing_;
  const at::Tensor own = part(this->moment(moment), range);
  const Geometry geometry = this->geometry(range);
  return at::from_blob(
      own.data_ptr(), geometry.sizes, geometry.strides, [own](void*) {}, own.options());
}

bool MasterShard::is_moment_of(const at::Tensor& tensor, const MasterRange& range,
                               size_t moment) const {
  if (tensor.numel() != range.length || tensor.device() != device_) return false;
  if (range.length == 0) return tensor.is_same(nothing_);
  return tensor.const_data_ptr() == this->moment(moment).const_data_ptr<float>() + range.begin;
}

kernels::Buffers MasterShard::kernel_buffers(const at::Tensor& gradient) const {
  const auto floats = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
  };
  kernels::Buffers buffers;
  buffers.master = floats(master_);
  if (split()) {
    buffers.high = static_cast<uint16_t*>(high_.data_ptr());
    buffers.low = low_.tensor.data_ptr<int16_t>();
  }
  buffers.gradient = gradient.const_data_ptr<float>();
  buffers.moment1 = floats(moment(0));
  buffers.moment2 = floats(moment(1));
  buffers.moment3 = floats(moment(2));
  return buffers;
}

void MasterShard::update(kernels::Isa isa, kernels::ThreadPool& pool, const at::Tensor& gradient,
                         const std::vector<std::vector<kernels::Segment>>& calls, float scale) {
  published_.synchronize();  // the last copy to the home may still read the compute weights
  const at::Tensor local = gradient.to(device_);
  if (device_.is_cpu()) {
    for (const auto& segments : calls)
      kernels::update_cpu(isa, pool, kernel_buffers(local), segments, scale);
    return;
  }
#ifdef LIBZERO_CUDA
  scale_.tensor.fill_(scale);
  for (const auto& segments : calls) {
    kernels::update_cuda(kernel_buffers(local), segments, scale_.tensor.const_data_ptr<float>(),
                         c10::cuda::getCurrentCUDAStream(device_.index()).stream());
  }
#endif
}

}  // namespace zero
