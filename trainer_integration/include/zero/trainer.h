// SPDX-License-Identifier: Apache-2.0
// zero::Trainer: the loop around a strategy. It draws micro-batches, accumulates, steps, validates,
// logs and reports; it owns neither model nor optimizer, and nothing in the engine depends on it.
//
//   zero::Trainer trainer(zero::TrainerOptions().steps(1000).log_every(20).validate_every(100));
//   trainer.validate_with(*model, [&] { return held_out_loss(model); });
//   auto loss = [&](const auto& batch) { return model->loss(batch.data, batch.target); };
//   auto tokens = [](const auto& batch) { return batch.data.numel(); };
//   auto summary = trainer.fit(strategy, *loader, loss, tokens);
//
// One step is gradient_accumulation_steps micro-batches (from the strategy's config): the loss of
// each is divided by their number, so the update is that of one batch of all of them. Every rank
// runs the same calls; callbacks run on every rank, in the thread that called fit(). Only rank 0
// prints. What a callback or a loss throws leaves fit() as it is, with the model back in the mode
// it had.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/arg.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "zero/memory_report.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class LRScheduler;
}

namespace zero {

class Strategy;
struct StepReport;

struct TrainerOptions {
  // What the `trainer:` map of a strategy's YAML file says; what it leaves out keeps its default.
  // Throws ConfigError with everything that is wrong in the file.
  static TrainerOptions from_yaml(const std::filesystem::path& file);

  // Optimizer steps; 0: `epochs` passes over the data. A last step that is not full is left out.
  TORCH_ARG(int64_t, steps) = 0;
  TORCH_ARG(int64_t, epochs) = 1;
  // Optimizer steps between two logged ones; the first and the last are logged too. 0: never.
  TORCH_ARG(int64_t, log_every) = 10;
  // Optimizer steps between two validations. Where validate_with() was called there is always one
  // before the first and one after the last step; 0: no other.
  TORCH_ARG(int64_t, validate_every) = 0;
  // Rank 0 prints a line for what is logged.
  TORCH_ARG(bool, progress) = true;
};

// A logged step.
struct StepInfo {
  int64_t step = 0;            // 1 is the first
  double loss = 0.0;           // this rank's mean over the step's micro-batches
  double gradient_norm = 0.0;  // global, before clipping; NaN when it was not computed
  double tokens_per_s = 0.0;   // of all ranks, taken to be alike, since the last logged step
  double seconds = 0.0;        // since fit() began, validation left out
  MemoryReport memory;
};

struct ValidationInfo {
  int64_t step = 0;  // steps done before it
  double loss = 0.0;
};

struct TrainSummary {
  int64_t steps = 0;
  int64_t skipped_steps = 0;         // gradients were not finite, so the update was left out
  int64_t unused_micro_batches = 0;  // the data ended inside a step: drawn, but part of no update
  int64_t tokens = 0;                // of this rank
  double seconds = 0.0;              // validation left out
  std::vector<StepInfo> log;
  std::vector<ValidationInfo> validations;
};

// One micro-batch, forward done. No value: the data's end, an epoch.
struct MicroBatch {
  at::Tensor loss;  // scalar, the mean over the micro-batch
  int64_t tokens = 0;
};
using NextMicroBatch = std::function<std::optional<MicroBatch>()>;

// A range of batches; anything else that fit() takes is a function.
template <class Source>
concept BatchRange = requires(Source& source) {
  source.begin();
  source.end();
};

// The batches of a range or of a function as one stream of forward passes. Refers to its arguments.
template <class Source, class Loss, class Tokens>
NextMicroBatch micro_batch_stream(Source& source, Loss& loss, Tokens& tokens) {
  auto forward = [&loss, &tokens](auto&& batch) {
    const auto count = static_cast<int64_t>(tokens(batch));
    return MicroBatch{loss(batch), count};
  };
  if constexpr (BatchRange<Source>) {
    auto position = std::make_shared<std::optional<decltype(source.begin())>>();
    return [&source, forward, position]() -> std::optional<MicroBatch> {
      if (*position) {
        ++**position;
      } else {
        position->emplace(source.begin());
      }
      if (**position == source.end()) {
        position->reset();
        return std::nullopt;
      }
      return forward(***position);
    };
  } else {
    return [&source, forward]() -> std::optional<MicroBatch> { return forward(source()); };
  }
}

// Who is told and who validates. Filled by Trainer.
struct TrainerCallbacks {
  std::vector<std::function<void(int64_t)>> on_step_begin;
  std::vector<std::function<void(const StepReport&)>> on_step_end;
  std::vector<std::function<void(const StepInfo&)>> on_log;
  std::vector<std::function<void(const ValidationInfo&)>> on_validation;
  std::vector<torch::optim::LRScheduler*> schedulers;
  torch::nn::Module* validated_model = nullptr;
  std::function<double()> held_out_loss;
};

class Trainer {
 public:
  explicit Trainer(TrainerOptions options = {}) : options_(std::move(options)) {}

  // Before each step, with its number: the place to set learning rates.
  Trainer& on_step_begin(std::function<void(int64_t step)> callback);
  // After each step, skipped ones included.
  Trainer& on_step_end(std::function<void(const StepReport&)> callback);
  // After each logged step.
  Trainer& on_log(std::function<void(const StepInfo&)> callback);
  Trainer& on_validation(std::function<void(const ValidationInfo&)> callback);
  // Steps the scheduler once after each optimizer step; a step that was skipped leaves it where it
  // is. It must outlive fit().
  Trainer& schedule_with(torch::optim::LRScheduler& scheduler);
  // `held_out_loss` runs without gradients and with the model in eval mode; each module's own mode
  // comes back after it. The model must outlive fit().
  Trainer& validate_with(torch::nn::Module& model, std::function<double()> held_out_loss);

  // `source` is a range of batches (a LibTorch DataLoader, a vector), drawn again for each epoch,
  // or a function that gives batches without end. `loss(batch)` runs the forward and returns a
  // scalar. `tokens(batch)` counts what is reported per second.
  template <class Source, class Loss, class Tokens>
  TrainSummary fit(Strategy& strategy, Source&& source, Loss&& loss, Tokens&& tokens) {
    return run(strategy, micro_batch_stream(source, loss, tokens), !BatchRange<Source>);
  }
  template <class Source, class Loss>
  TrainSummary fit(Strategy& strategy, Source&& source, Loss&& loss) {
    return fit(strategy, source, loss, [](const auto&) { return int64_t{0}; });
  }

 private:
  TrainSummary run(Strategy& strategy, const NextMicroBatch& next, bool endless);

  TrainerOptions options_;
  TrainerCallbacks callbacks_;
};

}  // namespace zero
