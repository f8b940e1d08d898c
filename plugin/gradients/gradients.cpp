// SPDX-License-Identifier: Apache-2.0
#include "plugin/gradients/gradients.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "plugin/partition/whereabouts.h"

namespace zero {

Gradients::Gradients(ParameterPages& pages, const GradientOptions& options, Buffers& buffers,
                     Ledger& ledger, Communicator& reduce, Control& control,
                     kernels::ThreadPool& pool)
    : options_(options),
      buffers_(buffers),
      ledger_(ledger),
      reduce_(reduce),
      control_(control),
      pool_(pool),
      reductions_(options.beside_backward ? buffers.device() : at::Device(at::kCPU)),
      filled_(buffers.device()),
      deposited_(buffers.device()),
      subscription_(*this) {
  const bool to_host_memory =
      buffers_.device().is_cuda() &&
      std::any_of(pages.all().begin(), pages.all().end(), [](const auto& page) {
        return page->layout().trainable && page->optimizer_place() == Place::kHost;
      });
  const bool sharded_at_once = options_.world_size > 1 && options_.stage >= 2;
  direct_ = !sharded_at_once && !(to_host_memory && options_.world_size == 1);
  reduction_ = std::make_unique<GradientReduction>(options_.reduction, reduce);
  if (!direct_) buckets_ = std::make_unique<GradientBuckets>(buffers_, ledger_);
  by_page_.resize(pages.all().size());
  int64_t largest = 0;
  for (const auto& page : pages.all()) {
    if (page->layout().trainable) largest = std::max(largest, page->layout().numel);
  }
  make_room_for(largest);
  for (const auto& page : pages.all()) {
    if (page->layout().trainable) book(*page);
  }
  for (int i = static_cast<int>(pages_.size()) - 1; i >= 0; --i) order_.push_back(i);
}

void Gradients::book(ParameterPage& page) {
  pages_.push_back(std::make_unique<GradientPage>(*this, page, buffers_.device()));
  GradientPage& gradient = *pages_.back();
  gradient.index_ = static_cast<int>(pages_.size()) - 1;
  by_page_[page.id()] = &gradient;
  for (size_t i = 0; i < page.layout().parameters.size(); ++i) {
    by_parameter_.emplace(page.layout().parameters[i].parameter.tensor.unsafeGetTensorImpl(),
                          std::pair(&gradient, i));
  }
  const Place home = direct_ && options_.world_size > 1 ? Place::kDevice : page.optimizer_place();
  some_on_host_ |= home == Place::kHost;
  const int64_t numel = direct_ ? page.layout().numel : page.layout().shard_numel;
  ledger_.predict(MemoryClass::kGradientHome, home, numel * static_cast<int64_t>(sizeof(float)));
  gradient.home_ = buffers_.allocate(MemoryClass::kGradientHome, home, numel, at::kFloat);
  book_norm_scratch(page.layout().shard_numel);
}

void Gradients::make_room_for(int64_t largest) {
  if (largest <= largest_) return;
  largest_ = largest;
  deposited_.synchronize();  // what is replaced is not in use any more
  reduction_->cover(largest, buffers_, ledger_);
  if (direct_) return;
  buckets_->resize(largest);
  staging_ = {};
}

Gradients::~Gradients() {
  clear();
  detach();
}

void Gradients::begin() {
  begun_ = true;
  unscale_ = 1.0 / running_scale();
  completions_.clear();
  next_ = 0;
  for (auto& page : pages_) {
    page->arrivals_ = 0;
    for (auto& entry : page->entries_) entry.arrived = false;
  }
  if (on_begin) on_begin();
  settle_all();
  take_back_views();
}

bool Gradients::selected(const GradientPage& page, Selection of) {
  return !of || page.layout().optimizer == *of;
}

void Gradients::arrived(GradientPage& page, size_t parameter, const at::Tensor& incoming) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (!begun_) begin();  // not before: another model's pass changes nothing here
  if (incoming.requires_grad()) keep_graph(page, parameter, incoming);
  at::Tensor gradient = incoming.detach();
  if (gradient.layout() != at::kStrided) {
    TORCH_WARN_ONCE("LibZeRO: the gradient of '", named(page, parameter).name,
                    "' is sparse; it is kept and reduced as a dense one.");
    gradient = gradient.to_dense();
  }
  if (reduced_) undo_reduction();
  if (direct()) {
    add_to_home(page, parameter, gradient);
  } else {
    add_to_bucket(page, parameter, gradient);
  }
  page.entries_[parameter].arrived = true;
  finished_ = false;
  norm_.reset();
  if (++page.arrivals_ == page.expected_) {
    completions_.push_back(page.index_);
    // With two strategies in one pass it depends on the graph whose page is complete first; at the
    // end each reduces all of its own.
    if (!direct() && (options_.world_size == 1 || subscription_.alone())) reduce_complete_pages();
  }
}

