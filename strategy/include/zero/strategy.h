// SPDX-License-Identifier: Apache-2.0
// zero::Strategy: what a training loop selects. It turns flags into one typed engine config and
// puts a model and its optimizer under ZeRO partitioning and offload; the model's code stays as it
// is.
//
//   auto strategy = zero::Strategy::from_yaml("configs/zero_stage_3_offload.yaml");
//   strategy.setup(*model, optimizer);
//   for (auto& batch : *loader) {
//     optimizer.zero_grad();
//     auto loss = model->forward(batch);
//     strategy.backward(loss);   // or loss.backward()
//     strategy.step();           // fused sharded update, clips when gradient_clipping is set
//   }
//
// Every rank runs the same calls in the same order. A Strategy belongs to the thread that made it;
// forward and backward may run on other threads. Errors are c10::Error with a sentence that names
// what to do instead.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zero/activation_report.h"
#include "zero/engine_config.h"
#include "zero/memory_report.h"
#include "zero/step_report.h"
#include "zero/strategy_options.h"

namespace torch::nn {
class Module;
template <class Contained>
class ModuleHolder;
}  // namespace torch::nn
namespace torch::optim {
class Optimizer;
}

namespace zero {

class Engine;
class Scheduler;

class Strategy {
 public:
  explicit Strategy(StrategyOptions options = {});
  // A preset by name: zero_stage_1, zero_stage_2, zero_stage_3, zero_stage_1_offload,
  // zero_stage_2_offload, zero_stage_3_offload; "deepspeed" in place of "zero" too.
  explicit Strategy(const std::string& preset, const StrategyOptions& overrides = {});
  // A YAML file or a DeepSpeed JSON file, by its ending. What `arguments` say (--flag=value, --set
  // path=value) wins over the file, what `overrides` gives in code over both. The variable
  // LIBZERO_SET ("path=value;path=value") stands between file and arguments, in all constructors.
  static Strategy from_file(const std::filesystem::path& file,
                            const StrategyOptions& overrides = {},
                            const std::vector<std::string>& arguments = {});
  static Strategy from_yaml(const std::filesystem::path& file,
                            const StrategyOptions& overrides = {});
  static Strategy from_json(const std::filesystem::path& file,
                            const StrategyOptions& overrides = {});

  Strategy(Strategy&&) noexcept;
  Strategy& operator=(Strategy&&) noexcept;
  ~Strategy();

  // The typed result of all flags.
  const RunConfig& config() const;
  const EngineConfig& engine_config() const;
  // What was translated, rounded, or does nothing here: one line each. Warned about once, too.
  const std::vector<std::string>& notices() const;
  // One line a flag: flag, engine key, value, where the value came from, which part of the engine
  // reads it.
  std::string forwarded() const;
  // The same as a JSON list of objects.
  std::string forwarded_json() const;

  // What the `optimizer` section describes, over these parameters. A section that was given and
  // from which nothing was built ends the first step() with an error.
  std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<at::Tensor> parameters) const;
  // What the `scheduler` section describes (zero/schedulers.h). Step it once an optimizer step, or give it to
  // Trainer::schedule_with().
  std::unique_ptr<Scheduler> make_scheduler(torch::optim::Optimizer& optimizer) const;

  // Joins the process group named by the environment, moves parameters and buffers to device(),
  // casts floating-point parameters to the compute precision, makes all ranks start from rank 0's
  // values, and points the optimizer's groups at this rank's fp32 master shards; state of earlier
  // steps comes along. Call it after model and optimizer exist; the optimizer must live as long as
  // the strategy is used. Ranks whose model or flags differ all get the same error.
  //
  // A second call with the same model goes on with another optimizer (one built anew each epoch) or
  // with one whose groups have changed: weights stay exactly as they are, the new optimizer brings
  // its own options and state, and one that still lives gets its parameters and state back.
  void setup(torch::nn::Module& model, torch::optim::Optimizer& optimizer);
  // Several optimizers, several models, or both: a parameter may be in one optimizer only.
  //   strategy.setup({&*generator, &*critic}, {&generator_optimizer, &critic_optimizer});
  void setup(const std::vector<torch::nn::Module*>& models,
             const std::vector<torch::optim::Optimizer*>& optimizers);
  // For evaluation alone: no gradients, no optimizer state.
  void setup(torch::nn::Module& model);
  // The same for a module holder (GPT model(...)) and a shared pointer.
  template <class Contained>
  void setup(const torch::nn::ModuleHolder<Contained>& model, torch::optim::Optimizer& optimizer) {
    setup(static_cast<torch::nn::Module&>(*model.ptr()), optimizer);
  }
  template <class Contained>
  void setup(const std::shared_ptr<Contained>& model, torch::optim::Optimizer& optimizer) {
    setup(static_cast<torch::nn::Module&>(*model), optimizer);
  }

