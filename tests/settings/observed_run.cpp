// SPDX-License-Identifier: Apache-2.0
#include "settings/observed_run.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/blocks.h"
#include "zero/checkpoint.h"

namespace zero::testing {
namespace {

constexpr int kLayers = 4;
constexpr int kSteps = 4;
constexpr int kMicroBatches = 24;
constexpr int64_t kRows = 256;  // an activation is larger than activation_offload_threshold

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

ObservedRun observed_run(const Lines& lines, const std::set<int64_t>& overflow_at) {
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
  torch::manual_seed(3);
  std::vector<at::Tensor> batches;
  for (int i = 0; i < kMicroBatches; ++i) {
    batches.push_back(torch::rand({kRows, 512}).to(run.device, run.weight_type));
  }
  const at::Tensor small = torch::ones({kRows, 1}, batches.front().options());
  const auto loss = [&](at::Tensor x) {
    for (auto& block : model->blocks) {
      x = checkpoint([&block](const at::Tensor& h,
                              const at::Tensor& scale) { return torch::tanh(block(h)) * scale; },
                     x, small);
    }
    const at::Tensor mean = x.to(at::kFloat).square().mean();
    return overflow_at.contains(run.micro_batches++) ? mean * INFINITY : mean;
  };
  Trainer trainer(TrainerOptions::from_yaml(file.path()).steps(kSteps).progress(false));
  trainer.on_step_end([&](const StepReport& report) { run.step = report; });
  run.summary = trainer.fit(strategy, batches, loss);
  run.memory = strategy.memory_report();
  run.activations = strategy.activation_report();
  run.config = strategy.engine_config();
  run.takes_own_optimizer = takes_own_optimizer(file.path());
  return run;
}

}  // namespace zero::testing
