// SPDX-License-Identifier: Apache-2.0
// What the kernel tests share: a shard with random values, every rule with its options, and
// comparisons of bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plugin/optimizer/kernels/split_master.h"
#include "plugin/optimizer/kernels/update.h"

namespace zero::kernels::testing {

inline std::vector<float> random_floats(int64_t length, uint32_t seed, float scale = 1.0f) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(length));
  for (float& value : values) value = normal(bits);
  return values;
}

enum class Form { kMaster, kSplit };

struct Shard {
  Shard(int64_t length, Form form, uint32_t seed)
      : form(form),
        master(random_floats(length, seed)),
        gradient(random_floats(length, seed + 1)),
        moment1(master.size()),
        moment2(master.size()),
        moment3(master.size()) {
    if (form == Form::kSplit) {
      for (float value : master) {
        high.push_back(split(value).high);
        low.push_back(split(value).low);
      }
    }
  }

  Buffers buffers() {
    const bool whole = form == Form::kMaster;
    return {whole ? master.data() : nullptr,
            whole ? nullptr : high.data(),
            whole ? nullptr : low.data(),
            gradient.data(),
            moment1.data(),
            moment2.data(),
            moment3.data()};
  }

  // The fp32 weights, whichever form they are kept in.
  std::vector<float> weights() const {
    if (form == Form::kMaster) return master;
    std::vector<float> joined;
    for (size_t i = 0; i < high.size(); ++i) joined.push_back(join({high[i], low[i]}));
    return joined;
  }

  Form form;
  std::vector<float> master, gradient, moment1, moment2, moment3;
  std::vector<uint16_t> high;
  std::vector<int16_t> low;
};

// A rule with options, at any step.
struct RuleCase {
  std::string name;
  Rule rule;
  double weight_decay = 0;
  bool amsgrad = false;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double lr_decay = 0;
  bool centered = false;

  static constexpr double kLr = 3e-3, kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;
  static constexpr double kAlpha = 0.9;

  Scalars scalars(int64_t step) const {
    switch (rule) {
      case Rule::kSgd:
        return sgd_scalars(kLr, momentum, dampening, weight_decay, nesterov, step == 1);
      case Rule::kAdagrad:
        return adagrad_scalars(kLr, lr_decay, kEps, weight_decay, step);
      case Rule::kRmsprop:
        return rmsprop_scalars(kLr, kAlpha, kEps, weight_decay, momentum, centered);
      case Rule::kAdam:
      case Rule::kAdamW:
        break;
    }
    return adam_scalars(rule, kLr, kBeta1, kBeta2, kEps, weight_decay, amsgrad, step);
  }
};

inline void PrintTo(const RuleCase& rule, std::ostream* out) { *out << rule.name; }

inline std::vector<RuleCase> all_rules() {
  return {{.name = "AdamW", .rule = Rule::kAdamW, .weight_decay = 0.1},
          {.name = "AdamWWithoutDecay", .rule = Rule::kAdamW},
          {.name = "AdamWAmsgrad", .rule = Rule::kAdamW, .weight_decay = 0.1, .amsgrad = true},
          {.name = "Adam", .rule = Rule::kAdam},
          {.name = "AdamDecay", .rule = Rule::kAdam, .weight_decay = 0.1},
          {.name = "AdamAmsgradDecay", .rule = Rule::kAdam, .weight_decay = 0.1, .amsgrad = true},
          {.name = "Sgd", .rule = Rule::kSgd},
          {.name = "SgdDecay", .rule = Rule::kSgd, .weight_decay = 0.1},
          {.name = "SgdMomentum", .rule = Rule::kSgd, .momentum = 0.9},
          {.name = "SgdMomentumDampeningDecay",
           .rule = Rule::kSgd,
           .weight_decay = 0.1,
           .momentum = 0.9,
           .dampening = 0.3},
          {.name = "SgdNesterovDecay",
           .rule = Rule::kSgd,
           .weight_decay = 0.1,
           .momentum = 0.9,
           .nesterov = true},
          {.name = "Adagrad", .rule = Rule::kAdagrad},
          {.name = "AdagradDecays", .rule = Rule::kAdagrad, .weight_decay = 0.1, .lr_decay = 0.05},
          {.name = "Rmsprop", .rule = Rule::kRmsprop},
          {.name = "RmspropDecay", .rule = Rule::kRmsprop, .weight_decay = 0.1},
          {.name = "RmspropMomentum", .rule = Rule::kRmsprop, .momentum = 0.9},
          {.name = "RmspropCentered", .rule = Rule::kRmsprop, .centered = true},
          {.name = "RmspropCenteredMomentumDecay",
           .rule = Rule::kRmsprop,
           .weight_decay = 0.1,
           .momentum = 0.9,
           .centered = true}};
}

inline std::string rule_name(const ::testing::TestParamInfo<RuleCase>& info) {
  return info.param.name;
}

// Odd offsets and lengths around the vector widths, gaps between segments, one segment of several
// threads' chunks.
inline constexpr int64_t kShardLength = 50'500;
inline std::vector<Segment> odd_segments(const RuleCase& rule, int64_t step) {
  std::vector<Segment> segments;
  for (auto [begin, length] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                       {3, 7},
                                                                       {11, 8},
                                                                       {19, 9},
                                                                       {30, 15},
                                                                       {47, 16},
                                                                       {63, 17},
                                                                       {81, 0},
                                                                       {82, 31},
                                                                       {115, 33},
                                                                       {151, 50'001},
                                                                       {50'153, 3}}) {
    segments.push_back({begin, length, rule.scalars(step), rule.rule});
  }
  return segments;
}

// Ten updates with a new gradient each.
inline void ten_steps(Isa isa, ThreadPool& pool, Shard& shard, const RuleCase& rule) {
  const auto length = static_cast<int64_t>(shard.gradient.size());
  for (int64_t step = 1; step <= 10; ++step) {
    shard.gradient = random_floats(length, 1000 + static_cast<uint32_t>(step));
    update_cpu(isa, pool, shard.buffers(), odd_segments(rule, step), 0.37f);
  }
}

// The first index whose bits differ, -1 if none does. All NaNs are the same.
inline int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (!both_nan && std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return static_cast<int64_t>(i);
    }
  }
  return a.size() == b.size() ? -1 : static_cast<int64_t>(std::min(a.size(), b.size()));
}

inline void expect_same_state(const Shard& a, const Shard& b) {
  EXPECT_EQ(first_difference(a.weights(), b.weights()), -1) << "weights";
  EXPECT_EQ(first_difference(a.moment1, b.moment1), -1) << "moment1";
  EXPECT_EQ(first_difference(a.moment2, b.moment2), -1) << "moment2";
  EXPECT_EQ(first_difference(a.moment3, b.moment3), -1) << "moment3";
  EXPECT_EQ(a.high, b.high);
  EXPECT_EQ(a.low, b.low);
}

}  // namespace zero::kernels::testing
