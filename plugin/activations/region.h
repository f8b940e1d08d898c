// SPDX-License-Identifier: Apache-2.0
// One call of zero::checkpoint: what its first run has saved, without the bytes, and the way to get
// them again.
//
// Note [Regions]
// In the first run each saved tensor becomes a place in a list: only its type and shape stay. The
// first backward that wants one of them runs the function again on the kept arguments, under a
// policy that collects what is saved this time, in the same order, and stops the run when the list
// is full. Autograd's own graph, of the first run, does the rest. So the function's results need
// not be known, and regions nest: what an inner region keeps of its arguments is saved, for the
// outer one, like any other tensor.
//
// A tensor leaves the list when it is asked for: memory falls while backward goes through the
// region, and another backward runs the region again.
//
// Any thread may ask; the region is locked meanwhile. The first run belongs to one thread.
#pragma once

#include <c10/util/SmallVector.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <typeindex>
#include <vector>

#include "plugin/activations/environment.h"
#include "plugin/activations/tensor_facts.h"
#include "plugin/autograd/saved_tensor_policy.h"

namespace zero {

// What both runs must agree on about a saved tensor.
struct SavedTensorFacts {
  SavedTensorFacts(const at::Tensor& tensor, uint64_t first_sequence_number);
  bool operator==(const SavedTensorFacts&) const = default;
  std::string text() const;

  at::ScalarType dtype;
  at::Device device;
  c10::SmallVector<int64_t, 5> sizes;
  std::type_index producer;  // the operator inside the region that has made it, or void
};

class RecordedRegion final : public SavedTensorPolicy,
                             public std::enable_shared_from_this<RecordedRegion> {
 public:
  using RunAgain = std::function<void(const std::vector<at::Tensor>& arguments)>;
  struct Options {
    std::string name;
    bool preserve_rng = true;
    bool check_determinism = false;
  };
  RecordedRegion(Options options, const std::vector<at::Tensor>& arguments, RunAgain run_again);

  // The first run. Hooks for what it saves; the arguments are kept when the first tensor is.
  SavedTensorHooks hooks(uint64_t region) override;
  // Throws when an argument has changed in place since the region began.
  void require_unchanged_arguments(const char* when) const;
  const std::string& name() const { return options_.name; }

 private:
  friend class SavedInRegion;
  friend class Collector;
  struct Argument {
    explicit Argument(const at::Tensor& argument);
    at::Tensor value() const;  // for a run: without history
    at::Tensor tensor;         // undefined, or not handed to hooks
    SavedTensorHooks hooks;
    bool requires_grad = false;
    std::optional<Unchanged> unchanged;
  };

  size_t record(const at::Tensor& tensor);
  at::Tensor give(size_t index);
  void run_again();
  void collect(const at::Tensor& tensor, uint64_t first_sequence_number);
  bool complete() const { return collected_ == facts_.size(); }
  void keep_arguments();
  void require_unchanged_parameters() const;
  void forget_after_this_pass();

  const uint64_t number_;  // of regions, from 1 up
  const Options options_;
  const RunAgain run_again_;
  const Environment environment_;
  const uint64_t first_sequence_number_;
  std::vector<Argument> arguments_;
  bool arguments_kept_ = false;
  std::vector<SavedTensorFacts> facts_;
  std::vector<Unchanged> parameters_;    // that were saved inside
  std::vector<at::Tensor> first_saved_;  // only to check determinism
  std::mutex mutex_;                     // guards what follows
  std::vector<at::Tensor> saved_again_;  // by place; undefined: given away, or not there yet
  size_t collected_ = 0;                 // in the run that goes on
};

}  // namespace zero
