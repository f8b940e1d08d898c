// SPDX-License-Identifier: Apache-2.0
// The fp32 truth of one page's shard, and its optimizer state.
//
// For fp32 parameters the master is the parameter home itself when both lie in the same place, else
// a copy. For bf16 parameters it is split (see kernels/split_master.h): the high halves are the
// parameter home, or a copy in the master's place, and the low halves complete them. For fp16
// parameters, whose exponent is too narrow for that, the master is a whole fp32 copy, which is
// rounded into the parameter home as LibTorch rounds. Masters and state lie on the device, or in
// host memory when the optimizer is offloaded.
#pragma once

#include <vector>

#include "plugin/memory/buffers.h"
#include "plugin/optimizer/kernels/update.h"
#include "plugin/optimizer/update_rules.h"
#include "plugin/paging/parameter_pages.h"

namespace zero {

// Where one parameter lies in this rank's shard.
struct MasterRange {
  size_t parameter = 0;  // index into PageLayout::parameters
  int64_t begin = 0;     // elements from the beginning of the shard
  int64_t length = 0;    // 0: the parameter lies on other ranks
};

class MasterShard {
 public:
  // Books masters, no moments.
  MasterShard(ParameterPage& page, ShardPlace shard, Place home, Place place, Buffers& buffers,
              Ledger& ledger);

  ParameterPage& page() const { return page_; }
  const std::vector<MasterRange>& ranges() const { return ranges_; }
  at::Device device() const { return device_; }
  // What is written into the master is in the page's home at once.
  bool writes_home() const { return is_home_ && !rounded(); }
  // The page is not shared between ranks.
  bool is_whole() const { return page_.layout().numel == page_.layout().shard_numel; }
  // Where it begins in its page, elements.
  int64_t first() const { return first_; }

  // Starts from the parameters' values in their original precision.
  void initialize(const at::Tensor& exact_shard);
  // The user wrote new compute weights: the master follows. Where the rounded value is unchanged
  // the master keeps its exact one.
  void follow(const at::Tensor& new_shard);
  // The same where it is not known any more what was changed: masters of this range become the
  // compute weights.
  void follow_range(const MasterRange& range);
  // Writes past the dispatcher's sight (raw pointers, `.data()`) into a home that stays: notes its
  // contents, and follows in all ranges when they are no longer what was noted. Without a wait of
  // the host where the masters are on the device.
  void note_home();
  void follow_unseen_writes();
  // Carries the master's values into the home, if they are two.
  void publish();

  // One range as fp32: a view for fp32 parameters, a new tensor for split masters.
  at::Tensor read(const MasterRange& range) const;
  // Writes back what read() returned and the caller has changed.
  void write(const MasterRange& range, const at::Tensor& values);

  // Books the moments that are needed and not here yet; they begin at zero.
  void require(const Moments<bool>& needs);
  bool has(size_t moment) const { return moments_[moment].tensor.defined(); }
  // All of a moment, fp32 [shard].
  const at::Tensor& moment(size_t moment) const { return moments_[moment].tensor; }
  // One parameter's part of a moment, as the optimizer sees the parameter. Its storage is that part
  // alone, because LibTorch saves a tensor with all of its storage.
  at::Tensor moment_of(const MasterRange& range, size_t moment) const;
  // Whether `tensor` is that part. The same on all ranks, also where the part is empty: ranks decide
  // by it whether they meet.
  bool is_moment_of(const at::Tensor& tensor, const MasterRange& range, size_t moment) const;

  // How the optimizer sees this parameter: in its own sizes and strides where this rank has all of
  // it, flat where ranks share it.
  struct Geometry {
    std::vector<int64_t> sizes, strides;
  };
  Geometry geometry(const MasterRange& range) const;
  // Updates the segments with gradient * scale, one call of the kernel after the other. Work on the
  // device is enqueued on the current stream.
  void update(kernels::Isa isa, kernels::ThreadPool& pool, const at::Tensor& gradient,
              const std::vector<std::vector<kernels::Segment>>& calls, float scale);

 private:
  Buffer allocate(MemoryClass memory_class, at::ScalarType dtype);
  bool split() const { return low_.tensor.defined(); }
  bool rounded() const { return rounded_.defined(); }
  // The compute weights in the master's place; the master itself when it is one with them.
  at::Tensor compute_weights() const { return split() ? high_ : rounded() ? rounded_ : master_; }
  kernels::Buffers kernel_buffers(const at::Tensor& gradient) const;

  ParameterPage& page_;
  Buffers& buffers_;
  Ledger& ledger_;
  Place place_;
  int64_t first_;
  bool is_home_;  // the compute weights of the master are the page's home
  at::Device device_;
  std::vector<MasterRange> ranges_;
  Buffer own_;               // compute weights, when the home lies elsewhere
  Buffer full_;              // of master_, when it is not the compute weights
  at::Tensor master_;        // fp32 [shard]
  at::Tensor rounded_;       // fp16 [shard]
  at::Tensor high_;          // bf16 [shard]
  Buffer low_;               // int16 [shard]
  Moments<Buffer> moments_;  // fp32 [shard]
  Buffer scale_;             // one float on the device
  at::Tensor nothing_;       // every empty part of a moment
  at::Tensor noted_;         // sum over the bits of the home, int64, on the device
  Event published_;
};

}  // namespace zero
