// SPDX-License-Identifier: Apache-2.0
#include "zero/trainer.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <iostream>

#include "strategy/config_file.h"
#include "trainer_integration/loop.h"
#include "zero/strategy.h"

namespace zero {

TrainerOptions TrainerOptions::from_yaml(const std::filesystem::path& file) {
  const Flags flags = read_config_file(file);
  std::vector<std::string> problems = problems_of(flags);
  if (!problems.empty()) throw ConfigError(std::move(problems));
  const TrainerSettings& settings = flags.values.trainer;
  return TrainerOptions()
      .steps(settings.steps.read(Consumer::kTrainer))
      .log_every(settings.log_every.read(Consumer::kTrainer))
      .validate_every(settings.validate_every.read(Consumer::kTrainer));
}

Trainer& Trainer::on_step_begin(std::function<void(int64_t step)> callback) {
  callbacks_.on_step_begin.push_back(std::move(callback));
  return *this;
}

Trainer& Trainer::on_step_end(std::function<void(const StepReport&)> callback) {
  callbacks_.on_step_end.push_back(std::move(callback));
  return *this;
}

Trainer& Trainer::on_log(std::function<void(const StepInfo&)> callback) {
  callbacks_.on_log.push_back(std::move(callback));
  return *this;
}

Trainer& Trainer::on_validation(std::function<void(const ValidationInfo&)> callback) {
  callbacks_.on_validation.push_back(std::move(callback));
  return *this;
}

Trainer& Trainer::schedule_with(torch::optim::LRScheduler& scheduler) {
  callbacks_.schedulers.push_back(&scheduler);
  return *this;
}

Trainer& Trainer::validate_with(torch::nn::Module& model, std::function<double()> held_out_loss) {
  callbacks_.validated_model = &model;
  callbacks_.held_out_loss = std::move(held_out_loss);
  return *this;
}

TrainSummary Trainer::run(Strategy& strategy, const NextMicroBatch& next, bool endless) {
  TORCH_CHECK(options_.validate_every() == 0 || callbacks_.held_out_loss,
              "Trainer: validate_every is ", options_.validate_every(),
              ", but there is nothing to validate with; call validate_with()");
  LoopTarget target;
  target.rank = strategy.rank();
  target.world_size = strategy.world_size();
  target.accumulation_steps =
      strategy.engine_config().gradient_accumulation_steps.read(Consumer::kTrainer);
  target.backward = [&](const at::Tensor& loss) { strategy.backward(loss); };
  target.step = [&] { return strategy.step(); };
  target.zero_grad = [&] { strategy.zero_grad(); };
  target.memory_report = [&] { return strategy.memory_report(); };
  return run_loop(target, options_, callbacks_, next, endless, std::cout,
                  isatty(STDOUT_FILENO) == 1);
}

}  // namespace zero
