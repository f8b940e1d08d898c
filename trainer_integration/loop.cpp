// SPDX-License-Identifier: Apache-2.0
#include "trainer_integration/loop.h"

#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "zero/progress.h"

namespace zero {
namespace {

// Puts a model in eval mode and gives every module its own mode back: a module that was frozen in
// eval stays so.
class EvalScope {
 public:
  explicit EvalScope(torch::nn::Module& model) {
    model.apply(
        [this](torch::nn::Module& module) { modes_.emplace_back(&module, module.is_training()); });
    model.eval();
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;
  ~EvalScope() {
    // Parents come before their children in `modes_`, and train() reaches down.
    for (const auto& [module, training] : modes_) module->train(training);
  }

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
  torch::NoGradGuard no_grad_;
};

// Seconds of training: stands still while it is paused.
class TrainingClock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count() - left_out_;
  }
  template <class Work>
  void leave_out(Work&& work) {
    const auto begin = Clock::now();
    work();
    left_out_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  double left_out_ = 0.0;
};

class Loop {
 public:
  Loop(const LoopTarget& target, const TrainerOptions& options, const TrainerCallbacks& callbacks,
       const NextMicroBatch& next, ProgressPrinter* printer)
      : target_(target), options_(options), callbacks_(callbacks), next_(next), printer_(printer) {}

  TrainSummary run() {
    validate();
    while (options_.steps() == 0 || summary_.steps < options_.steps()) {
      const int64_t step = summary_.steps + 1;
      for (const auto& callback : callbacks_.on_step_begin) callback(step);
      if (!accumulate()) break;
      const StepReport report = target_.step();
      summary_.steps = step;
      gradient_norm_ = report.gradient_norm;
      for (const auto& callback : callbacks_.on_step_end) callback(report);
      if (report.applied) {
        for (auto* const scheduler : callbacks_.schedulers) scheduler->step();
      } else {
        told_skipped();
      }
      if (is_due(options_.log_every()) || (step == 1 && options_.log_every() > 0)) log();
      if (is_due(options_.validate_every())) validate();
    }
    TORCH_CHECK(summary_.steps > 0, "Trainer: the data ended before the first step. A step takes ",
                target_.accumulation_steps, " micro-batches, the source gave ",
                summary_.unused_micro_batches,
                "; give more data or lower gradient_accumulation_steps");
    if (options_.log_every() > 0 && summary_.log.back().step != summary_.steps) log();
    if (summary_.validations.empty() || summary_.validations.back().step != summary_.steps)
      validate();
    summary_.seconds = clock_.seconds();
    return std::move(summary_);
  }

 private:
  bool is_due(int64_t every) const { return every > 0 && summary_.steps % every == 0; }

  // Forward and backward of one step's micro-batches. False when the data ended before the last of
  // them.
  bool accumulate() {
    at::Tensor loss;
    int64_t tokens = 0;
    for (int64_t drawn = 0; drawn < target_.accumulation_steps;) {
      std::optional<MicroBatch> micro = next_();
      if (!micro) {
        if (starts_another_epoch()) continue;
        // Fewer micro-batches than a step has would be an update of another weight; they are left
        // out, and told.
        if (drawn > 0) target_.zero_grad();
        summary_.unused_micro_batches = drawn;
        return false;
      }
      drawn_in_epoch_ = true;
      ++drawn;
      TORCH_CHECK(micro->loss.defined() && micro->loss.numel() == 1,
                  "Trainer: the loss of a micro-batch must be one number; reduce it with mean()");
      const at::Tensor share = micro->loss / target_.accumulation_steps;
      target_.backward(share);
      // Summed where it lives: reading it here would make the host wait for the device in every
      // step.
      loss = loss.defined() ? loss + share.detach() : share.detach();
      tokens += micro->tokens;
    }
    loss_ = loss;
    summary_.tokens += tokens;
    return true;
  }

  bool starts_another_epoch() {
    ++epochs_done_;
    TORCH_CHECK(drawn_in_epoch_, "Trainer: the source gave no batch in epoch ", epochs_done_,
                "; check that it is not empty and can be iterated again");
    drawn_in_epoch_ = false;
    return options_.steps() > 0 || epochs_done_ < options_.epochs();
  }

