// SPDX-License-Identifier: Apache-2.0
// The flags that say what stays, what comes and what goes at stage 3: each has an effect that can be
// counted, and none changes a number.
#include <gtest/gtest.h>

#include "engine/blocks.h"
#include "engine/device_ranks.h"
#include "engine/training.h"
#include "plugin/paging/paged_storage.h"

namespace zero::testing {
namespace {

constexpr int kLayers = 6;
constexpr int64_t kWeight = 512 * 512;  // elements: a page of 1 MiB in fp32
constexpr int64_t kBias = 512;

// Layers with a small parameter each.
struct BiasedImpl : torch::nn::Module {
  BiasedImpl() {
    torch::manual_seed(13);
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(
          register_module("layer" + std::to_string(i), torch::nn::Linear(kBias, kBias)));
    }
  }
  at::Tensor loss(at::Tensor x) {
    for (auto& layer : layers) x = torch::tanh(layer(x));
    return x.square().mean();
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Biased);

struct Trained {
  std::vector<double> losses;
  MemoryReport report;       // after the last step
  PagingCounters last_step;  // what the last step added
  int64_t live_after_forward = 0;
  int64_t live_after_first_touch = 0;  // after the first operator of a step
};

Trained train_biased(const StrategyOptions& options) {
  Biased model;
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  Strategy strategy(options);
  strategy.setup(model, optimizer);
  const at::Tensor x = inputs(strategy.device()).to(model->layers[0]->weight.dtype());
  Trained trained;
  for (int step = 0; step < 4; ++step) {
    const PagingCounters before = strategy.memory_report().paging;
    {
      at::NoGradGuard no_grad;
      (void)model->layers[0]->weight.sum();
      trained.live_after_first_touch = strategy.memory_report().live_parameter_bytes;
    }
    const at::Tensor loss = model->loss(x).to(at::kFloat);
    trained.live_after_forward = strategy.memory_report().live_parameter_bytes;
    trained.losses.push_back(loss.item<double>());
    strategy.backward(loss);
    strategy.step();
    const PagingCounters after = strategy.memory_report().paging;
    trained.last_step = {after.faults - before.faults, after.prefetches - before.prefetches,
                         after.evictions - before.evictions, after.releases - before.releases,
                         after.write_backs - before.write_backs};
  }
  trained.report = strategy.memory_report();
  return trained;
}

int64_t slots(const Trained& trained) {
  return trained.report.booked[static_cast<int>(MemoryClass::kParameterSlots)].device;
}

// A bias has no room in its layer's page, so it needs a page of its own.
StrategyOptions roomy() { return paged(12 * kMiB); }

ZERO_RANK_BODY(small_parameters_stay) {
  const Trained plain = train_biased(roomy());
  const Trained kept = train_biased(roomy().persistence_threshold(kBias));
  EXPECT_EQ(plain.report.permanent_parameter_bytes, 0);
  EXPECT_EQ(kept.report.permanent_parameter_bytes, kLayers * kBias * 4);
  EXPECT_LT(kept.last_step.faults + kept.last_step.prefetches,
            plain.last_step.faults + plain.last_step.prefetches);
  EXPECT_EQ(kept.losses, plain.losses);
  EXPECT_NE(plain.losses.front(), plain.losses.back());

  const Trained one_below = train_biased(roomy().persistence_threshold(kBias - 1));
  EXPECT_EQ(one_below.report.permanent_parameter_bytes, 0);

  const Trained capped =
      train_biased(roomy().persistence_threshold(kBias).model_persistence_threshold(2 * kBias));
  EXPECT_EQ(capped.report.permanent_parameter_bytes, 2 * kBias * 4);
  EXPECT_EQ(capped.losses, plain.losses);

  const Trained all = train_biased(roomy().persistence_threshold(kWeight));
  EXPECT_EQ(all.report.permanent_parameter_bytes, kLayers * (kWeight + kBias) * 4);
  EXPECT_EQ(slots(all), 0);
  EXPECT_EQ(all.last_step.faults, 0);
  EXPECT_EQ(all.losses, plain.losses);
}
TEST(PersistenceThreshold, KeepsSmallParametersWholeOnTheDevice) {
  on_test_ranks({1, 2}, "small_parameters_stay");
}

TEST(PersistenceThreshold, LeavesParametersThatStayPlain) {
  Biased model;
  torch::optim::SGD optimizer(model->parameters(), 1e-3);
  Strategy strategy(roomy().persistence_threshold(kBias));
  strategy.setup(model, optimizer);
  for (const auto& layer : model->layers) {
    EXPECT_TRUE(is_tagged(layer->weight));
    EXPECT_FALSE(is_tagged(layer->bias));
    EXPECT_NE(layer->bias.data_ptr(), nullptr);
  }
}

ZERO_RANK_BODY(persistent_model_keeps_its_numbers) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const Loop loop : {Loop::kStrategy, Loop::kPlain}) {
      Run run;
      run.loop = loop;
      run.clip = 0.5;
      run.accumulation = 2;
      run.options = StrategyOptions()
                        .device(test_device_name())
                        .stage(3)
                        .offload_optimizer(true)
                        .offload_parameters(true)
                        .precision(precision)
                        .page_bytes(4096)
                        .parameter_budget(12 << 10);
      const Outcome paged = train(run);
      run.options.persistence_threshold(50);  // norms, biases, the scalar
      const Outcome kept = train(run);
      EXPECT_EQ(kept.losses, paged.losses) << precision;
      EXPECT_EQ(kept.norms.size(), paged.norms.size());
      EXPECT_TRUE(same_bits(kept.gradients, paged.gradients)) << precision;
    }
  }
}
TEST(PersistenceThreshold, ChangesNoNumber) {
  on_test_ranks({1, 2}, "persistent_model_keeps_its_numbers");
}

