// SPDX-License-Identifier: Apache-2.0
// What the user's optimizer sees after setup: for each parameter of its groups, this rank's range
// of the fp32 master, and as its `.grad()` the same range of the reduced gradient. Both are tagged,
// so a plain optimizer.step() works on them: split masters are joined for the time of an operator
// and split again after it, and a write marks the compute weights as stale.
#pragma once

#include <functional>
#include <memory>

#include "plugin/gradients/gradients.h"
#include "plugin/optimizer/master_shard.h"

namespace zero {

// The master of one parameter on this rank, fp32. In the parameter's sizes where this rank holds all
// of it; [length] where ranks share it, length 0 where it lies on other ranks, so that every rank's
// optimizer holds as many parameters as the user gave it.
class MasterView final : public Page {
 public:
  struct Hooks {
    std::function<void(Access)> before_use;  // an operator is about to read or write the master
    std::function<void()> before_write;      // all that it needs is there, and it will write
    std::function<void()> on_written;        // it has written
  };
  MasterView(MasterShard& shard, MasterRange range, const std::string& name, Hooks hooks);

  void pin(Access access) override;
  void unpin() noexcept override;
  void check_reduction(const std::string& op) const override;
  void announce_write() override { hooks_.before_write(); }

  const at::Tensor& tensor() const { return tensor_; }
  const MasterRange& range() const { return range_; }

 private:
  MasterShard& shard_;
  MasterRange range_;
  Hooks hooks_;
  PagedStorage storage_;
  at::Tensor tensor_;
  at::Tensor values_;  // while pinned
  int pins_ = 0;
  bool written_ = false;
};

// The reduced gradient of the same range, where the master lies.
class MasterGradient final : public Page {
 public:
  MasterGradient(Gradients& gradients, const GradientPage& page, const MasterShard& shard,
                 MasterRange range, const std::string& name);

  void pin(Access access) override;
  void unpin() noexcept override;
  void check_reduction(const std::string& op) const override;

  const at::Tensor& tensor() const { return tensor_; }

 private:
  at::Tensor reduced() const;

  Gradients& gradients_;
  const GradientPage& page_;
  const MasterShard& shard_;
  MasterRange range_;
  at::Device device_;
  PagedStorage storage_;
  at::Tensor tensor_;
  at::Tensor values_;  // while pinned
  int pins_ = 0;
  bool written_ = false;
};

}  // namespace zero
