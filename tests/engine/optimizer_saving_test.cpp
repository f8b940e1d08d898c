// SPDX-License-Identifier: Apache-2.0
// torch::save and torch::load of the user's optimizer in the middle of training.
#include <sstream>

#include "engine/optimizer_loops.h"

namespace zero::testing {
namespace {

namespace optim = torch::optim;

optim::AdamW adamw(Net& model) {
  return optim::AdamW(model->parameters(), optim::AdamWOptions(0.02).eps(1e-4));
}

// Steps, a save, more steps; the same weights with a new optimizer that loads the file go on alike.
template <class Optimizer, class Options>
void save_and_load(const Options& options, int steps_before) {
  for (const bool plain_step : {false, true}) {
    expect_plain_numbers([&](Bench& bench) {
      Optimizer first(bench.model->parameters(), options);
      bench.setup(first);
      bench.train(first, 0, steps_before);
      std::stringstream file;
      torch::save(first, file);
      Optimizer second(bench.model->parameters(), Options(0.7));
      bench.setup(second);
      torch::load(second, file);
      EXPECT_EQ(second.param_groups()[0].options().get_lr(), options.lr());
      for (int i = 3; i < 6; ++i) {
        bench.loss(i).backward();
        if (plain_step) {
          second.step();
          second.zero_grad();
        } else {
          bench.step(second);
        }
      }
    });
  }
}

ZERO_RANK_BODY(save_and_load_on_each_rank) {
  for (const int steps_before : {3, 0}) {
    save_and_load<optim::AdamW>(optim::AdamWOptions(0.02).eps(1e-4), steps_before);
    save_and_load<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9), steps_before);
    save_and_load<optim::Adagrad>(optim::AdagradOptions(0.05), steps_before);
    save_and_load<optim::RMSprop>(optim::RMSpropOptions(0.01).eps(1e-3).momentum(0.5),
                                  steps_before);
  }
}

TEST(OptimizerFiles, SavedBeforeAndAfterTheFirstStepTheyLoadAndGoOn) {
  if (test_device().is_cuda()) GTEST_SKIP() << "torch::load without a device reads to the CPU";
  on_test_ranks({1, 2}, "save_and_load_on_each_rank");
}

ZERO_RANK_BODY(frozen_saved_loaded_thawed) {
  expect_plain_numbers([](Bench& bench) {
    optim::AdamW optimizer = adamw(bench.model);
    bench.setup(optimizer);
    bench.train(optimizer, 0, 3);
    bench.model->body->weight.requires_grad_(false);
    bench.train(optimizer, 3, 2);
    std::stringstream file;
    torch::save(optimizer, file);
    torch::load(optimizer, file, test_device());
    bench.model->body->weight.requires_grad_(true);
    bench.train(optimizer, 5, 3);
  });
}

TEST(OptimizerFiles, KeepTheMomentsOfWhatIsFrozen) {
  on_test_ranks({1, 2}, "frozen_saved_loaded_thawed");
}

TEST(OptimizerFiles, OneRankReadsAndWritesPlainLibTorchsFiles) {
  Bench plain(std::nullopt);
  optim::AdamW source = adamw(plain.model);
  plain.train(source, 0, 3);
  std::stringstream file;
  torch::save(source, file);
  const Values reached = values_of(*plain.model);

  Bench bench(StrategyOptions().device(test_device_name()).stage(2).page_bytes(4096));
  {
    const at::NoGradGuard no_grad;
    for (auto& item : bench.model->named_parameters()) item.value().copy_(reached.at(item.key()));
  }
  optim::AdamW target = adamw(bench.model);
  bench.setup(target);
  torch::load(target, file, test_device());
  bench.train(target, 3, 3);
  std::stringstream back;
  torch::save(target, back);
  plain.train(source, 3, 3);
  expect_near(values_of(*bench.model), values_of(*plain.model));

  // And back.
  optim::AdamW again = adamw(plain.model);
  torch::load(again, back, test_device());
  {
    const at::NoGradGuard no_grad;
    const Values values = values_of(*bench.model);
    for (auto& item : plain.model->named_parameters()) item.value().copy_(values.at(item.key()));
  }
  plain.train(again, 6, 2);
  bench.train(target, 6, 2);
  expect_near(values_of(*bench.model), values_of(*plain.model));
}

TEST(OptimizerFiles, HoldTheStateOnce) {
  Bench bench(StrategyOptions().device(test_device_name()).stage(2).page_bytes(1 << 20));
  torch::nn::Sequential model;
  for (int i = 0; i < 20; ++i) model->push_back(torch::nn::Linear(64, 64));
  optim::AdamW optimizer(model->parameters(), 0.01);
  bench.strategy->setup(model, optimizer);
  model->forward(at::ones({2, 64}).to(test_device())).sum().backward();
  bench.strategy->step();
  std::stringstream file;
  torch::save(optimizer, file);
  const int64_t state = 20 * 2 * (64 * 64 + 64) * 4;
  EXPECT_LT(static_cast<int64_t>(file.str().size()), state + 40 * 8192);
}

TEST(OptimizerFiles, LoadedAThousandTimesTheyTakeNoMoreMemory) {
  Bench bench(StrategyOptions().device(test_device_name()).stage(2).page_bytes(4096));
  optim::AdamW optimizer = adamw(bench.model);
  bench.setup(optimizer);
  bench.train(optimizer, 0, 2);
  std::stringstream file;
  torch::save(optimizer, file);
  const std::string text = file.str();
  const auto load = [&](int times) {
    for (int i = 0; i < times; ++i) {
      std::istringstream copy(text);
      torch::load(optimizer, copy, test_device());
    }
    return bench.strategy->memory_report().process_rss;
  };
  const int64_t early = load(100);
  EXPECT_LT(load(900) - early, int64_t{4} << 20);
  EXPECT_EQ(optimizer.state().size(), 4U);
  bench.train(optimizer, 2, 1);
  EXPECT_EQ(optimizer.state().size(), 4U);
}

ZERO_RANK_BODY(another_ranks_file) {
  Bench bench(StrategyOptions().device(test_device_name()).stage(2).page_bytes(4096));
  optim::AdamW optimizer = adamw(bench.model);
  bench.setup(optimizer);
  bench.train(optimizer, 0, 2);
  // Every rank takes rank 0's file, as programs do that save on one rank only.
  const std::string path =
      std::string(::testing::TempDir()) + "zero_optimizer_of_rank_0_" + std::getenv("MASTER_PORT");
  if (test_rank() == 0) torch::save(optimizer, path);
  (void)bench.strategy->clip_grad_norm_(1.0);  // all ranks are here: the file is written
  torch::load(optimizer, path, test_device());
  bench.loss(2).backward();
  EXPECT_THAT(error_of([&] { bench.strategy->step(); }),
              ::testing::HasSubstr("loaded on the rank"));
}

TEST(OptimizerFiles, OneOfAnotherRankIsRefusedOnAllRanks) {
  on_test_ranks({2}, "another_ranks_file");
}

}  // namespace
}  // namespace zero::testing
