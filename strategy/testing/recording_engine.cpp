// SPDX-License-Identifier: Apache-2.0
#include "zero/testing/recording_engine.h"

#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <charconv>
#include <stdexcept>

#include "plugin/config/key.h"
#include "strategy/key_advice.h"

namespace zero::testing {
namespace {

const SettingRow& row_of(const std::string& name) {
  for (const bool flat : {false, true}) {
    const TableRow* const row = find_row(name, flat);
    if (row != nullptr && row->setting != nullptr) return *row->setting;
  }
  if (const SettingRow* const row = find_setting(name)) return *row;
  const std::string section(section_of(name));
  throw std::invalid_argument(
      name + ": " +
      advice_for({.key = last_name(name), .section = section, .flat_names = section.empty()}));
}

RecordedSetting record(const SettingRow& row, const RunConfig& config) {
  const Provenance& from = row.provenance(config);
  return {.key = std::string(row.name()),
          .flag = from.flag,
          .value = row.value_text(config),
          .where = from.where,
          .consumer = name_of(row.consumer()),
          .consulted = row.read_by_consumer(config)};
}

class ForwardsMatcher final : public ::testing::MatcherInterface<const RecordingEngine&> {
 public:
  ForwardsMatcher(std::string name, std::string value)
      : name_(std::move(name)), value_(std::move(value)) {}

  bool MatchAndExplain(const RecordingEngine& engine,
                       ::testing::MatchResultListener* listener) const override {
    const RecordedSetting setting = engine.setting(name_);
    *listener << "whose " << setting.key << " is " << setting.value << ", from " << setting.where;
    return setting.value == engine.normalized(name_, value_);
  }
  void DescribeTo(std::ostream* out) const override {
    *out << "receives " << name_ << " = " << value_;
  }
  void DescribeNegationTo(std::ostream* out) const override {
    *out << "does not receive " << name_ << " = " << value_;
  }

 private:
  std::string name_;
  std::string value_;
};

class ConsultedMatcher final : public ::testing::MatcherInterface<const RecordingEngine&> {
 public:
  explicit ConsultedMatcher(std::string name) : name_(std::move(name)) {}

  bool MatchAndExplain(const RecordingEngine& engine,
                       ::testing::MatchResultListener* listener) const override {
    const RecordedSetting setting = engine.setting(name_);
    *listener << "whose " << setting.consumer << " part has " << (setting.consulted ? "" : "not ")
              << "read " << setting.key;
    return setting.consulted;
  }
  void DescribeTo(std::ostream* out) const override { *out << "has consulted " << name_; }
  void DescribeNegationTo(std::ostream* out) const override {
    *out << "has not consulted " << name_;
  }

 private:
  std::string name_;
};

}  // namespace

RecordingEngine RecordingEngine::from_file(const std::filesystem::path& file,
                                           const StrategyOptions& overrides,
                                           const std::vector<std::string>& arguments) {
  return RecordingEngine(Strategy::from_file(file, overrides, arguments));
}

void RecordingEngine::train_one_step() {
  torch::nn::Linear model(8, 4);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  strategy_.setup(model, optimizer);
  const at::Tensor input =
      at::ones({2, 8}, model->weight.options().device(strategy_.device()).requires_grad(false));
  strategy_.backward(model->forward(input).sum());
  strategy_.step();
  strategy_.teardown();
}

RecordedSetting RecordingEngine::setting(const std::string& name) const {
  return record(row_of(name), strategy_.config());
}

std::vector<RecordedSetting> RecordingEngine::settings() const {
  std::vector<RecordedSetting> all;
  for (const SettingRow* const row : setting_rows()) {
    all.push_back(record(*row, strategy_.config()));
  }
  return all;
}

std::string RecordingEngine::normalized(const std::string& name, const std::string& text) const {
  const SettingRow& row = row_of(name);
  RunConfig scratch;
  Node node;
  node.kind = Node::Kind::kScalar;
  node.scalar = {text, false};
  const Taken taken = row.set(scratch, node, {});
  if (!taken.reason.empty()) throw std::invalid_argument(name + ": " + taken.reason);
  return row.value_text(scratch);
}

::testing::Matcher<const RecordingEngine&> Forwards(const std::string& name, bool value) {
  return Forwards(name, std::string(value ? "true" : "false"));
}

::testing::Matcher<const RecordingEngine&> Forwards(const std::string& name, double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return Forwards(name, std::string(std::begin(text), end));
}

::testing::Matcher<const RecordingEngine&> Forwards(const std::string& name,
                                                    const std::string& value) {
  return ::testing::MakeMatcher(new ForwardsMatcher(name, value));
}

::testing::Matcher<const RecordingEngine&> Consulted(const std::string& name) {
  return ::testing::MakeMatcher(new ConsultedMatcher(name));
}

}  // namespace zero::testing
