// SPDX-License-Identifier: Apache-2.0
// The learning-rate schedules that DeepSpeed users know, as torch::optim::LRSchedulers: the same
// names, parameters, defaults and numbers.
//
//   zero::WarmupDecayLR scheduler(optimizer, zero::WarmupDecayOptions(/*total_num_steps=*/10000)
//                                                .warmup_max_lr(3e-4).warmup_num_steps(500));
//   strategy.step();
//   scheduler.step();  // once an optimizer step; not after a step that was skipped
//
// Making one sets the rate of the first optimizer step: the schedule's minimum. After the n-th
// step() the rate is that of iteration n - 1. Where a schedule starts from the optimizer's own
// rates, each parameter group has its own. torch::save and torch::load carry the place in the
// schedule and those rates, so that a run that was stopped goes on with the rates of one that was
// not, whatever rates its new optimizer came with.
//
// The optimizer must outlive its scheduler. Values that cannot be right are c10::Errors.
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero {

class Scheduler : public torch::optim::LRScheduler {
 public:
  virtual const char* name() const = 0;
  // The rates in force, one a parameter group.
  std::vector<double> rates() const { return get_current_lrs(); }
  // How often step() was called.
  int64_t steps() const { return step_count_; }
  // To where `steps` calls of step() lead from the beginning.
  void go_to(int64_t steps);

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 protected:
  explicit Scheduler(torch::optim::Optimizer& optimizer);
  // Iteration -1 is before the first step().
  virtual double rate(int64_t iteration, size_t group) const = 0;
  // What else follows the schedule.
  virtual void set_others(int64_t /*iteration*/) {}

  torch::optim::Optimizer& optimizer() const { return optimizer_; }
  // The optimizer's rates as they were when the schedule began.
  const std::vector<double>& own_rates() const { return own_rates_; }
  // The last thing that a constructor does.
  void begin() { apply(-1); }

 private:
  std::vector<double> get_lrs() final;
  void apply(int64_t iteration);

  torch::optim::Optimizer& optimizer_;
  std::vector<double> own_rates_;
};

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const Scheduler& scheduler);
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           Scheduler& scheduler);

enum class WarmupType : uint8_t { kLog, kLinear };

struct WarmupOptions {
  TORCH_ARG(double, warmup_min_lr) = 0.0;
  TORCH_ARG(std::optional<double>, warmup_max_lr);  // none: the optimizer's own rates
  TORCH_ARG(int64_t, warmup_num_steps) = 1000;      // 1 counts as 2
  TORCH_ARG(WarmupType, warmup_type) = WarmupType::kLog;
};

struct WarmupDecayOptions {
  explicit WarmupDecayOptions(int64_t total_num_steps) : total_num_steps_(total_num_steps) {}
  TORCH_ARG(int64_t, total_num_steps);
  TORCH_ARG(double, warmup_min_lr) = 0.0;
  TORCH_ARG(std::optional<double>, warmup_max_lr);  // none: the optimizer's own rates
  TORCH_ARG(int64_t, warmup_num_steps) = 1000;
  TORCH_ARG(WarmupType, warmup_type) = WarmupType::kLog;
};

// Of the optimizer's own rates.
struct WarmupCosineOptions {
  explicit WarmupCosineOptions(int64_t total_num_steps) : total_num_steps_(total_num_steps) {}
  TORCH_ARG(int64_t, total_num_steps);
  TORCH_ARG(double, warmup_min_ratio) = 0.0;
  TORCH_ARG(int64_t, warmup_num_steps) = 1000;
  TORCH_ARG(double, cos_min_ratio) = 1e-4;
  TORCH_ARG(WarmupType, warmup_type) = WarmupType::kLog;
};

// Up for cycle_first_step_size iterations, down for cycle_second_step_size, then the minimum, which
// falls further with decay_lr_rate every decay_step_size iterations.
struct OneCycleOptions {
  OneCycleOptions(double cycle_min_lr, double cycle_max_lr)
      : cycle_min_lr_(cycle_min_lr), cycle_max_lr_(cycle_max_lr) {}
  TORCH_ARG(double, cycle_min_lr);
  TORCH_ARG(double, cycle_max_lr);
  TORCH_ARG(double, decay_lr_rate) = 0.0;
  TORCH_ARG(int64_t, cycle_first_step_size) = 2000;
  TORCH_ARG(std::optional<int64_t>, cycle_second_step_size);    // none: as the first
  TORCH_ARG(int64_t, cycle_first_stair_count) = 0;              // 0: no stairs
  TORCH_ARG(std::optional<int64_t>, cycle_second_stair_count);  // none: as the first
  TORCH_ARG(int64_t, decay_step_size) = 0;                      // 0: no decay
  // The first beta runs against the rate, from cycle_max_mom down and up again; the second is 0.99.
  // Before the first step() it is cycle_min_mom. None: where the optimizer has betas, with a
  // warning where it has none.
  TORCH_ARG(std::optional<bool>, cycle_momentum);
  TORCH_ARG(double, cycle_min_mom) = 0.8;
  TORCH_ARG(double, cycle_max_mom) = 0.9;
  TORCH_ARG(double, decay_mom_rate) = 0.0;
};

// The rate grows without end, to find the one at which training diverges.
struct LRRangeTestOptions {
  TORCH_ARG(double, lr_range_test_min_lr) = 1e-3;
  TORCH_ARG(int64_t, lr_range_test_step_size) = 2000;
  TORCH_ARG(double, lr_range_test_step_rate) = 1.0;
  TORCH_ARG(bool, lr_range_test_staircase) = false;
};

class WarmupLR final : public Scheduler {
 public:
  explicit WarmupLR(torch::optim::Optimizer& optimizer, const WarmupOptions& options = {});
  const char* name() const override { return "WarmupLR"; }

 private:
  double rate(int64_t iteration, size_t group) const override;
  WarmupOptions options_;
};

class WarmupDecayLR final : public Scheduler {
 public:
  WarmupDecayLR(torch::optim::Optimizer& optimizer, const WarmupDecayOptions& options);
  const char* name() const override { return "WarmupDecayLR"; }

 private:
  double rate(int64_t iteration, size_t group) const override;
  WarmupDecayOptions options_;
};

class WarmupCosineLR final : public Scheduler {
 public:
  WarmupCosineLR(torch::optim::Optimizer& optimizer, const WarmupCosineOptions& options);
  const char* name() const override { return "WarmupCosineLR"; }

 private:
  double rate(int64_t iteration, size_t group) const override;
  WarmupCosineOptions options_;
};

class OneCycle final : public Scheduler {
 public:
  OneCycle(torch::optim::Optimizer& optimizer, const OneCycleOptions& options);
  const char* name() const override { return "OneCycle"; }

 private:
  double rate(int64_t iteration, size_t group) const override;
  void set_others(int64_t iteration) override;
  double height(int64_t iteration) const;  // 0 at the ends of the cycle, 1 at its top
  int64_t cycle_size() const;
  int64_t second_size() const;
  OneCycleOptions options_;
  bool cycles_momentum_ = false;
};

class LRRangeTest final : public Scheduler {
 public:
  explicit LRRangeTest(torch::optim::Optimizer& optimizer, const LRRangeTestOptions& options = {});
  const char* name() const override { return "LRRangeTest"; }

 private:
  double rate(int64_t iteration, size_t group) const override;
  LRRangeTestOptions options_;
};

}  // namespace zero
