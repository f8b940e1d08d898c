// SPDX-License-Identifier: Apache-2.0
#include "zero/checkpoint.h"

#include <c10/util/Type.h>

#include "plugin/activations/region.h"
#include "plugin/activations/region_listener.h"
#include "plugin/autograd/backward_observer.h"

namespace zero {

namespace detail {

namespace {

std::string name_of(const CheckpointOptions& options, const std::type_info& function) {
  return options.name().empty() ? c10::demangle(function.name()) : options.name();
}

}  // namespace

struct RegionRun::Scope {
  std::shared_ptr<RecordedRegion> region;
  SavedTensorScope saved{*region};
  ObservedRun observed{region->name(), /*again=*/false};
};

RegionRun::RegionRun(const CheckpointOptions& options, const std::type_info& function,
                     const std::vector<at::Tensor>& arguments, RunAgain run_again) {
  install_observed_engine();
  scope_.reset(new Scope{std::make_shared<RecordedRegion>(
      RecordedRegion::Options{name_of(options, function), options.preserve_rng(),
                              options.check_determinism()},
      arguments, std::move(run_again))});
}

RegionRun::~RegionRun() = default;

void RegionRun::finish() { scope_->region->require_unchanged_arguments("by the region itself"); }

void no_tensor_returned(const CheckpointOptions& options, const std::type_info& function) {
  TORCH_CHECK(false, "LibZeRO: checkpointed region '", name_of(options, function),
              "' returned no tensor, so nothing of it could ever have a gradient. Return what it "
              "computes.");
}

}  // namespace detail

at::Tensor checkpoint_sequential(torch::nn::Sequential modules, int64_t segments,
                                 at::Tensor input) {
  const auto count = static_cast<int64_t>(modules->size());
  TORCH_CHECK(segments >= 1 && segments <= count, "LibZeRO: checkpoint_sequential was asked for ",
              segments, " segments of ", count, " modules. Ask for 1 to ", count, ".");
  const auto run = [modules = modules.ptr()](int64_t from, int64_t to, at::Tensor x) {
    for (auto module = modules->begin() + from; module != modules->begin() + to; ++module) {
      x = module->forward(std::move(x));
    }
    return x;
  };
  for (int64_t segment = 0; segment < segments; ++segment) {
    const int64_t from = count * segment / segments, to = count * (segment + 1) / segments;
    if (segment + 1 == segments) return run(from, to, input);
    std::string name = "modules ";
    name.append(std::to_string(from)).append(" to ").append(std::to_string(to - 1));
    input = checkpoint(CheckpointOptions().name(name), run, from, to, input);
  }
  return input;
}

}  // namespace zero
