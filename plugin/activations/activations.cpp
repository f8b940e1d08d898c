// SPDX-License-Identifier: Apache-2.0
#include "plugin/activations/activations.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "plugin/autograd/backward_observer.h"
#include "plugin/paging/paged_storage.h"
#include "plugin/partition/world.h"

namespace zero {

namespace {

std::mutex acting_mutex;
std::weak_ptr<Activations> acting;  // the one whose flags act

// Empty for groups of one, which is told.
std::shared_ptr<Communicator> group_of(int64_t size, World& world) {
  if (size > 1) return world.neighbours(static_cast<int>(size));
  TORCH_WARN_ONCE(
      "LibZeRO: partition_activations is on, but model_parallel_size is 1: there is no group to "
      "partition over, so each rank keeps its activations whole.");
  return nullptr;
}

}  // namespace

// What autograd keeps of one tensor: a claim to moved bytes, or the tensor.
class Activations::Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  Hooks(std::shared_ptr<Activations> owner, uint64_t region)
      : owner_(std::move(owner)), region_(region) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    // A region looks after its arguments itself.
    if (region_ == 0) unchanged_.emplace(tensor);
    ticket_ = owner_->move(tensor, region_);
    if (ticket_) return;
    // Not an operator's own result, which would hold its operator, which holds this.
    kept_ = tensor.is_leaf() ? tensor : tensor.detach();
  }

  at::Tensor call_unpack_hook() override {
    const at::Tensor tensor = ticket_ ? ticket_->get() : kept_;
    TORCH_CHECK(!unchanged_ || unchanged_->still(), "LibZeRO: a tensor of sizes ", tensor.sizes(),
                " that backward needs was changed in place after an operator had saved it. Use an "
                "operator that is not in place, or clone the tensor first.");
    return tensor;
  }

 private:
  const std::shared_ptr<Activations> owner_;
  const uint64_t region_;
  std::unique_ptr<Stash::Ticket> ticket_;
  at::Tensor kept_;
  std::optional<Unchanged> unchanged_;
};

Activations::Activations(Options options, std::shared_ptr<Stash> stash)
    : options_(std::move(options)), stash_(std::move(stash)) {}

std::shared_ptr<Activations> Activations::begin(const EngineConfig& config, World& world,
                                                std::shared_ptr<Ledger> ledger) {
  constexpr auto kMe = Consumer::kActivations;
  Options options;
  options.device = world.device();
  options.to_host = config.cpu_checkpointing.read(kMe);
  options.synchronize = config.synchronize_checkpoint_boundary.read(kMe);
  options.profile = config.profile_activations.read(kMe);
  if (options.to_host) options.ratio = config.activation_offload_ratio.read(kMe);
  StashOptions stash{options.device, options.to_host ? Place::kHost : Place::kDevice, nullptr, 1};
  if (config.partition_activations.read(kMe)) {
    stash.group = group_of(config.model_parallel_size.read(kMe), world);
    options.partition = stash.group != nullptr;
  }
  const bool contiguous = config.contiguous_memory_optimization.read(kMe);
  if (contiguous) {
    TORCH_CHECK(config.number_checkpoints.given(),
                "LibZeRO: contiguous_memory_optimization needs number_checkpoints, the number of "
                "regions between forward and backward: the buffer has room for so many.");
    stash.tensors_a_block = config.number_checkpoints.read(kMe);
  }
  const bool moves = options.to_host || options.partition || contiguous;
  if (moves) options.threshold = config.activation_offload_threshold.read(kMe);
  if (!moves && !options.synchronize && !options.profile) return nullptr;

  const std::lock_guard lock(acting_mutex);
  TORCH_CHECK(acting.expired(),
              "LibZeRO: activation flags act on the whole process, and another strategy has some "
              "already. Give them to one strategy at a time, or tear the other one down first.");
  std::shared_ptr<Activations> made(new Activations(
      std::move(options),
      moves ? std::make_shared<Stash>(std::move(stash), std::move(ledger)) : nullptr));
  install_observed_engine();
  set_process_policy(made);
  set_region_listener(made);
  acting = made;
  return made;
}

void Activations::end() {
  const std::lock_guard lock(acting_mutex);
  set_process_policy(nullptr);
  set_region_listener(nullptr);
  acting.reset();
}

SavedTensorHooks Activations::hooks(uint64_t region) {
  if (!stash_) return nullptr;
  if (region == 0) {
    const std::lock_guard lock(mutex_);
    if (region_seen_ || !options_.to_host) return nullptr;
  }
  return std::make_unique<Hooks>(shared_from_this(), region);
}

