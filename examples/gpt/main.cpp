// SPDX-License-Identifier: Apache-2.0
// Trains a byte-level GPT on a dictionary under a zero::Strategy.
//
//   zero-launch -n 2 gpt --config configs/gpt_zero3_offload.yaml --output demo-output
//
// Prints where every flag goes, trains, tells which part of the engine has read each flag and where
// every byte is, and leaves report.svg and metrics.csv. Exits with 1 when the model did not learn.
#include <torch/torch.h>
#include <zero/checkpoint.h>
#include <zero/progress.h>
#include <zero/strategy.h>
#include <zero/trainer.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <numbers>
#include <optional>

#include "examples/gpt/corpus.h"
#include "examples/gpt/generate.h"
#include "examples/gpt/model.h"
#include "examples/gpt/run_outputs.h"

namespace {

constexpr int64_t kRows = 8;  // of a micro-batch, on each rank
constexpr int64_t kHeldOutBatches = 8, kHeldOutRows = 16;
constexpr double kPeakRate = 2e-3, kLastShare = 0.1, kWarmUpShare = 0.05;
constexpr double kLearned = 0.8;  // of its first value; the held-out loss must end below
constexpr const char* kPrompt = "Lantern \\Lan\"tern\\, n. ";
constexpr int64_t kSampleBytes = 320;
constexpr double kTemperature = 0.7;

struct Arguments {
  std::filesystem::path config, corpus = gpt::kDictionary, output = "demo-output";
  uint64_t seed = 1;
  std::optional<int64_t> steps;
  std::optional<int> stage;
  std::optional<std::string> precision;
  bool checkpoint = false;
};

// Linear warm-up, then a cosine down to a tenth. steps: of the whole run; step: 1 is the first.
double learning_rate(int64_t step, int64_t steps) {
  const double warm_up = std::max(1.0, kWarmUpShare * static_cast<double>(steps));
  const auto done = static_cast<double>(step);
  if (done <= warm_up) return kPeakRate * done / warm_up;
  const double part = (done - warm_up) / std::max(1.0, static_cast<double>(steps) - warm_up);
  return kPeakRate *
         (kLastShare + (1.0 - kLastShare) * 0.5 * (1.0 + std::cos(std::numbers::pi * part)));
}

zero::Strategy make_strategy(const Arguments& arguments) {
  zero::StrategyOptions overrides;  // only what the command line gives may win over the file
  if (arguments.stage) overrides.stage(*arguments.stage);
  if (arguments.precision) overrides.precision(*arguments.precision);
  return zero::Strategy::from_yaml(arguments.config, overrides);
}

struct ModelSize {
  int64_t parameters = 0, bytes = 0;
};

ModelSize size_of(const torch::nn::Module& model) {
  ModelSize size;
  for (const auto& parameter : model.parameters()) {
    size.parameters += parameter.numel();
    size.bytes += parameter.numel() * parameter.element_size();
  }
  return size;
}

zero::TrainSummary train(zero::Strategy& strategy, gpt::GPT& model, torch::optim::AdamW& optimizer,
                         const gpt::Corpus& corpus, const zero::TrainerOptions& options,
                         uint64_t seed) {
  const auto device = strategy.device();
  gpt::WindowSampler windows(corpus, kRows, model->context(), seed, strategy.rank());
  const auto held_out = corpus.held_out_batches(kHeldOutBatches, kHeldOutRows, model->context());

  auto draw = [&] { return windows.next(); };
  auto loss = [&](const gpt::Batch& batch) {
    return model->loss(batch.tokens.to(device), batch.target.to(device));
  };
  auto tokens = [](const gpt::Batch& batch) { return batch.tokens.numel(); };
  auto held_out_loss = [&] {
    double sum = 0.0;
    for (const auto& batch : held_out) sum += loss(batch).item<double>();
    return sum / static_cast<double>(held_out.size());
  };
  auto set_rate = [&](int64_t step) {
    for (auto& group : optimizer.param_groups()) {
      auto& adamw = static_cast<torch::optim::AdamWOptions&>(group.options());
      adamw.lr(learning_rate(step, options.steps()));
    }
  };

  zero::Trainer trainer(options);
  trainer.on_step_begin(set_rate).validate_with(*model, held_out_loss);
  return trainer.fit(strategy, draw, loss, tokens);
}

int run(const Arguments& arguments) {
  zero::TrainerOptions options = zero::TrainerOptions::from_yaml(arguments.config);
  if (arguments.steps) options.steps(*arguments.steps);
  const gpt::Corpus corpus = gpt::Corpus::from_file(arguments.corpus);

  torch::manual_seed(arguments.seed);
  gpt::GPT model;
  if (arguments.checkpoint) {
    model->run_blocks_by([](gpt::Block block, torch::Tensor x) {
      return zero::checkpoint(zero::CheckpointOptions().name("block"), block, std::move(x));
    });
  }
  torch::optim::AdamW optimizer(
      model->parameters(),
      torch::optim::AdamWOptions(kPeakRate).betas({0.9, 0.95}).weight_decay(0.1));
  zero::Strategy strategy = make_strategy(arguments);
  strategy.setup(*model, optimizer);

  const int world_size = strategy.world_size();
  const std::string ranks = std::to_string(world_size) + (world_size == 1 ? " rank" : " ranks");
  const ModelSize size = size_of(*model);  // in the compute precision by now
  const std::string parameters =
      zero::format_count(static_cast<double>(size.parameters)) + " parameters";
  const bool tells = strategy.rank() == 0;
  if (tells) {
    std::cout << strategy.forwarded() << '\n'
              << parameters << ", " << zero::format_bytes(static_cast<double>(size.bytes)) << "; "
              << ranks << " on " << strategy.device().type() << ", " << corpus.train().size()
              << " bytes of text; losses are in nats, of 1.44 bits each\n";
  }
  const zero::TrainSummary summary =
      train(strategy, model, optimizer, corpus, options, arguments.seed);
  const std::string sample =
      gpt::generate(model, kPrompt, kSampleBytes, kTemperature, arguments.seed);

  const bool learned =
      summary.validations.back().loss < kLearned * summary.validations.front().loss;
  if (tells) {
    const zero::MemoryReport memory = strategy.memory_report();
    const std::string stage = std::to_string(strategy.engine_config().stage.peek());
    gpt::write_outputs(arguments.output,
                       "Byte-level GPT, " + parameters + ", ZeRO stage " + stage + ", " + ranks,
                       summary, memory);
    std::cout << '\n'
              << strategy.forwarded() << '\n'
              << memory.table() << '\n'
              << gpt::printable(sample) << "\n\n";
    std::cout << gpt::summary_line(summary, world_size) << std::endl;
    if (!learned) {
      std::cerr << "gpt: the held-out loss did not fall below " << kLearned
                << " of what it began with; train for more steps" << std::endl;
    }
  }
  return learned ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Trains a byte-level GPT under ZeRO partitioning and offload");
  app.add_option("--config", arguments.config, "YAML file with the strategy's flags")->required();
  app.add_option("--corpus", arguments.corpus, "text, .gz or dictd .dz file")
      ->capture_default_str();
  app.add_option("--steps", arguments.steps, "optimizer steps, instead of the file's");
  app.add_option("--output", arguments.output, "folder for report.svg and metrics.csv")
      ->capture_default_str();
  app.add_option("--seed", arguments.seed, "of weights, windows and sample")->capture_default_str();
  app.add_option("--stage", arguments.stage, "ZeRO stage, instead of the file's");
  app.add_option("--precision", arguments.precision, "fp32 or bf16, instead of the file's");
  app.add_flag("--checkpoint", arguments.checkpoint,
               "run each block again in backward instead of keeping its activations");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(arguments);
  } catch (const c10::Error& error) {
    std::cerr << "gpt: " << error.what_without_backtrace() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "gpt: " << error.what() << std::endl;
  }
  return 1;
}
