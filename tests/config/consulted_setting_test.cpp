// SPDX-License-Identifier: Apache-2.0
// A flag that was given and that its consumer never read is named; nothing else makes that sentence
// go away.
#include <thread>

#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Consumer kAll[] = {Consumer::kPartition, Consumer::kPaging,      Consumer::kGradients,
                             Consumer::kOptimizer, Consumer::kActivations, Consumer::kMemory,
                             Consumer::kStrategy,  Consumer::kScheduler,   Consumer::kTrainer};

void read(const Field<EngineConfig>& field, const EngineConfig& config, Consumer by) {
  with_setting(field, config, [&](const auto& setting) { setting.read(by); });
}

class GivenFlag : public ::testing::TestWithParam<std::string> {
 protected:
  // The flag under test is given, nothing else is.
  GivenFlag() {
    StrategyOptions options;
    examples().at(GetParam()).give(options);
    config_ = options.flags().values.engine;
    // Some flags act at the highest stage only.
    if (!config_.stage.given()) config_.stage = Setting<int>(3);
  }
  const Field<EngineConfig>& field() const { return *find_field<EngineConfig>(GetParam()); }
  EngineConfig config_;
};

TEST_P(GivenFlag, IsNamedUntilItsConsumerReadsIt) {
  EXPECT_THAT(unread_settings(config_),
              ElementsAre(AllOf(HasSubstr(GetParam() + " = "), HasSubstr("(code)"),
                                HasSubstr(name_of(field().consumer)),
                                HasSubstr(std::string(field().acts_when)), HasSubstr("remove"))));
  read(field(), config_, field().consumer);
  EXPECT_THAT(unread_settings(config_), IsEmpty());
}

TEST_P(GivenFlag, IsStillNamedWhenAllOthersHaveReadIt) {
  for (const Consumer consumer : kAll) {
    if (consumer != field().consumer) read(field(), config_, consumer);
  }
  EXPECT_EQ(unread_settings(config_).size(), 1U);
}

TEST_P(GivenFlag, IsStillNamedAfterAReportLookedAtIt) {
  with_setting(field(), config_, [](const auto& setting) { setting.peek(); });
  value_text(field(), config_);
  EXPECT_EQ(unread_settings(config_).size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Table, GivenFlag, ::testing::ValuesIn(engine_field_names()), test_name);

TEST(Consulted, DefaultsNeedNoReader) { EXPECT_THAT(unread_settings(resolve({})), IsEmpty()); }

TEST(Consulted, AValueEqualToTheDefaultNeedsItsReaderToo) {
  EXPECT_THAT(unread_settings(resolve(StrategyOptions().prefetch_pages(2))),
              ElementsAre(HasSubstr("prefetch_pages = 2")));
}

TEST(Consulted, PlaceInTheFileIsNamed) {
  EXPECT_THAT(unread_settings(config_from("stage: 3\n")), ElementsAre(HasSubstr("(x.yaml:1:8)")));
}

TEST(Consulted, ACopyKeepsWhatWasRecordedAndThenGoesItsOwnWay) {
  const EngineConfig original = resolve(StrategyOptions().stage(1).device("cpu"));
  original.stage.read(Consumer::kPaging);
  const EngineConfig copy = original;
  EXPECT_TRUE(copy.stage.read_by(Consumer::kPaging));
  copy.device.read(Consumer::kPartition);
  EXPECT_FALSE(original.device.read_by(Consumer::kPartition));
}

TEST(Consulted, ANewValueHasNoReaders) {
  Setting<int> setting{1};
  setting.read(Consumer::kPaging);
  setting.set(2, {Source::kCode, "code", "stage"});
  EXPECT_FALSE(setting.read_by(Consumer::kPaging));
}

TEST(Consulted, ReadsFromManyThreadsAreAllRecorded) {
  const EngineConfig config = resolve(StrategyOptions().stage(1));
  std::vector<std::thread> threads;
  for (const Consumer consumer : kAll) {
    threads.emplace_back([&config, consumer] {
      for (int i = 0; i < 1000; ++i) config.stage.read(consumer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Consumer consumer : kAll) EXPECT_TRUE(config.stage.read_by(consumer));
}

}  // namespace
}  // namespace zero::config_test
