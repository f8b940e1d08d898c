// SPDX-License-Identifier: Apache-2.0
#include "plugin/activations/region.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <ATen/record_function.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <sstream>

#include "plugin/activations/region_listener.h"

namespace zero {

namespace {

// Ends a second run at the point where all is there. No std::exception, so that a function's own
// handlers let it pass.
struct AllCollected {};

// The node that has made `tensor`, if this thread made it since `first_sequence_number`. (Numbers
// count per thread.)
std::type_index producer_of(const at::Tensor& tensor, uint64_t first_sequence_number) {
  const auto& node = tensor.grad_fn();
  const bool inside = node != nullptr && node->sequence_nr() >= first_sequence_number &&
                      node->thread_id() == at::RecordFunction::currentThreadId();
  return inside ? std::type_index(typeid(*node)) : std::type_index(typeid(void));
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (at::equal(a, b)) return true;
  if (!a.is_floating_point()) return false;
  const at::Tensor nans = at::isnan(a);  // NaN is not equal to itself
  return at::equal(nans, at::isnan(b)) && at::equal(a.masked_fill(nans, 0), b.masked_fill(nans, 0));
}

}  // namespace

SavedTensorFacts::SavedTensorFacts(const at::Tensor& tensor, uint64_t first_sequence_number)
    : dtype(tensor.scalar_type()),
      device(tensor.device()),
      sizes(tensor.sizes().begin(), tensor.sizes().end()),
      producer(producer_of(tensor, first_sequence_number)) {}

std::string SavedTensorFacts::text() const {
  std::ostringstream text;
  text << dtype << at::IntArrayRef(sizes) << " on " << device;
  if (producer != typeid(void)) text << " made by " << c10::demangle(producer.name());
  return text.str();
}

// The hooks of one tensor that the first run has saved: its place.
class SavedInRegion final : public torch::autograd::SavedVariableHooks {
 public:
  explicit SavedInRegion(std::shared_ptr<RecordedRegion> region) : region_(std::move(region)) {}
  void call_pack_hook(const at::Tensor& tensor) override { place_ = region_->record(tensor); }
  at::Tensor call_unpack_hook() override { return region_->give(place_); }

 private:
  std::shared_ptr<RecordedRegion> region_;
  size_t place_ = 0;
};

// The policy of a second run. Its graph is thrown away, but a function may take gradients inside
// itself: so its saved tensors stay where they are, too.
class Collector final : public SavedTensorPolicy {
 public:
  explicit Collector(RecordedRegion& region)
      : region_(region), first_sequence_number_(at::sequence_number::peek()) {}
  SavedTensorHooks hooks(uint64_t /*region*/) override { return std::make_unique<Hooks>(*this); }

 private:
  class Hooks final : public torch::autograd::SavedVariableHooks {
   public:
    explicit Hooks(Collector& collector) : collector_(collector) {}
    void call_pack_hook(const at::Tensor& tensor) override {
      tensor_ = tensor.detach();
      collector_.region_.collect(tensor, collector_.first_sequence_number_);
    }
    at::Tensor call_unpack_hook() override { return tensor_; }

   private:
    Collector& collector_;  // packs while the run goes on, and only then
    at::Tensor tensor_;
  };
  RecordedRegion& region_;
  const uint64_t first_sequence_number_;
};

RecordedRegion::Argument::Argument(const at::Tensor& argument) : tensor(argument) {
  if (!argument.defined()) return;
  requires_grad = argument.requires_grad();
  if (!argument.is_inference()) unchanged.emplace(argument);
}

at::Tensor RecordedRegion::Argument::value() const {
  const at::Tensor kept = hooks ? hooks->call_unpack_hook() : tensor;
  if (!kept.defined()) return {};
  return kept.detach().set_requires_grad(requires_grad);
}

namespace {

uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::vector<at::Device> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) devices.push_back(tensor.device());
  }
  return devices;
}

}  // namespace

RecordedRegion::RecordedRegion(Options options, const std::vector<at::Tensor>& arguments,
                               RunAgain run_again)
    : number_(next_number()),
      options_(std::move(options)),
      run_again_(std::move(run_again)),
      environment_(Environment::current(options_.preserve_rng, devices_of(arguments))),
      first_sequence_number_(at::sequence_number::peek()),
      arguments_(arguments.begin(), arguments.end()) {}

SavedTensorHooks RecordedRegion::hooks(uint64_t /*region*/) {
  return std::make_unique<SavedInRegion>(shared_from_this());
}

