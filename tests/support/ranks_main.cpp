// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/support/ranks.h"

int main(int argc, char** argv) {
  zero::testing::select_rank_body();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