  // loss.backward(), of the loss times the loss scale. The gradients are divided by it as they
  // arrive, so that all that reads them sees those of the loss itself. At precision fp16 a plain
  // loss.backward() is refused, unless loss_scale is 1.
  void backward(const at::Tensor& loss, bool retain_graph = false);
  // Clips if the config says so, updates the master shards, refreshes the compute weights, clears
  // the gradients: of all optimizers, with one norm. A gradient that is not finite on any rank makes
  // all ranks skip the update, or what nonfinite_gradients says: see StepReport. The host waits here
  // for the gradients of the device, unless clipping is off and nonfinite_gradients is apply.
  StepReport step();
  // The same for the parameters of one optimizer; the gradients of the others stay.
  StepReport step(torch::optim::Optimizer& optimizer);
  // The tensor on device(), and a floating-point one in the precision of the compute weights:
  // inputs and targets of a model that computes in 16 bits. Integers, booleans and complex numbers
  // keep their dtype. Nothing calls this but you.
  at::Tensor to_compute(const at::Tensor& tensor) const;
  // What the next backward() multiplies its loss with; 1 unless precision is fp16.
  double loss_scale() const;
  // Scales the reduced gradients so that their global norm is at most max_norm; returns the norm
  // before. `norm_type` is any p above 0, or infinity for the largest magnitude.
  double clip_grad_norm_(double max_norm, double norm_type = 2.0);
  // Every element of the mean gradients comes to lie in [-clip_value, clip_value].
  void clip_grad_value_(double clip_value);
  // Forgets the gradients, as optimizer.zero_grad() does.
  void zero_grad();
  // The whole mean gradient of one parameter, in the parameter's shape, fp32, on device();
  // undefined when there is none. Collective: every rank must ask for the same parameters in the
  // same order.
  at::Tensor gradient(const at::Tensor& parameter) const;

  // Where batches and activations live: cuda:LOCAL_RANK, which becomes the current device, or cpu.
  at::Device device() const;
  int rank() const;
  int world_size() const;
  // True on every rank when it is true on one. Collective: ranks that have finished their part go on
  // calling until none has work left.
  bool any(bool here) const;
  // Bytes by class, predicted, booked and real. See memory_report.h.
  MemoryReport memory_report() const;
  // Checkpointed regions, and what of them was moved. See activation_report.h.
  ActivationReport activation_report() const;
  // Puts the model back: whole parameters in the compute precision, plain storages, no hooks; the
  // optimizer gets its parameters back, and its state in whole tensors, so that a plain loop goes on
  // where this one was. The destructor does the same, but with several ranks it does not gather the
  // state, and nothing is put back when an exception unwinds and other ranks would be needed.
  void teardown();

 private:
  friend class GatheredParameters;
  explicit Strategy(Resolved resolved);
  static Resolved resolved(const StrategyOptions& code, std::vector<Flags> layers);
  void complete(const std::vector<torch::nn::Module*>& models);
  Engine& engine() const;
  void end() noexcept;
  StepReport checked(StepReport report);
  void check_sections_used() const;
  std::unique_ptr<RunConfig> config_;  // rooms of the engine refer to it
  std::vector<std::string> notices_;
  bool sections_checked_ = false;
  std::unique_ptr<Engine> engine_;
};

// Makes whole parameters readable by raw pointers (torch::save, data_ptr, InputArchive) while it
// lives.
//
//   { zero::GatheredParameters all(strategy); torch::save(model, "model.pt"); }
//   {
//     zero::GatheredParameters head(strategy, {model->head->weight}, /*modifier_rank=*/0);
//     if (strategy.rank() == 0) fill(model->head->weight.data_ptr<float>());
//   }
//
// With a modifier rank, that rank's values are sent to all ranks and to the homes when the scope
// ends; without one, changes made by raw pointers inside the scope are not kept. Collective: every
// rank opens and closes it.
class GatheredParameters {
 public:
  explicit GatheredParameters(Strategy& strategy, std::optional<int> modifier_rank = std::nullopt);
  GatheredParameters(Strategy& strategy, const std::vector<at::Tensor>& parameters,
                     std::optional<int> modifier_rank = std::nullopt);
  GatheredParameters(const GatheredParameters&) = delete;
  GatheredParameters& operator=(const GatheredParameters&) = delete;
  ~GatheredParameters() noexcept(false);

 private:
  struct Scope;
  static std::unique_ptr<Scope> open(Strategy& strategy,
                                     const std::optional<std::vector<at::Tensor>>& parameters,
                                     std::optional<int> modifier_rank);
  std::unique_ptr<Scope> scope_;
};

}  // namespace zero