  void log() {
    StepInfo info;
    info.step = summary_.steps;
    info.loss = loss_.item<double>();
    info.gradient_norm = gradient_norm_;
    info.seconds = clock_.seconds();
    const double elapsed = info.seconds - logged_seconds_;
    const auto tokens =
        static_cast<double>((summary_.tokens - logged_tokens_) * target_.world_size);
    info.tokens_per_s = elapsed > 0.0 ? tokens / elapsed : 0.0;
    info.memory = target_.memory_report();
    logged_seconds_ = info.seconds;
    logged_tokens_ = summary_.tokens;
    if (printer_ != nullptr) printer_->show(progress_of(info));
    summary_.log.push_back(info);
    for (const auto& callback : callbacks_.on_log) callback(info);
  }

  Progress progress_of(const StepInfo& info) const {
    Progress progress;
    progress.step = info.step;
    progress.total = options_.steps();
    progress.loss = info.loss;
    progress.tokens_per_s = info.tokens_per_s;
    progress.device_bytes = info.memory.device_allocated;
    progress.host_bytes = info.memory.process_rss;
    if (progress.total > 0) {
      progress.seconds_left = info.seconds / static_cast<double>(info.step) *
                              static_cast<double>(progress.total - info.step);
    }
    return progress;
  }

  void validate() {
    if (!callbacks_.held_out_loss) return;
    clock_.leave_out([&] {
      ValidationInfo info{summary_.steps, 0.0};
      {
        EvalScope eval(*callbacks_.validated_model);
        info.loss = callbacks_.held_out_loss();
      }
      summary_.validations.push_back(info);
      if (printer_ != nullptr) {
        printer_->note("step " + std::to_string(info.step) + "  held-out loss " +
                       format_loss(info.loss));
      }
      for (const auto& callback : callbacks_.on_validation) callback(info);
    });
  }

  void told_skipped() {
    ++summary_.skipped_steps;
    if (printer_ == nullptr) return;
    printer_->note("step " + std::to_string(summary_.steps) +
                   "  gradients were not finite: the update was left out");
  }

  const LoopTarget& target_;
  const TrainerOptions& options_;
  const TrainerCallbacks& callbacks_;
  const NextMicroBatch& next_;
  ProgressPrinter* printer_;  // null: nothing is printed

  TrainSummary summary_;
  TrainingClock clock_;
  at::Tensor loss_;  // scalar, the last whole step's
  double gradient_norm_ = std::numeric_limits<double>::quiet_NaN();
  int64_t epochs_done_ = 0;
  bool drawn_in_epoch_ = false;
  double logged_seconds_ = 0.0;
  int64_t logged_tokens_ = 0;
};

void check(const TrainerOptions& options, bool endless) {
  TORCH_CHECK(options.steps() >= 0 && options.epochs() >= 0 && options.log_every() >= 0 &&
                  options.validate_every() >= 0,
              "Trainer: steps, epochs, log_every and validate_every count upwards from 0");
  TORCH_CHECK(options.steps() > 0 || options.epochs() > 0,
              "Trainer: neither steps nor epochs is given; set one of them");
  TORCH_CHECK(options.steps() > 0 || !endless,
              "Trainer: a function as the source of batches has no end; "
              "give TrainerOptions::steps");
}

}  // namespace

TrainSummary run_loop(const LoopTarget& target, const TrainerOptions& options,
                      const TrainerCallbacks& callbacks, const NextMicroBatch& next, bool endless,
                      std::ostream& out, bool terminal) {
  check(options, endless);
  if (target.rank != 0 || !options.progress())
    return Loop(target, options, callbacks, next, nullptr).run();
  ProgressPrinter printer(out, terminal);
  TrainSummary summary = Loop(target, options, callbacks, next, &printer).run();
  if (summary.unused_micro_batches > 0) {
    printer.note("the data ended inside a step: " + std::to_string(summary.unused_micro_batches) +
                 " micro-batches are part of no update");
  }
  return summary;
}

}  // namespace zero
