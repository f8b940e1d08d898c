// SPDX-License-Identifier: Apache-2.0
#include "zero/strategy.h"

#include <ATen/core/Tensor.h>

#include <exception>

#include "plugin/engine/engine.h"
#include "strategy/forwarded.h"
#include "strategy/presets.h"
#include "strategy/yaml_options.h"

namespace zero {

Strategy::Strategy(StrategyOptions options)
    : Strategy(std::make_unique<EngineConfig>(resolve(options))) {}

Strategy::Strategy(const std::string& preset)
    : Strategy(std::make_unique<EngineConfig>(resolve({}, {preset_flags(preset)}))) {}

Strategy Strategy::from_yaml(const std::filesystem::path& file, const StrategyOptions& overrides) {
  return Strategy(
      std::make_unique<EngineConfig>(resolve(overrides, {read_config_file(file).flags})));
}

Strategy::Strategy(std::unique_ptr<EngineConfig> config)
    : config_(std::move(config)), engine_(std::make_unique<Engine>(*config_)) {}

Strategy::Strategy(Strategy&&) noexcept = default;

Strategy& Strategy::operator=(Strategy&& other) noexcept {
  if (this != &other) {
    end();
    config_ = std::move(other.config_);
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

const EngineConfig& Strategy::engine_config() const {
  (void)engine();
  return *config_;
}
std::string Strategy::forwarded() const { return forwarded_report(engine_config()); }

void Strategy::setup(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  engine().setup({&model}, {&optimizer});
}
void Strategy::setup(const std::vector<torch::nn::Module*>& models,
                     const std::vector<torch::optim::Optimizer*>& optimizers) {
  engine().setup(models, optimizers);
}
void Strategy::setup(torch::nn::Module& model) { engine().setup({&model}, {}); }

void Strategy::backward(const at::Tensor& loss) { loss.backward(); }
StepReport Strategy::step() { return engine().step(); }
StepReport Strategy::step(torch::optim::Optimizer& optimizer) { return engine().step(&optimizer); }
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