// Sums are of unscaled gradients, in fp32: whatever the scale of each backward, what is read,
// clipped and added up is the gradient of the user's own loss.
void Gradients::add_to_home(GradientPage& page, size_t parameter, const at::Tensor& gradient) {
  auto& entry = page.entries_[parameter];
  at::Tensor sum = page.shaped(page.home_.tensor, parameter);
  if (entry.content == GradientPage::Content::kSum) {
    sum.add_(gradient, unscale_);
  } else {
    sum.copy_(gradient);
    if (unscale_ != 1.0) sum.mul_(unscale_);
  }
  entry.content = GradientPage::Content::kSum;
}

void Gradients::add_to_bucket(GradientPage& page, size_t parameter, const at::Tensor& gradient) {
  if (page.bucket_ == nullptr) page.bucket_ = &buckets_->take();
  page.shaped(page.bucket_->memory.tensor, parameter).add_(gradient, unscale_);
}

void Gradients::reduce_complete_pages() {
  while (next_ < order_.size()) {
    GradientPage& page = *pages_[order_[next_]];
    if (page.arrivals_ < page.expected_) return;
    reduce(page);
    ++next_;
  }
}

void Gradients::reduce(GradientPage& page) {
  const Doing doing([&] { return "the reduction of " + page.parameter_page().name(); });
  if (careful && careful()) meet_others("the reduction of ", &page);
  if (page.bucket_ == nullptr) page.bucket_ = &buckets_->take();
  filled_.record();
  {
    const auto on_reductions = reductions_.enter();
    filled_.wait();
    at::Tensor whole = page.bucket_->memory.tensor.narrow(0, 0, page.layout().numel);
    at::Tensor own = own_part(page, whole);
    reduction_->mean_of_part(whole, own);
    if (options_.world_size > 1 && options_.beside_backward) ++side_reductions_;
    deposit(page, own);
    deposited_.record();
    page.bucket_->drained.record();
  }
  buckets_->give(*page.bucket_);
  page.bucket_ = nullptr;
}

void Gradients::deposit(GradientPage& page, const at::Tensor& incoming) {
  at::Tensor home = page.home_.tensor;
  if (!page.holds_sums_) {
    home.copy_(incoming, /*non_blocking=*/true);
    for (auto& entry : page.entries_) entry.content = GradientPage::Content::kZero;
  } else {
    if (home.device() == incoming.device()) {
      zero_stale(page);
      home.add_(incoming);
    } else {
      // A host home is added to on the host, so the host must wait for the copy.
      if (!staging_.tensor.defined()) {
        staging_ =
            buffers_.allocate(MemoryClass::kStaging, Place::kHost, buckets_->numel(), at::kFloat);
      }
      at::Tensor copy = staging_.tensor.narrow(0, 0, incoming.numel());
      copy.copy_(incoming, /*non_blocking=*/true);
      deposited_.record();
      deposited_.synchronize();
      zero_stale(page);
      home.add_(copy);
    }
  }
  for (auto& entry : page.entries_) {
    if (entry.arrived) entry.content = GradientPage::Content::kSum;
  }
  page.holds_sums_ = true;
}

at::Tensor Gradients::home_range(const GradientPage& page, size_t parameter) const {
  const auto& slice = page.layout().parameters[parameter];
  const int64_t begin = direct() ? 0 : options_.shard.index * page.layout().shard_numel;
  const int64_t from = std::max(slice.offset, begin);
  const int64_t to = std::min(slice.offset + slice.numel, begin + page.home_.tensor.numel());
  return page.home_.tensor.narrow(0, std::min(from - begin, page.home_.tensor.numel()),
                                  std::max<int64_t>(to - from, 0));
}

void Gradients::zero_stale(GradientPage& page) {
  for (size_t i = 0; i < page.entries_.size(); ++i) {
    auto& entry = page.entries_[i];
    if (!entry.storage || entry.content != GradientPage::Content::kStale) continue;
    home_range(page, i).zero_();
    entry.content = GradientPage::Content::kZero;
  }
}

void Gradients::backward_ends(bool completed) {
  end_pass(completed);
  if (completed && options_.on_pass) options_.on_pass(/*begins=*/false);
}

