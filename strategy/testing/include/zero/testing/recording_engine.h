// SPDX-License-Identifier: Apache-2.0
// LibZeRO::testing: does a flag reach the part of the engine that acts on it? For tests of code that
// builds a zero::Strategy from flags of its own.
//
//   auto engine = zero::testing::RecordingEngine::from_file("my_trainer.yaml");
//   EXPECT_THAT(engine, Forwards("activation_checkpointing.cpu_checkpointing", true));
//   train(engine.strategy());        // the code under test; or engine.train_one_step()
//   EXPECT_THAT(engine, Consulted("activation_checkpointing.cpu_checkpointing"));
//
// It is the real engine behind the real translation; what it received and what its parts have read
// is recorded. A setting may be named by its whole path, by its flat name or by any other name that
// a configuration may use for it. See examples/flag_test.
#pragma once

#include <gmock/gmock.h>

#include <concepts>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "zero/strategy.h"

namespace zero::testing {

struct RecordedSetting {
  std::string key;       // of the engine
  std::string flag;      // as it was given; empty where it was not
  std::string value;     // as a user would write it
  std::string where;     // "flags.yaml:3:8", "code", "default"
  std::string consumer;  // the part of the engine that acts on it
  bool consulted = false;
};

class RecordingEngine {
 public:
  explicit RecordingEngine(Strategy strategy) : strategy_(std::move(strategy)) {}
  explicit RecordingEngine(const StrategyOptions& options) : strategy_(options) {}
  static RecordingEngine from_file(const std::filesystem::path& file,
                                   const StrategyOptions& overrides = {},
                                   const std::vector<std::string>& arguments = {});

  // For the code under test.
  Strategy& strategy() { return strategy_; }
  // Trains a small model of its own for one step, so that the engine's parts read their settings.
  void train_one_step();

  // Throws std::invalid_argument for a name that no setting has.
  RecordedSetting setting(const std::string& name) const;
  std::vector<RecordedSetting> settings() const;
  // How `text` would be recorded as a value of this setting; throws std::invalid_argument for one
  // that it cannot have.
  std::string normalized(const std::string& name, const std::string& text) const;

 private:
  Strategy strategy_;
};

// The engine has received this value for the setting, wherever it came from. `value` is a bool, a
// number or a text as in a file: true, 3, 0.5, "bf16", "32MiB".
::testing::Matcher<const RecordingEngine&> Forwards(const std::string& name, bool value);
::testing::Matcher<const RecordingEngine&> Forwards(const std::string& name, double value);
::testing::Matcher<const RecordingEngine&> Forwards(const std::string& name,
                                                    const std::string& value);
inline auto Forwards(const std::string& name, const char* value) {
  return Forwards(name, std::string(value));
}
template <std::integral Value>
auto Forwards(const std::string& name, Value value) {
  return Forwards(name, std::to_string(value));
}

// The part of the engine that acts on the setting has read it.
::testing::Matcher<const RecordingEngine&> Consulted(const std::string& name);

}  // namespace zero::testing