size_t RecordedRegion::record(const at::Tensor& tensor) {
  if (!arguments_kept_) keep_arguments();
  if (is_parameter_like(tensor)) parameters_.emplace_back(tensor);
  if (options_.check_determinism) first_saved_.push_back(tensor.detach());
  facts_.emplace_back(tensor, first_sequence_number_);
  return facts_.size() - 1;
}

// Under the policy outside: an enclosing region saves them, or the engine moves them.
void RecordedRegion::keep_arguments() {
  arguments_kept_ = true;
  for (Argument& argument : arguments_) {
    if (!argument.tensor.defined()) continue;
    argument.hooks = hooks_outside(*this, number_);
    if (argument.hooks) {
      argument.hooks->call_pack_hook(argument.tensor);
      argument.tensor.reset();
    } else {
      argument.tensor = argument.tensor.detach();
    }
  }
}

void RecordedRegion::require_unchanged_arguments(const char* when) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    TORCH_CHECK(!arguments_[i].unchanged || arguments_[i].unchanged->still(),
                "LibZeRO: checkpointed region '", options_.name, "': tensor ", i + 1,
                " of its arguments was changed in place ", when,
                ", so the region cannot run again as it did. Use an operator that is not in place, "
                "or clone the tensor first.");
  }
}

void RecordedRegion::require_unchanged_parameters() const {
  for (const Unchanged& parameter : parameters_) {
    TORCH_CHECK(parameter.still(), "LibZeRO: checkpointed region '", options_.name,
                "': a parameter that it uses was changed in place between forward and backward, so "
                "the region cannot run again as it did. Run backward before the optimizer's step.");
  }
}

at::Tensor RecordedRegion::give(size_t index) {
  const std::lock_guard lock(mutex_);
  saved_again_.resize(facts_.size());
  if (!saved_again_[index].defined()) run_again();
  at::Tensor tensor = std::move(saved_again_[index]);
  saved_again_[index].reset();
  if (torch::autograd::get_current_graph_task_id() == -1) saved_again_.clear();  // no pass asks
  return tensor;
}

void RecordedRegion::run_again() {
  require_unchanged_arguments("between forward and backward");
  require_unchanged_parameters();
  saved_again_.assign(facts_.size(), at::Tensor());
  collected_ = 0;
  try {
    std::vector<at::Tensor> values;
    for (const Argument& argument : arguments_) values.push_back(argument.value());
    const at::AutoGradMode with_graph(true);
    const Environment::Restored environment(environment_);
    Collector collector(*this);
    const SavedTensorScope scope(collector);
    const ObservedRun run(options_.name, /*again=*/true);
    run_again_(values);
  } catch (const AllCollected&) {
  } catch (...) {
    saved_again_.clear();
    throw;
  }
  if (!complete()) {
    saved_again_.clear();
    TORCH_CHECK(false, "LibZeRO: checkpointed region '", options_.name, "' saved ", facts_.size(),
                " tensors for backward in its first run, but ", collected_,
                " in its second. The function must do the same both times: look for state that it "
                "changes or reads outside its arguments.");
  }
  forget_after_this_pass();
}

void RecordedRegion::collect(const at::Tensor& tensor, uint64_t first_sequence_number) {
  if (complete()) throw AllCollected();  // the function has swallowed the first one
  const SavedTensorFacts now(tensor, first_sequence_number);
  const SavedTensorFacts& first = facts_[collected_];
  TORCH_CHECK(now == first, "LibZeRO: checkpointed region '", options_.name,
              "': of what it saves for backward, number ", collected_ + 1, " was ", first.text(),
              " in the first run, but is ", now.text(),
              " in the second. The function must do the same both times: look for state that it "
              "changes or reads outside its arguments.");
  TORCH_CHECK(!options_.check_determinism || same_bits(tensor, first_saved_[collected_]),
              "LibZeRO: checkpointed region '", options_.name,
              "': of what it saves for backward, number ", collected_ + 1, ", ", first.text(),
              ", has other values in the second run than in the first. The function does not "
              "repeat itself: look for state that it reads, and for operators that are not "
              "deterministic.");
  saved_again_[collected_++] = tensor.detach();
  if (complete()) throw AllCollected();
}

// A pass may end without asking for all that is there.
void RecordedRegion::forget_after_this_pass() {
  if (torch::autograd::get_current_graph_task_id() == -1) return;
  torch::autograd::Engine::get_default_engine().queue_callback([region = weak_from_this()] {
    const auto alive = region.lock();
    if (!alive) return;
    const std::lock_guard lock(alive->mutex_);
    alive->saved_again_.clear();
  });
}

}  // namespace zero