TEST(MaxLiveParameters, IsTheBudgetInElements) {
  const Trained fp32 = train_biased(paged(0).max_live_parameters(4 * kWeight));
  EXPECT_EQ(slots(fp32), 4 * kMiB);
  EXPECT_LE(fp32.report.peak_live_parameter_bytes, 4 * kMiB);
  const Trained bf16 =
      train_biased(paged(0).max_live_parameters(4 * kWeight).precision("bf16").page_bytes(4096));
  EXPECT_EQ(slots(bf16), 2 * kMiB);
  EXPECT_EQ(fp32.losses, train_biased(roomy()).losses);
}

TEST(MaxLiveParameters, AgreesWithTheBudgetInBytesOrIsRefused) {
  const Trained same = train_biased(paged(4 * kMiB).max_live_parameters(4 * kWeight));
  EXPECT_EQ(slots(same), 4 * kMiB);
  const std::string error =
      error_of([] { train_biased(paged(4 * kMiB).max_live_parameters(5 * kWeight)); });
  EXPECT_THAT(error, ::testing::HasSubstr("parameter_budget (code)"));
  EXPECT_THAT(error, ::testing::HasSubstr("max_live_parameters (code)"));
  EXPECT_THAT(error_of([] { train_biased(paged(0).max_live_parameters(kWeight - 1)); }),
              ::testing::HasSubstr("Raise max_live_parameters"));
}

TEST(MaxReuseDistance, ReleasesWhatIsNotNeededSoon) {
  const auto without_prefetch = [] { return roomy().prefetch_pages(0); };
  const Trained kept = train_biased(without_prefetch());
  EXPECT_EQ(kept.last_step.releases, 0);
  EXPECT_GE(kept.live_after_forward, kLayers * kMiB);
  const Trained released = train_biased(without_prefetch().max_reuse_distance(0));
  EXPECT_GE(released.last_step.releases, 2 * kLayers - 2);
  EXPECT_LE(released.live_after_forward, 2 * kMiB);
  EXPECT_EQ(released.losses, kept.losses);
  // A distance of two layers keeps what backward needs first.
  const Trained near = train_biased(without_prefetch().max_reuse_distance(2 * (kWeight + kBias)));
  EXPECT_GT(near.live_after_forward, released.live_after_forward);
  EXPECT_LT(near.live_after_forward, kept.live_after_forward);
  EXPECT_EQ(near.losses, kept.losses);
}

TEST(PrefetchBucketSize, SaysHowManyElementsComeAhead) {
  const auto blocks = [] { return roomy().persistence_threshold(kBias); };  // pages of one weight
  const int64_t stays = kLayers * kBias * 4;
  const auto ahead = [&](const StrategyOptions& options) {
    return (train_biased(options).live_after_first_touch - stays) / kMiB - 1;
  };
  EXPECT_EQ(ahead(blocks().prefetch_bucket_size(0)), 0);
  EXPECT_EQ(ahead(blocks().prefetch_bucket_size(1)), 1);
  EXPECT_EQ(ahead(blocks().prefetch_bucket_size(kWeight)), 1);
  EXPECT_EQ(ahead(blocks().prefetch_bucket_size(kWeight + 1)), 2);
  EXPECT_EQ(ahead(blocks().prefetch_bucket_size(4 * kWeight)), 4);
  EXPECT_EQ(ahead(blocks()), 2) << "prefetch_pages, by default 2";
  EXPECT_EQ(ahead(blocks().prefetch_bucket_size(4 * kWeight).prefetch_pages(3)), 3)
      << "both given: both hold";
  EXPECT_EQ(train_biased(blocks().prefetch_bucket_size(4 * kWeight)).losses,
            train_biased(blocks().prefetch_bucket_size(0)).losses);
}

}  // namespace
}  // namespace zero::testing
