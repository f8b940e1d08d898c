// SPDX-License-Identifier: Apache-2.0
// The kernels follow the formulas of torch::optim, written here slowly and in double, and touch no
// element outside their segments.
#include <algorithm>

#include "tests/kernels/shard.h"

namespace zero::kernels::testing {
namespace {

struct Reference {
  double weight, moment1 = 0, moment2 = 0, moment3 = 0, mean = 0;

  void step(const RuleCase& rule, int64_t step, double gradient) {
    switch (rule.rule) {
      case Rule::kSgd:
        return sgd(rule, step, gradient);
      case Rule::kAdagrad:
        return adagrad(rule, step, gradient);
      case Rule::kRmsprop:
        return rmsprop(rule, gradient);
      case Rule::kAdam:
      case Rule::kAdamW:
        return adam(rule, step, gradient);
    }
  }

  void adam(const RuleCase& rule, int64_t step, double gradient) {
    if (rule.rule == Rule::kAdamW) weight -= rule.kLr * rule.weight_decay * weight;
    if (rule.rule == Rule::kAdam) gradient += rule.weight_decay * weight;
    moment1 = rule.kBeta1 * moment1 + (1 - rule.kBeta1) * gradient;
    moment2 = rule.kBeta2 * moment2 + (1 - rule.kBeta2) * gradient * gradient;
    moment3 = std::max(moment3, moment2);
    const double mean = moment1 / (1 - std::pow(rule.kBeta1, step));
    const double second = rule.amsgrad ? moment3 : moment2;
    const double root = std::sqrt(second / (1 - std::pow(rule.kBeta2, step)));
    weight -= rule.kLr * mean / (root + rule.kEps);
  }

  void sgd(const RuleCase& rule, int64_t step, double gradient) {
    gradient += rule.weight_decay * weight;
    if (rule.momentum != 0) {
      moment1 = step == 1 ? gradient : rule.momentum * moment1 + (1 - rule.dampening) * gradient;
      gradient = rule.nesterov ? gradient + rule.momentum * moment1 : moment1;
    }
    weight -= rule.kLr * gradient;
  }

  void adagrad(const RuleCase& rule, int64_t step, double gradient) {
    gradient += rule.weight_decay * weight;
    moment2 += gradient * gradient;
    const double rate = rule.kLr / (1 + (step - 1) * rule.lr_decay);
    weight -= rate * gradient / (std::sqrt(moment2) + rule.kEps);
  }

  void rmsprop(const RuleCase& rule, double gradient) {
    gradient += rule.weight_decay * weight;
    moment2 = rule.kAlpha * moment2 + (1 - rule.kAlpha) * gradient * gradient;
    mean = rule.kAlpha * mean + (1 - rule.kAlpha) * gradient;
    const double square = rule.centered ? moment2 - mean * mean : moment2;
    moment1 = rule.momentum * moment1 + gradient / (std::sqrt(square) + rule.kEps);
    weight -= rule.kLr * moment1;
  }
};

class ReferenceParity : public ::testing::TestWithParam<RuleCase> {};

TEST_P(ReferenceParity, TenStepsAgreeWithDoublePrecision) {
  ThreadPool pool(2);
  Shard shard(kShardLength, Form::kMaster, 11);
  std::vector<Reference> expected;
  for (float value : shard.master) expected.push_back({value});
  for (int64_t step = 1; step <= 10; ++step) {
    const auto segments = odd_segments(GetParam(), step);
    shard.gradient = random_floats(kShardLength, static_cast<uint32_t>(step));
    update_cpu(best_isa(), pool, shard.buffers(), segments, 0.25f);
    for (const Segment& segment : segments) {
      for (int64_t i = segment.begin; i < segment.begin + segment.length; ++i) {
        const auto at = static_cast<size_t>(i);
        expected[at].step(GetParam(), step, 0.25 * shard.gradient[at]);
      }
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const double allowed = 1e-6 * std::max(1.0, std::abs(expected[i].weight));
    ASSERT_NEAR(shard.master[i], expected[i].weight, allowed) << i;
  }
}

TEST_P(ReferenceParity, ElementsOutsideTheSegmentsKeepTheirBits) {
  ThreadPool pool(2);
  for (Form form : {Form::kMaster, Form::kSplit}) {
    Shard before(kShardLength, form, 13), after(kShardLength, form, 13);
    ten_steps(best_isa(), pool, after, GetParam());
    std::vector<bool> inside(kShardLength);
    for (const Segment& segment : odd_segments(GetParam(), 1)) {
      std::fill_n(inside.begin() + segment.begin, segment.length, true);
    }
    const auto old_weights = before.weights(), new_weights = after.weights();
    for (size_t i = 0; i < inside.size(); ++i) {
      ASSERT_EQ(old_weights[i] != new_weights[i], inside[i]) << i;
      if (inside[i]) continue;
      ASSERT_EQ(after.moment1[i], 0.0f) << i;
      ASSERT_EQ(after.moment2[i], 0.0f) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, ReferenceParity, ::testing::ValuesIn(all_rules()), rule_name);

}  // namespace
}  // namespace zero::kernels::testing
