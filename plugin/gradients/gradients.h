// SPDX-License-Identifier: Apache-2.0
// From autograd to reduced shards. A hook takes each gradient before autograd would accumulate it;
// what is kept until the optimizer's step is the mean over ranks, in fp32, as the stage says: the
// whole page (stages 0 and 1) or this rank's shard (2 and 3). Several backward passes add up.
//
// Note [Order of reductions]
// Under several ranks pages are reduced in one order on every rank: that
// of page completion on rank 0 in the first backward. A page that is complete waits for those
// before it; at the end of backward every page that is not reduced yet is, with zeros where nothing
// arrived. So ranks that use different parameters still meet in the same collectives.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugin/autograd/backward_observer.h"
#include "plugin/gradients/gradient_page.h"
#include "plugin/gradients/gradient_reduction.h"
#include "plugin/optimizer/kernels/thread_pool.h"
#include "plugin/paging/parameter_pages.h"
#include "plugin/partition/control.h"

namespace zero {

struct GradientOptions {
  int stage = 0;
  int world_size = 1;
  ShardPlace shard;
  ReductionOptions reduction;
  bool beside_backward = true;  // reductions on a stream of their own
  // Called when a pass of any model begins and when it has completed, on its thread; may be empty.
  std::function<void(bool begins)> on_pass;
};

// The gradients of one optimizer's parameters; all, without a value.
using Selection = std::optional<int>;

class Gradients final : public BackwardListener {
 public:
  Gradients(ParameterPages& pages, const GradientOptions& options, Buffers& buffers, Ledger& ledger,
            Communicator& reduce, Control& control, kernels::ThreadPool& pool);
  ~Gradients();
  // Puts the hooks on the parameters, which must be in their pages: a change of dtype makes a new
  // accumulator.
  void attach();
  // A page that was frozen is trained from now on.
  void add(ParameterPage& page);

  void backward_begins() override;
  void backward_ends(bool completed) override;

  // Completes what backward left for later: reductions below stage 2 and zeros for absent
  // gradients. Collective; does nothing when nothing has changed since.
  void finish();
  // Global 2-norm of the mean gradient; that of all is kept until a gradient changes. Collective.
  double norm(Selection of = {});
  // The same for another p, or infinity: the largest magnitude, NaN if one is NaN.
  double norm_of_type(double p);
  void scale(float factor, Selection of = {});
  // Every element comes to lie in [-limit, limit].
  void clamp(double limit);
  // The user's own optimizer is about to apply gradients. May throw: then it does not.
  std::function<void()> on_optimizer_step;
  void optimizer_steps() const;
  // A shard was written by somebody else.
  void written();
  // Before the gradients are used: what users have cleared is dropped, what they have put in place
  // of a gradient is taken. Collective where they have.
  void accept_changes();
  // The same for one parameter; does nothing while a pass runs.
  void used(GradientPage& page, size_t parameter);
  // Forgets the gradients; `.grad()` of the parameters becomes undefined.
  void clear(Selection of = {});

  // Of a page that is trained.
  GradientPage& page_of(const ParameterPage& page) const { return *by_page_[page.id()]; }
  // Called when a backward pass is about to start, also one in which no gradient will arrive here.
  std::function<void()> before_backward;
  // Called when the first gradient of a backward pass arrives. May throw: then that backward fails.
  std::function<void()> on_begin;
  // Waits until all ranks are at this place (and page). Empty where ranks cannot come to a
  // collective at different times, or it does not matter: see Residency::meet().
  std::function<void(const char* place, const ParameterPage* page)> meet;
  // Reductions during backward must be met for, too.
  std::function<bool()> careful;
  // Asked where a gradient is there: the user has cleared it in the optimizer.
  std::function<bool(const GradientPage&, size_t parameter)> cleared_elsewhere;
  // Called when this parameter's gradient has appeared or has been dropped.
  std::function<void(const GradientPage&, size_t parameter)> on_presence;

  // Some rank has a gradient for this parameter of the page.
  bool present(const GradientPage& page, size_t parameter) const {
    return page.entries_[parameter].present;
  }
  // After finish(): this rank's shard of the mean gradient, fp32, where the home is.
  at::Tensor shard(const GradientPage& page) const;
  // A copy of the whole mean gradient in the parameter's shape; undefined when there is none.
  // Collective.
  at::Tensor whole(const at::Tensor& parameter);
  TrafficCounters traffic() const;

