// SPDX-License-Identifier: Apache-2.0
// LibTorch's own loader is a source of batches.
#include <gtest/gtest.h>

#include <vector>

#include "tests/trainer/fake_target.h"

namespace zero {
namespace {

using testing::FakeTarget;

TEST(DataLoader, IsARangeThatEachEpochDrawsAgain) {
  FakeTarget fake;
  auto data = torch::data::datasets::TensorDataset(
                  std::vector<torch::Tensor>{torch::tensor(1.0), torch::tensor(2.0),
                                             torch::tensor(3.0), torch::tensor(4.0)})
                  .map(torch::data::transforms::Stack<torch::data::TensorExample>());
  auto loader =
      torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(std::move(data), 2);
  auto loss = [&](const auto& batch) { return fake.weight * batch.data.mean(); };
  auto tokens = [](const auto& batch) { return batch.data.numel(); };
  const TrainSummary summary =
      run_loop(fake.target, TrainerOptions().epochs(2), {},
               micro_batch_stream(*loader, loss, tokens), false, fake.printed, false);
  EXPECT_EQ(fake.step_gradients, (std::vector<double>{1.5, 3.5, 1.5, 3.5}));
  EXPECT_EQ(summary.tokens, 8);
}

}  // namespace
}  // namespace zero
