// SPDX-License-Identifier: Apache-2.0
// A mistyped name is recognised; another word is not taken for one.
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

TEST(Suggestion, RecognisesEveryNameWithOneMistake) {
  const auto names = field_names<EngineConfig>();
  for (const std::string_view name : names) {
    for (size_t i = 0; i < name.size(); ++i) {
      std::string dropped(name);
      dropped.erase(i, 1);
      EXPECT_EQ(nearest(dropped, names), name) << dropped;
      std::string doubled(name);
      doubled.insert(i, 1, name[i]);
      EXPECT_EQ(nearest(doubled, names), name) << doubled;
      if (i + 1 < name.size()) {
        std::string swapped(name);
        std::swap(swapped[i], swapped[i + 1]);
        EXPECT_EQ(nearest(swapped, names), name) << swapped;
      }
    }
  }
}

TEST(Suggestion, DoesNotCountCaseAndSeparators) {
  const auto names = field_names<EngineConfig>();
  EXPECT_EQ(nearest("OffloadParameters", names), "offload_parameters");
  EXPECT_EQ(nearest("page-bytes", names), "page_bytes");
  EXPECT_EQ(nearest("s_t_a_g_e", {"stage"}), "stage");
  EXPECT_EQ(nearest("STAGE", {"stage"}), "stage");
}

TEST(Suggestion, IsNotMadeForAnotherWord) {
  const auto names = field_names<EngineConfig>();
  for (const char* word : {"", "_", "x", "elasticity", "pipeline", "tensorboard"}) {
    EXPECT_EQ(nearest(word, names), std::nullopt) << word;
  }
  EXPECT_EQ(nearest(std::string(100000, 'a'), names), std::nullopt);
}

}  // namespace
}  // namespace zero::config_test
