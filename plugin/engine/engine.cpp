// SPDX-License-Identifier: Apache-2.0
#include "plugin/engine/engine.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include "plugin/engine/model_inventory.h"
#include "plugin/engine/plan.h"

namespace zero {

namespace {

at::DeviceType device_type(DeviceChoice choice) {
  const bool available = torch::cuda::is_available();
  switch (choice) {
    case DeviceChoice::kCpu:
      return at::kCPU;
    case DeviceChoice::kCuda:
#ifndef LIBZERO_CUDA
      TORCH_CHECK(false,
                  "LibZeRO: device is set to cuda, but this LibZeRO was built without CUDA. Build "
                  "it where nvcc "
                  "and a CUDA LibTorch are, or set device to cpu.");
#endif
      TORCH_CHECK(available,
                  "LibZeRO: device is set to cuda, but no GPU can be used here. Set device to cpu "
                  "or auto.");
      return at::kCUDA;
    case DeviceChoice::kAuto:
      break;
  }
#ifdef LIBZERO_CUDA
  return available ? at::kCUDA : at::kCPU;
#else
  if (available) {
    TORCH_WARN_ONCE(
        "LibZeRO: a GPU is here, but this LibZeRO was built without CUDA; it runs on the CPU.");
  }
  return at::kCPU;
#endif
}

}  // namespace

World& Engine::world() {
  if (!world_) {
    world_ = World::join(device_type(config_.device.read(Consumer::kPartition)));
    const at::Device device = world_->device();
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  }
  return *world_;
}

at::Device Engine::device() { return world().device(); }

Engine::~Engine() = default;

void Engine::agree(const std::vector<NamedParameter>& parameters,
                   const std::vector<torch::optim::Optimizer*>& optimizers) {
  Control& control = world().control();
  control.agree("flags", flags_text(config_));
  control.agree("model", signature(parameters));
  control.agree("optimizer", signature(optimizers));
}

void Engine::move_buffers(torch::nn::Module& model) {
  at::NoGradGuard no_grad;
  for (auto& buffer : model.buffers()) {
    if (!buffer.defined() || buffer.numel() == 0) continue;
    if (buffer.device() != device()) buffer.set_data(buffer.to(device()));
    if (world_->world_size() == 1) continue;
    const at::Tensor values = buffer.contiguous();
    world_->reduce().broadcast(values, 0);
    if (!values.is_same(buffer)) buffer.copy_(values);
  }
}

void Engine::setup(const std::vector<torch::nn::Module*>& models,
                   const std::vector<torch::optim::Optimizer*>& optimizers) {
  const c10::InferenceMode normal(false);
  world();
  std::vector<NamedParameter> parameters;
  std::optional<std::string> error;
  if (pages_) {
    exchange_optimizers(models, optimizers);
    return;
  }
  try {
    parameters = inventory(models, optimizers);
    make_rooms(parameters, optimizers);
  } catch (const c10::Error& problem) {
    error = problem.what_without_backtrace();
  }
  try {
    world_->control().raise_together(error);
    agree(parameters, optimizers);
    activations_ = Activations::begin(config_, *world_, ledger_);
  } catch (...) {
    drop_rooms();  // the model has not been touched
    throw;
  }
  for (auto& parameter : parameters) at::Tensor(parameter.tensor).mutable_grad().reset();
  for (auto* model : models) move_buffers(*model);
  pages_->adopt([&](ParameterPage& page, const at::Tensor& exact_shard) {
    if (optimizers_) optimizers_->initialize(page, exact_shard);
  });
  known_.clear();
  for (const auto* model : models) known_.merge(impls_of(*model));
  models_.clear();
  for (auto* model : models) models_.push_back(model->weak_from_this());
  if (optimizers_) connect();
}

// Plans and allocates; throws when model, optimizer and flags do not fit together.
void Engine::make_rooms(const std::vector<NamedParameter>& parameters,
                        const std::vector<torch::optim::Optimizer*>& optimizers) {
  Plan plan = make_plan(config_, *world_);
  scaler_ = make_scaler(config_);
  ledger_ = std::make_shared<Ledger>();
  buffers_ = std::make_unique<Buffers>(*ledger_, device(), plan.pinning);
  const auto threads = config_.update_threads.read(Consumer::kOptimizer);
  pool_ = std::make_unique<kernels::ThreadPool>(
      threads > 0 ? static_cast<int>(threads) : kernels::ThreadPool::available_cores());
  pages_ = std::make_unique<ParameterPages>(parameters, plan.paging, *buffers_, *ledger_, *world_);
  if (optimizers.empty()) return;
  optimizers_ = std::make_unique<Optimizers>(optimizers, *pages_, plan.optimizer, *buffers_,
                                             *ledger_, *pool_);
  steps_.assign(optimizers.size(), 0);
  clock_.reset();
  if (config_.wall_clock_breakdown.read(Consumer::kOptimizer)) {
    clock_ = std::make_unique<StepClock>(device());
    plan.gradients.on_pass = [this](bool begins) {
      begins ? clock_->pass_begins() : clock_->pass_ends();
    };
  }
  gradients_ = std::make_unique<Gradients>(*pages_, plan.gradients, *buffers_, *ledger_,
                                           world_->reduce(), world_->control(), *pool_);
}

void Engine::drop_rooms() {
  if (activations_) activations_->end();
  activations_.reset();
  if (gradients_) {
    gradients_->on_presence = nullptr;
    gradients_->cleared_elsewhere = nullptr;
  }
  optimizers_.reset();  // before the gradients, which their handles look at
  gradients_.reset();
  pages_.reset();
}

void Engine::connect() {
  gradients_->attach();
  optimizers_->connect(*gradients_);
  gradients_->before_backward = [this] {
    optimizers_->notice_thawed(*gradients_, world_->control());
  };
  gradients_->on_begin = [this] { begin_backward(); };
  if (config_.precision.peek() == Precision::kFp16) {
    gradients_->on_optimizer_step = [this] { check_plain_step(); };
  }
  if (Residency* const residency = pages_->residency()) {
    gradients_->meet = [this](const char* place, const ParameterPage* page) {
      pages_->meet(place, page);
    };
    gradients_->careful = [residency] { return residency->careful(); };
  }
}

void Engine::teardown(bool keep_state) {
  if (!pages_) return;
  TORCH_CHECK(open_scopes_ == 0,
              "LibZeRO: a zero::GatheredParameters scope is open. Close it before teardown().");
  pages_->freshen();
  if (optimizers_ && (keep_state || world_->world_size() == 1))
    optimizers_->return_state(world_->reduce());
  pages_->hand_back();
  drop_rooms();
}

bool Engine::can_tear_down_alone() const {
  return !pages_ ||
         (open_scopes_ == 0 && (pages_->residency() == nullptr || world_->world_size() == 1));
}

void Engine::require_setup(const char* call) const {
  TORCH_CHECK(gradients_, "LibZeRO: ", call,
              " needs a model and an optimizer. Call setup(model, optimizer) first.");
}

void Engine::zero_grad() {
  require_setup("zero_grad()");
  gradients_->clear();
}

at::Tensor Engine::gradient(const at::Tensor& parameter) {
  require_setup("gradient()");
  return gradients_->whole(parameter);
}

void Engine::check_consulted() {
  if (consulted_) return;
  consulted_ = true;
  auto unread = unread_settings(config_);
  if (activations_) activations_->first_step_is_done(config_, unread);
  if (unread.empty()) return;
  std::string text = "LibZeRO: the first step is done, and these flags had no effect on it:";
  for (const auto& sentence : unread) text += "\n  " + sentence;
  TORCH_CHECK(false, text);
}

ActivationReport Engine::activation_report() const {
  return activations_ ? activations_->report() : ActivationReport();
}

MemoryReport Engine::memory_report() const {
  MemoryReport report = ledger_->report();
  read_process(report);
  if (buffers_) read_device(report, buffers_->device());
  if (gradients_) report.traffic = gradients_->traffic();
  if (pages_) {
    const TrafficCounters weights = pages_->traffic();
    report.traffic.weight_gathers = weights.weight_gathers;
    report.traffic.gathered_bytes = weights.gathered_bytes;
  }
  if (pages_) report.permanent_parameter_bytes = pages_->permanent_bytes();
  if (pages_ && pages_->residency() != nullptr) report.paging = pages_->residency()->counters();
  return report;
}

std::vector<ParameterPage*> Engine::pages_of(
    const std::optional<std::vector<at::Tensor>>& parameters) const {
  std::vector<bool> wanted(pages_->all().size(), !parameters);
  for (const auto& parameter : parameters.value_or(std::vector<at::Tensor>())) {
    TORCH_CHECK(parameter.defined(),
                "LibZeRO: an undefined tensor was given to zero::GatheredParameters.");
    ParameterPage* const page = pages_->page_of(parameter);
    if (page != nullptr) wanted[page->id()] = true;
    const bool found = page != nullptr || parameter.numel() == 0;
    TORCH_CHECK(found, "LibZeRO: a tensor of sizes ", parameter.sizes(),
                " was given to zero::GatheredParameters, but it is no parameter of the model that "
                "was set up.");
  }
  std::vector<ParameterPage*> pages;
  for (const auto& page : pages_->all()) {
    if (wanted[page->id()]) pages.push_back(page.get());
  }
  return pages;
}

std::vector<ParameterPage*> Engine::open_scope(
    const std::optional<std::vector<at::Tensor>>& parameters) {
  TORCH_CHECK(pages_, "LibZeRO: zero::GatheredParameters needs a model. Call setup first.");
  pages_->reclaim();
  const auto pages = pages_of(parameters);
  size_t pinned = 0;
  try {
    for (; pinned < pages.size(); ++pinned) pages[pinned]->pin_beyond_budget();
  } catch (...) {
    while (pinned > 0) pages[--pinned]->unpin();
    throw;
  }
  ++open_scopes_;
  return pages;
}

void Engine::close_scope(const std::vector<ParameterPage*>& pages) noexcept {
  for (ParameterPage* page : pages) page->unpin();
  --open_scopes_;
}

void Engine::take_values_from(int rank, const std::vector<ParameterPage*>& pages) {
  pages_->meet("the end of a scope with a modifier rank");
  for (ParameterPage* page : pages) {
    world_->reduce().broadcast(page->whole(), rank);
    page->pin(Access::kWrite);
    page->unpin();
    for (const auto& slice : page->layout().parameters)
      slice.parameter.tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace zero
