// SPDX-License-Identifier: Apache-2.0
// RunConfig: all that a configuration says, in groups by who acts on it. The engine sees
// EngineConfig alone; the other groups belong to what is built around it. Settings know their
// source and their readers, see engine_config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/engine_config.h"

namespace zero {

// The `optimizer` section. What is not given has the default of the optimizer that `type` names,
// not the one that stands here; so read given().
struct OptimizerSettings {
  Setting<std::string> type{""};  // AdamW, Adam, SGD, Adagrad, RMSprop, Lion; empty: made in code
  Setting<double> lr{1e-3};
  Setting<std::vector<double>> betas{{0.9, 0.999}};
  Setting<double> eps{1e-8};
  Setting<double> weight_decay{0.0};
  Setting<double> momentum{0.0};
  Setting<double> dampening{0.0};
  Setting<bool> nesterov{false};
  Setting<bool> amsgrad{false};
  Setting<bool> adam_w_mode{true};  // Adam: decay is decoupled, as in AdamW
  Setting<double> alpha{0.99};
  Setting<bool> centered{false};
  Setting<double> lr_decay{0.0};
  Setting<double> initial_accumulator_value{0.0};
};

// The `scheduler` section. Steps are optimizer steps.
struct SchedulerSettings {
  // WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest; empty: none
  Setting<std::string> type{""};
  Setting<double> warmup_min_lr{0.0};
  Setting<double> warmup_max_lr{1e-3};
  Setting<int64_t> warmup_num_steps{1000};
  Setting<std::string> warmup_type{"log"};  // log, linear
  Setting<int64_t> total_num_steps{0};
  Setting<double> warmup_min_ratio{0.0};
  Setting<double> cos_min_ratio{1e-4};
  Setting<double> cycle_min_lr{0.0};
  Setting<double> cycle_max_lr{0.0};
  Setting<int64_t> cycle_first_step_size{2000};
  Setting<int64_t> cycle_second_step_size{0};  // 0: as the first
  Setting<int64_t> cycle_first_stair_count{0};
  Setting<int64_t> cycle_second_stair_count{0};
  Setting<int64_t> decay_step_size{0};
  Setting<double> decay_lr_rate{0.0};
  Setting<bool> cycle_momentum{true};
  Setting<double> cycle_min_mom{0.8};
  Setting<double> cycle_max_mom{0.9};
  Setting<double> decay_mom_rate{0.0};
  Setting<double> lr_range_test_min_lr{1e-3};
  Setting<int64_t> lr_range_test_step_size{2000};
  Setting<double> lr_range_test_step_rate{1.0};
  Setting<bool> lr_range_test_staircase{false};
  Setting<int64_t> last_batch_iteration{-1};
};

// What the `trainer:` map of a file says to zero::Trainer.
struct TrainerSettings {
  Setting<int64_t> steps{0};           // optimizer steps; 0: one pass over the data
  Setting<int64_t> log_every{10};      // optimizer steps; 0: never
  Setting<int64_t> validate_every{0};  // optimizer steps; 0: only the first and the last
};

struct RunConfig {
  EngineConfig engine;
  OptimizerSettings optimizer;
  SchedulerSettings scheduler;
  TrainerSettings trainer;
};

// As for EngineConfig.
std::vector<std::string> unread_settings(const OptimizerSettings& settings);
std::vector<std::string> unread_settings(const SchedulerSettings& settings);
std::vector<std::string> unread_settings(const TrainerSettings& settings);

}  // namespace zero
