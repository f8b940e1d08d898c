// SPDX-License-Identifier: Apache-2.0
#include "settings/observed_run.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/blocks.h"
#include "zero/checkpoint.h"

namespace zero::testing {
namespace {

constexpr int kLayers = 4;
constexpr int kMicroBatches = 24;

// A file of these lines; gone with the object.
class ConfigFile {
 public:
  explicit ConfigFile(const Lines& lines)
      : path_(std::filesystem::temp_directory_path() /
              ("zero_observed_" + std::to_string(getpid()) + ".yaml")) {
    std::ofstream out(path_);
    for (const auto& line : lines) out << line << '\n';
  }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  ~ConfigFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Of this process.
int threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

at::Tensor loss_through_regions(Blocks& model, at::Tensor x) {
  const at::Tensor shift = torch::ones({512}, x.options());
  for (size_t i = 0; i < model->blocks.size(); ++i) {
    const auto layer = [block = model->blocks[i].ptr()](const at::Tensor& h,
                                                        const at::Tensor& add) {
      return torch::tanh(block->forward(h + add));
    };
    x = checkpoint(CheckpointOptions().name("layer"), layer, x, shift);
  }
  return x.square().mean();
}

class OwnSgd : public torch::optim::SGD {
 public:
  using SGD::SGD;
};

bool takes_own_optimizer(const std::filesystem::path& file) {
  Blocks model(1);
  OwnSgd optimizer(model->parameters(), 0.1);
  Strategy strategy = Strategy::from_yaml(file);
  const std::string error = error_of([&] { strategy.setup(model, optimizer); });
  EXPECT_TRUE(error.empty() || error.find("zero_allow_untested_optimizer") != std::string::npos)
      << error;
  return error.empty();
}

}  // namespace

ObservedRun observed_run(const Lines& lines, bool regions) {
  const ConfigFile file(lines);
  Strategy strategy = Strategy::from_yaml(file.path());
  Blocks model(kLayers);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  ObservedRun run;
  const int threads_before = threads();
  strategy.setup(model, optimizer);
  run.threads_started = threads() - threads_before;
  run.device = strategy.device();
  run.weight_type = model->parameters()[0].scalar_type();
  torch::manual_seed(3 + (regions ? 0 : strategy.rank()));
  std::vector<at::Tensor> batches;
  for (int i = 0; i < kMicroBatches; ++i) {
    batches.push_back(torch::rand({regions ? 128 : 4, 512}).to(run.device, run.weight_type));
  }
  Trainer trainer(TrainerOptions::from_yaml(file.path()).steps(2).progress(false));
  trainer.on_step_end([&](const StepReport& report) { run.step = report; });
  run.summary = trainer.fit(strategy, batches, [&](const at::Tensor& batch) {
    ++run.micro_batches;
    return regions ? loss_through_regions(model, batch) : model->loss(batch);
  });
  run.memory = strategy.memory_report();
  run.activations = strategy.activation_report();
  run.config = strategy.engine_config();
  // Activation flags are for one strategy at a time.
  if (!regions) run.takes_own_optimizer = takes_own_optimizer(file.path());
  const GatheredParameters whole(strategy);
  for (const auto& weight : model->parameters()) {
    run.weights.push_back(weight.detach().to(at::kCPU, at::kFloat, /*non_blocking=*/false,
                                             /*copy=*/true));
  }
  return run;
}

}  // namespace zero::testing
