// SPDX-License-Identifier: Apache-2.0
#include "zero/strategy.h"

#include <ATen/core/Tensor.h>

#include <cstdlib>
#include <exception>

#include "plugin/engine/engine.h"
#include "strategy/auto_values.h"
#include "strategy/batch_numbers.h"
#include "strategy/config_file.h"
#include "strategy/forwarded.h"
#include "strategy/presets.h"
#include "strategy/training_objects.h"

namespace zero {
namespace {

Known known_of(const std::vector<torch::nn::Module*>& models) {
  Known known;
  std::vector<std::pair<int64_t, int64_t>> matrices;
  bool bf16 = true;
  bool any = false;
  for (const auto* model : models) {
    for (const at::Tensor& parameter : model->parameters()) {
      if (!parameter.is_floating_point()) continue;
      any = true;
      bf16 = bf16 && parameter.scalar_type() == at::kBFloat16;
      if (parameter.dim() == 2) matrices.emplace_back(parameter.size(1), parameter.numel());
    }
  }
  known.width = model_width(matrices);
  if (any) known.precision = bf16 ? Precision::kBf16 : Precision::kFp32;
  return known;
}

}  // namespace

Strategy::Strategy(StrategyOptions options) : Strategy(resolved(options, {})) {}

Strategy::Strategy(const std::string& preset, const StrategyOptions& overrides)
    : Strategy(resolved(overrides, {preset_flags(preset)})) {}

Strategy Strategy::from_file(const std::filesystem::path& file, const StrategyOptions& overrides,
                             const std::vector<std::string>& arguments) {
  return Strategy(resolved(overrides, {read_config_file(file), parse_arguments(arguments)}));
}

Strategy Strategy::from_yaml(const std::filesystem::path& file, const StrategyOptions& overrides) {
  return from_file(file, overrides);
}

Strategy Strategy::from_json(const std::filesystem::path& file, const StrategyOptions& overrides) {
  return from_file(file, overrides);
}

Resolved Strategy::resolved(const StrategyOptions& code, std::vector<Flags> layers) {
  layers.push_back(flags_from_environment());
  return resolve_all(code, std::move(layers));
}

Strategy::Strategy(Resolved resolved)
    : config_(std::make_unique<RunConfig>(std::move(resolved.config))),
      notices_(std::move(resolved.notices)),
      engine_(std::make_unique<Engine>(config_->engine)) {
  const char* const rank = std::getenv("RANK");
  if (notices_.empty() || (rank != nullptr && std::string_view(rank) != "0")) return;
  std::string text = "LibZeRO: about the configuration:";
  for (const std::string& notice : notices_) text.append("\n  ").append(notice);
  TORCH_WARN(text);
}

Strategy::Strategy(Strategy&&) noexcept = default;

Strategy& Strategy::operator=(Strategy&& other) noexcept {
  if (this != &other) {
    end();
    config_ = std::move(other.config_);
    notices_ = std::move(other.notices_);
    sections_checked_ = other.sections_checked_;
    engine_ = std::move(other.engine_);
  }
  return *this;
}

Strategy::~Strategy() { end(); }

void Strategy::end() noexcept {
  if (!engine_) return;
  // While an exception unwinds, other ranks may be elsewhere: a collective here could wait for
  // ever.
  if (std::uncaught_exceptions() > 0 && !engine_->can_tear_down_alone()) {
    TORCH_WARN("LibZeRO: an exception ends this strategy; the model's parameters end with it.");
  } else {
    try {
      engine_->teardown(/*keep_state=*/false);
    } catch (const c10::Error& problem) {
      TORCH_WARN("LibZeRO: the model could not be put back when its strategy ended: ",
                 problem.what_without_backtrace());
    } catch (const std::exception& problem) {
      TORCH_WARN("LibZeRO: the model could not be put back when its strategy ended: ",
                 problem.what());
    }
  }
  engine_.reset();
}

Engine& Strategy::engine() const {
  TORCH_CHECK(engine_, "LibZeRO: this strategy was moved from. Use the one it was moved to.");
  return *engine_;
}

const RunConfig& Strategy::config() const {
  (void)engine();
  return *config_;
}
const EngineConfig& Strategy::engine_config() const { return config().engine; }
const std::vector<std::string>& Strategy::notices() const { return notices_; }
std::string Strategy::forwarded() const { return forwarded_report(config()); }
std::string Strategy::forwarded_json() const { return zero::forwarded_json(config()); }

// What the configuration left open, and what can be checked only with a model and ranks.
void Strategy::complete(const std::vector<torch::nn::Module*>& models) {
  EngineConfig& config = config_->engine;
  std::vector<std::string> problems = fill_auto(config, known_of(models));
  fill_batch_numbers(config, world_size(), problems);
  if (!problems.empty()) throw ConfigError(std::move(problems));
  config.train_batch_size.read(Consumer::kStrategy);
  config.train_micro_batch_size_per_gpu.read(Consumer::kStrategy);
  // One micro batch a step is what every loop does by itself.
  if (config.gradient_accumulation_steps.peek() == 1) {
    config.gradient_accumulation_steps.read(Consumer::kTrainer);
  }
}

void Strategy::setup(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  setup(std::vector<torch::nn::Module*>{&model}, {&optimizer});
}
void Strategy::setup(const std::vector<torch::nn::Module*>& models,
                     const std::vector<torch::optim::Optimizer*>& optimizers) {
  (void)engine();
  complete(models);
  engine().setup(models, optimizers);
}
void Strategy::setup(torch::nn::Module& model) {
  setup(std::vector<torch::nn::Module*>{&model}, {});
}

void Strategy::backward(const at::Tensor& loss, bool retain_graph) {
  engine().backward(loss, retain_graph);
}
at::Tensor Strategy::to_compute(const at::Tensor& tensor) const {
  return engine().to_compute(tensor);
}
double Strategy::loss_scale() const { return engine().loss_scale(); }
StepReport Strategy::step() { return checked(engine().step()); }
StepReport Strategy::step(torch::optim::Optimizer& optimizer) {
  return checked(engine().step(&optimizer));
}

StepReport Strategy::checked(StepReport report) {
  if (!sections_checked_) {
    sections_checked_ = true;
    check_sections_used();
  }
  return report;
}

void Strategy::check_sections_used() const {
  std::string text;
  for (const std::string& sentence : unread_settings(config_->optimizer)) {
    text.append("\n  ").append(sentence);
  }
  for (const std::string& sentence : unread_settings(config_->scheduler)) {
    text.append("\n  ").append(sentence);
  }
  TORCH_CHECK(text.empty(), "LibZeRO: the first step is done, but nothing was built from:", text,
              "\nBuild them with make_optimizer() and make_scheduler(), or remove the sections.");
}

std::unique_ptr<torch::optim::Optimizer> Strategy::make_optimizer(
    std::vector<at::Tensor> parameters) const {
  return zero::make_optimizer(config().optimizer, std::move(parameters));
}

std::unique_ptr<Scheduler> Strategy::make_scheduler(torch::optim::Optimizer& optimizer) const {
  return zero::make_scheduler(config().scheduler, optimizer);
}

double Strategy::clip_grad_norm_(double max_norm, double norm_type) {
  return engine().clip_grad_norm_(max_norm, norm_type);
}
void Strategy::clip_grad_value_(double clip_value) { engine().clip_grad_value_(clip_value); }
void Strategy::zero_grad() { engine().zero_grad(); }
at::Tensor Strategy::gradient(const at::Tensor& parameter) const {
  return engine().gradient(parameter);
}

at::Device Strategy::device() const { return engine().device(); }
int Strategy::rank() const { return engine().world().rank(); }
int Strategy::world_size() const { return engine().world().world_size(); }
bool Strategy::any(bool here) const {
  return engine().world().control().any({here ? uint8_t{1} : uint8_t{0}}).front() != 0;
}
MemoryReport Strategy::memory_report() const { return engine().memory_report(); }
ActivationReport Strategy::activation_report() const { return engine().activation_report(); }
void Strategy::teardown() { engine().teardown(/*keep_state=*/true); }

struct GatheredParameters::Scope {
  Engine& engine;
  std::vector<ParameterPage*> pages;
  std::optional<int> modifier_rank;
  int exceptions_at_open = std::uncaught_exceptions();
};

GatheredParameters::GatheredParameters(Strategy& strategy, std::optional<int> modifier_rank)
    : scope_(open(strategy, std::nullopt, modifier_rank)) {}

GatheredParameters::GatheredParameters(Strategy& strategy,
                                       const std::vector<at::Tensor>& parameters,
                                       std::optional<int> modifier_rank)
    : scope_(open(strategy, parameters, modifier_rank)) {}

std::unique_ptr<GatheredParameters::Scope> GatheredParameters::open(
    Strategy& strategy, const std::optional<std::vector<at::Tensor>>& parameters,
    std::optional<int> modifier_rank) {
  TORCH_CHECK(!modifier_rank || (*modifier_rank >= 0 && *modifier_rank < strategy.world_size()),
              "LibZeRO: the modifier rank of zero::GatheredParameters is ",
              modifier_rank.value_or(-1), ", but there are ", strategy.world_size(), " ranks.");
  Engine& engine = strategy.engine();
  return std::unique_ptr<Scope>(new Scope{engine, engine.open_scope(parameters), modifier_rank});
}

GatheredParameters::~GatheredParameters() noexcept(false) {
  const bool unwinding = std::uncaught_exceptions() > scope_->exceptions_at_open;
  std::exception_ptr problem;
  if (scope_->modifier_rank && !unwinding) {
    try {
      scope_->engine.take_values_from(*scope_->modifier_rank, scope_->pages);
    } catch (...) {
      problem = std::current_exception();
    }
  }
  scope_->engine.close_scope(scope_->pages);
  if (problem) std::rethrow_exception(problem);
}

}  // namespace zero
