// SPDX-License-Identifier: Apache-2.0
// The activation flags of one strategy at work: decides which tensors go to the stash, counts what
// regions do, and says at the end of the first step when a flag has had no effect.
//
// Until the first region runs, cpu_checkpointing moves what operators save; from then on it moves
// what regions keep of their arguments, and nothing else. Flags act on the whole process, so one
// strategy at a time may have them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/activations/region_listener.h"
#include "plugin/activations/stash.h"
#include "plugin/autograd/saved_tensor_policy.h"
#include "zero/activation_report.h"
#include "zero/engine_config.h"

namespace zero {

class World;

class Activations final : public SavedTensorPolicy,
                          public RegionListener,
                          public std::enable_shared_from_this<Activations> {
 public:
  // Reads the flags; empty when none is on. Collective under partition_activations. From here on
  // until end() they act.
  static std::shared_ptr<Activations> begin(const EngineConfig& config, World& world,
                                            std::shared_ptr<Ledger> ledger);
  // What has been moved still comes back.
  void end();

  // Adds a sentence for each flag that has had no effect so far.
  void first_step_is_done(const EngineConfig& config, std::vector<std::string>& without_effect);
  ActivationReport report() const;

  SavedTensorHooks hooks(uint64_t region) override;
  void run_begins(const std::string& region, bool again) override;
  void run_ends(const std::string& region, bool again,
                std::chrono::steady_clock::time_point begun) override;

 private:
  struct Options {
    at::Device device = at::kCPU;
    bool to_host = false, partition = false, synchronize = false, profile = false;
    double ratio = 1.0;
    int64_t threshold = 0;  // bytes
  };
  class Hooks;
  Activations(Options options, std::shared_ptr<Stash> stash);
  // A claim to the moved tensor, or nothing where it stays.
  std::unique_ptr<Stash::Ticket> move(const at::Tensor& tensor, uint64_t region);
  bool movable(const at::Tensor& tensor) const;
  bool within_ratio(int64_t bytes);
  void wait_at_boundary();

  const Options options_;
  const std::shared_ptr<Stash> stash_;  // empty: nothing is moved
  mutable std::mutex mutex_;            // guards what follows
  bool region_seen_ = false;
  double owed_ = 0;  // bytes that may go by activation_offload_ratio
  ActivationReport report_;
  std::map<std::string, size_t> rows_;  // in report_.by_name
};

}  // namespace zero
