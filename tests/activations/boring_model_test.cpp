// SPDX-License-Identifier: Apache-2.0
// The flag arrives: with cpu_checkpointing device memory is level from layer to layer, without it
// each layer adds its activation.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "examples/boring_model/series.h"
#include "support/device.h"

namespace zero::testing {
namespace {

boring::Workload small() {
  boring::Workload workload;
  workload.sizes = {.features = 4, .width = 128, .layers = 6};
  workload.batch = 32;
  workload.rows = 64;
  workload.steps = 3;
  workload.device = test_device_name();
  return workload;
}

constexpr int64_t kActivation = 32 * 64 * 128 * 2;  // bytes in fp16

TEST(BoringModel, MemoryGrowsByOneActivationALayerWithoutTheFlag) {
  const boring::Series off = boring::run_series(small(), false);
  ASSERT_EQ(off.boundary_bytes.size(), 8U);
  for (size_t layer = 2; layer <= 6; ++layer) {
    EXPECT_NEAR(off.boundary_bytes[layer] - off.boundary_bytes[layer - 1], kActivation,
                kActivation / 100)
        << layer;
  }
  EXPECT_EQ(off.moved_bytes, 0);
}

TEST(BoringModel, MemoryIsLevelWithTheFlag) {
  const boring::Workload workload = small();
  const boring::Series on = boring::run_series(workload, true);
  ASSERT_EQ(on.boundary_bytes.size(), 8U);
  const auto [low, high] =
      std::minmax_element(on.boundary_bytes.begin() + 1, on.boundary_bytes.end() - 1);
  EXPECT_LE(*high - *low, *low / 100);
  // A region keeps the random state it began with in host memory, which the meter sees on the CPU.
  const int64_t random_states =
      test_device().is_cpu()
          ? workload.sizes.layers *
                static_cast<int64_t>(at::detail::getDefaultCPUGenerator().get_state().nbytes())
          : 0;
  EXPECT_LE(*high - on.boundary_bytes[0], kActivation + kActivation / 100 + random_states);
  EXPECT_EQ(on.moved_bytes, workload.sizes.layers * kActivation);
}

TEST(BoringModel, TableAndPictureShowBothSeries) {
  boring::Series off, on;
  on.cpu_checkpointing = true;
  const boring::Workload workload = small();
  for (int64_t i = 0; i < 8; ++i) {
    off.boundary_bytes.push_back(i * 1000000000);
    on.boundary_bytes.push_back(500000000);
  }
  on.memory.booked[0].host = 1;
  const std::string table = boring::table(workload, {off, on});
  EXPECT_THAT(table,
              ::testing::HasSubstr("linear_5                     6.0000                 0.5000"));
  const std::string picture = boring::picture(workload, {off, on});
  EXPECT_THAT(picture, ::testing::HasSubstr("cpu_checkpointing off"));
  EXPECT_THAT(picture, ::testing::HasSubstr("cpu_checkpointing on"));
}

}  // namespace
}  // namespace zero::testing