void Gradients::end_pass(bool completed) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (!begun_) return;  // another model's
  begun_ = false;
  if (completed) {
    reduce_the_rest();
    meet_others("the end of a backward pass");
    if (!direct() && !order_agreed_) agree_on_order();
    exchange_presence();
  } else {
    drop_buckets();
  }
  for (const auto& page : pages_) {
    for (size_t i = 0; i < page->entries_.size(); ++i) {
      auto& entry = page->entries_[i];
      if (!entry.present) {
        // What arrived before an exception and belongs to no earlier sum is forgotten.
        entry.content = GradientPage::Content::kStale;
        entry.graph.reset();
        continue;
      }
      show(*page, i);
    }
  }
}

void Gradients::meet_others(const char* place, const GradientPage* page) const {
  if (meet) meet(place, page != nullptr ? &page->parameter_page() : nullptr);
}

void Gradients::reduce_the_rest() {
  if (direct()) return;
  for (; next_ < order_.size(); ++next_) reduce(*pages_[order_[next_]]);
  for (auto& page : pages_) {
    if (page->arrivals_ > 0) page->expected_ = page->arrivals_;
  }
}

// An exception ended this backward: what is not reduced is dropped.
void Gradients::drop_buckets() {
  for (auto& page : pages_) {
    if (page->bucket_ == nullptr) continue;
    page->bucket_->drained.record();
    buckets_->give(*page->bucket_);
    page->bucket_ = nullptr;
  }
}

// Which gradients some rank has; and pages that have got more gradients on some rank after they
// were complete by what the backward before had told are reduced again on all ranks.
void Gradients::exchange_presence() {
  std::vector<uint8_t> flags;
  for (const auto& page : pages_) {
    flags.push_back(page->bucket_ != nullptr);
    for (const auto& entry : page->entries_)
      flags.push_back(entry.content == GradientPage::Content::kSum || entry.arrived);
  }
  if (options_.world_size > 1) flags = control_.any(flags);
  size_t next = 0;
  for (auto& page : pages_) {
    if (flags[next++] != 0) reduce(*page);
    for (auto& entry : page->entries_) entry.present |= flags[next++] != 0;
  }
}

void Gradients::agree_on_order() {
  order_agreed_ = true;
  if (options_.world_size == 1) return;
  std::ostringstream mine;
  for (const int page : completions_) mine << page << ' ';
  std::istringstream first(control_.all_gather_text(mine.str()).front());
  std::vector<int> order;
  const auto add = [&](int page) {
    if (std::find(order.begin(), order.end(), page) == order.end()) order.push_back(page);
  };
  for (int page = 0; first >> page;) add(page);
  for (const int page : order_) add(page);
  order_ = std::move(order);
}

void Gradients::finish() {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  finish_locked();
}

void Gradients::finish_locked() {
  if (!finished_ && !direct()) {
    deposited_.wait();
    if (some_on_host_) deposited_.synchronize();
  }
  for (auto& page : pages_) zero_stale(*page);
  if (std::exchange(finished_, true) || !direct() || options_.world_size == 1) return;
  reduce_homes();
  reduced_ = true;
}

void Gradients::reduce_homes() {
  filled_.record();
  {
    const auto on_reductions = reductions_.enter();
    filled_.wait();
    for (auto& page : pages_) {
      const at::Tensor whole = page->home_.tensor;
      if (options_.shard.count == 1) {
        reduction_->mean(whole);
      } else {
        reduction_->mean_of_part(whole, own_part(*page, whole));
      }
      if (options_.beside_backward) ++side_reductions_;
      for (auto& entry : page->entries_) {
        if (entry.present) entry.content = GradientPage::Content::kSum;
      }
    }
    deposited_.record();
  }
  deposited_.wait();
}

TrafficCounters Gradients::traffic() const {
  TrafficCounters traffic = reduction_->traffic();
  traffic.side_reductions = side_reductions_;
  return traffic;
}

// The mean goes back into a sum whose next mean is right: below stage 1 every rank holds it and
// adds its own gradients to it; at stage 1 its owner holds it times the number of ranks, and the
// others nothing.
void Gradients::undo_reduction() {
  reduced_ = false;
  if (options_.shard.count == 1) return;
  for (auto& page : pages_) {
    const at::Tensor mean = shard(*page).clone();
    page->home_.tensor.zero_();
    shard(*page).add_(mean, options_.world_size);
  }
}

at::Tensor Gradients::own_part(const GradientPage& page, const at::Tensor& whole) const {
  const int64_t shard = page.layout().shard_numel;
  return whole.narrow(0, options_.shard.index * shard, shard);
}

at::Tensor Gradients::shard(const GradientPage& page) const {
  return direct() ? own_part(page, page.home_.tensor) : page.home_.tensor;
}

}  // namespace zero
