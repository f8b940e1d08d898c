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
Strategy& Strategy::operator=(Strategy&&) noexcept = default;

Strategy::~Strategy() {
  // While an exception unwinds, other ranks may be elsewhere: a collective here could wait for ever.
  if (engine_ && std::uncaught_exceptions() == 0) {
    try {
      engine_->teardown();
    } catch (const std::exception& problem) {
      TORCH_WARN("LibZeRO: the model could not be put back when its strategy ended: ",
                 problem.what());
    }
  }
}

const EngineConfig& Strategy::engine_config() const { return *config_; }
std::string Strategy::forwarded() const { return forwarded_report(*config_); }

void Strategy::setup(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  engine_->setup(model, &optimizer);
}
void Strategy::setup(torch::nn::Module& model) { engine_->setup(model, nullptr); }

void Strategy::backward(const at::Tensor& loss) { loss.backward(); }
StepReport Strategy::step() { return engine_->step(); }
double Strategy::clip_grad_norm_(double max_norm) { return engine_->clip_grad_norm_(max_norm); }
void Strategy::zero_grad() { engine_->zero_grad(); }
at::Tensor Strategy::gradient(const at::Tensor& parameter) const {
  return engine_->gradient(parameter);
}

at::Device Strategy::device() const { return engine_->device(); }
int Strategy::rank() const { return engine_->world().rank(); }
int Strategy::world_size() const { return engine_->world().world_size(); }
MemoryReport Strategy::memory_report() const { return engine_->memory_report(); }
void Strategy::teardown() { engine_->teardown(); }

struct GatheredParameters::Scope {
  Engine& engine;
  std::vector<ParameterPage*> pages;
  std::optional<int> modifier_rank;
  int exceptions_at_open = std::uncaught_exceptions();
};

GatheredParameters::GatheredParameters(Strategy& strategy, std::optional<int> modifier_rank)
    : GatheredParameters(strategy, {}, modifier_rank) {}

GatheredParameters::GatheredParameters(Strategy& strategy,
                                       const std::vector<at::Tensor>& parameters,
                                       std::optional<int> modifier_rank) {
  TORCH_CHECK(!modifier_rank || (*modifier_rank >= 0 && *modifier_rank < strategy.world_size()),
              "LibZeRO: the modifier rank of zero::GatheredParameters is ", modifier_rank.value_or(-1), ", but there are ",
              strategy.world_size(), " ranks.");
  scope_.reset(new Scope{*strategy.engine_, strategy.engine_->pages_of(parameters), modifier_rank});
  size_t pinned = 0;
  try {
    for (; pinned < scope_->pages.size(); ++pinned) scope_->pages[pinned]->pin_beyond_budget();
  } catch (...) {
    while (pinned > 0) scope_->pages[--pinned]->unpin();
    throw;
  }
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
  for (ParameterPage* page : scope_->pages) page->unpin();
  if (problem) std::rethrow_exception(problem);
}

}  // namespace zero