bool Activations::movable(const at::Tensor& tensor) const {
  return tensor.layout() == at::kStrided && tensor.has_storage() &&
         tensor.device() == options_.device && !tensor.is_nested() && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor.is_inference() &&
         !is_parameter_like(tensor) && paged_storage_of(tensor) == nullptr;
}

bool Activations::within_ratio(int64_t bytes) {
  owed_ += options_.ratio * static_cast<double>(bytes);
  if (owed_ < static_cast<double>(bytes) - 0.5) return false;
  owed_ -= static_cast<double>(bytes);
  return true;
}

std::unique_ptr<Stash::Ticket> Activations::move(const at::Tensor& tensor, uint64_t region) {
  {
    const std::lock_guard lock(mutex_);
    if (region != 0) region_seen_ = true;
    const bool could = movable(tensor) && tensor.numel() > 0;
    const int64_t bytes = could ? extent_of(tensor).bytes : 0;
    if (moved_ && stash_->empty()) {  // each step moves the same tensors
      owed_ = 0;
      moved_ = false;
    }
    if (!could || bytes < options_.threshold || !within_ratio(bytes)) {
      ++report_.tensors_kept;
      report_.largest_kept = std::max(report_.largest_kept, bytes);
      return nullptr;
    }
    moved_ = true;
  }
  return stash_->put(tensor, region);
}

void Activations::wait_for_device() {
  {
    const std::lock_guard lock(mutex_);
    ++report_.boundary_waits;
  }
  if (options_.device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(options_.device.type()).synchronizeDevice(options_.device.index());
}

void Activations::run_begins(const std::string& region, bool again) {
  {
    const std::lock_guard lock(mutex_);
    const auto [row, fresh] = rows_.try_emplace(region, report_.by_name.size());
    if (fresh) report_.by_name.push_back({.name = region});
    RegionReport& report = report_.by_name[row->second];
    ++(again ? report.runs_again : report.runs);
    if (!again) ++report_.regions;
  }
  if (options_.synchronize || options_.profile) wait_for_device();
}

void Activations::run_ends(const std::string& region, bool again,
                           std::chrono::steady_clock::time_point begun) {
  if (options_.synchronize || options_.profile) wait_for_device();
  if (!options_.profile) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const std::lock_guard lock(mutex_);
  RegionReport& report = report_.by_name[rows_.at(region)];
  (again ? report.seconds_again : report.seconds) += took.count();
}

ActivationReport Activations::report() const {
  const std::lock_guard lock(mutex_);
  ActivationReport report = report_;
  if (stash_) {
    const Stash::Counts counts = stash_->counts();
    report.tensors_moved = counts.tensors_moved;
    report.bytes_moved = counts.bytes_moved;
    report.bytes_returned = counts.bytes_returned;
    report.blocks_mapped = counts.blocks_mapped;
  }
  return report;
}

void Activations::first_step_is_done(const EngineConfig& config,
                                     std::vector<std::string>& without_effect) {
  if (stash_) stash_->trust_ranks();
  const ActivationReport done = report();
  std::string no_region, none_moved;
  if (done.regions == 0) {
    no_region =
        "it acts on zero::checkpoint regions, and none has run. Run the model's blocks as regions, "
        "or remove the flag.";
  }
  if (done.tensors_moved == 0) {
    std::ostringstream text;
    text << (done.regions == 0 ? "no zero::checkpoint region has run, and nothing that operators "
                                 "saved was moved: "
                               : "none of the regions' arguments was moved: ")
         << done.tensors_kept << " tensors were seen, the largest that could move has "
         << done.largest_kept << " bytes, and activation_offload_threshold is "
         << options_.threshold << ". Lower the threshold, "
         << (done.regions == 0 ? "" : "give regions their tensors as arguments, not by capture, ")
         << "or remove the flag.";
    none_moved = text.str();
  }
  const auto tell = [&](const Setting<bool>& flag, const char* name, const std::string& reason) {
    if (!flag.peek() || reason.empty()) return;
    std::string sentence = name;
    sentence.append(" = true (").append(flag.provenance().where).append(") has no effect here: ");
    without_effect.push_back(sentence.append(reason));
  };
  const std::string& nothing_of_regions = no_region.empty() ? none_moved : no_region;
  tell(config.cpu_checkpointing, "cpu_checkpointing", none_moved);
  if (options_.partition) {
    tell(config.partition_activations, "partition_activations", nothing_of_regions);
  }
  tell(config.contiguous_memory_optimization, "contiguous_memory_optimization", nothing_of_regions);
  tell(config.synchronize_checkpoint_boundary, "synchronize_checkpoint_boundary", no_region);
  tell(config.profile_activations, "profile_activations", no_region);
}

}  // namespace zero