  // Makes sure that the gradient of this parameter comes here, whatever accumulator autograd has
  // for it.
  void hook_accumulator(GradientPage& page, size_t parameter);
  // Told by the hook of a parameter. Any thread.
  void arrived(GradientPage& page, size_t parameter, const at::Tensor& incoming);
  void pin(GradientPage& page, Access access);
  void unpin(GradientPage& page) noexcept;

 private:
  // Homes hold whole pages on the device and gradients are added there directly; else they pass
  // through a bucket.
  bool direct() const { return direct_; }
  // Pages have at most as many elements from now on.
  void make_room_for(int64_t largest);
  // Books what one more page needs.
  void book(ParameterPage& page);
  // Puts hooks on the parameters that require a gradient and have none yet.
  void hook_parameters();
  void detach();
  void begin();
  static bool selected(const GradientPage& page, Selection of);
  void end_pass(bool completed);
  enum class Replaced : uint8_t { kTake, kLeave };
  static const NamedParameter& named(const GradientPage& page, size_t parameter);
  // Compares what users see as `.grad()` with what the engine holds; see gradient_changes.cpp.
  void settle(GradientPage& page, size_t parameter, Replaced replaced);
  void settle_all();
  void looked_at(GradientPage& page, size_t parameter);
  void take(GradientPage& page, size_t parameter, const at::Tensor& gradient);
  void drop(GradientPage& page, size_t parameter);
  void let_go(GradientPage& page, size_t parameter);
  void write(GradientPage& page, size_t parameter, const at::Tensor& values);
  void keep_graph(GradientPage& page, size_t parameter, const at::Tensor& gradient);
  at::Tensor visible(GradientPage& page, size_t parameter);
  void show(GradientPage& page, size_t parameter);
  void take_back_views();
  void add_to_home(GradientPage& page, size_t parameter, const at::Tensor& gradient);
  void add_to_bucket(GradientPage& page, size_t parameter, const at::Tensor& gradient);
  void reduce_complete_pages();
  void reduce(GradientPage& page);
  void deposit(GradientPage& page, const at::Tensor& incoming);
  void zero_stale(GradientPage& page);
  // This rank's shard of a flat tensor over the page.
  at::Tensor own_part(const GradientPage& page, const at::Tensor& whole) const;
  at::Tensor home_range(const GradientPage& page, size_t parameter) const;
  at::Tensor gather_whole(GradientPage& page);
  void release_views(const GradientPage* except);
  void agree_on_order();
  void finish_locked();
  void reduce_homes();
  void reduce_the_rest();
  void drop_buckets();
  void exchange_presence();
  void meet_others(const char* place, const GradientPage* page = nullptr) const;
  // Stages 0 and 1: more gradients are about to be added locally to sums that are reduced already.
  void undo_reduction();
  double local_squares(Selection of);
  double device_squares(Selection of);
  void book_norm_scratch(int64_t numel);

  GradientOptions options_;
  bool direct_;
  Buffers& buffers_;
  Ledger& ledger_;
  Communicator& reduce_;
  Control& control_;
  kernels::ThreadPool& pool_;
  SideStream reductions_;
  Event filled_;     // a bucket, or all homes, have all their gradients
  Event deposited_;  // the last reduction's result is in its home
  std::unique_ptr<GradientReduction> reduction_;
  int64_t side_reductions_ = 0;

  std::recursive_mutex mutex_;  // a view's pin may come while the same thread holds it in begin
  std::vector<std::unique_ptr<GradientPage>> pages_;
  std::vector<GradientPage*> by_page_;  // by id of the parameter page
  std::unordered_map<const c10::TensorImpl*, std::pair<GradientPage*, size_t>> by_parameter_;
  bool some_on_host_ = false;  // homes
  int64_t largest_ = 0;        // elements of a page
  std::unique_ptr<GradientBuckets> buckets_;
  Buffer staging_;                // pinned: where a host home is added to
  Buffer norm_scratch_;           // fp64, on the device
  std::vector<int> order_;        // pages in order of reduction
  std::vector<int> completions_;  // pages in order of completion in this backward
  size_t next_ = 0;               // of order_, in this backward
  bool order_agreed_ = false;
  std::optional<double> norm_;
  bool begun_ = false;    // this backward has reached a parameter
  double unscale_ = 1.0;  // what undoes the loss scale of this backward
  bool finished_ = true;  // nothing has changed since finish()
  bool reduced_ = false;  // direct homes hold means, not this rank's sums
  BackwardSubscription subscription_;
};

}  // namespace zero
