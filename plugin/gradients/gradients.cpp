// SPDX-License-Identifier: Apache-2.0
#include "plugin/gradients/gradients.h"

#include <algorithm>
#include <sstream>
#include <utility>

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
      reductions_(buffers.device()),
      filled_(buffers.device()),
      deposited_(buffers.device()),
      subscription_(*this) {
  const bool to_host_memory = options_.home == Place::kHost && buffers_.device().is_cuda();
  const bool sharded_at_once = options_.world_size > 1 && options_.stage >= 2;
  direct_ = !sharded_at_once && !(to_host_memory && options_.world_size == 1);
  home_ = direct_ && options_.world_size > 1 ? Place::kDevice : options_.home;
  if (!direct_) buckets_ = std::make_unique<GradientBuckets>(buffers_, ledger_);
  by_page_.resize(pages.all().size());
  for (const auto& page : pages.all()) {
    if (page->layout().trainable) book(*page);
  }
  for (int i = static_cast<int>(pages_.size()) - 1; i >= 0; --i) order_.push_back(i);
}

void Gradients::book(ParameterPage& page) {
  pages_.push_back(std::make_unique<GradientPage>(*this, page, buffers_.device()));
  GradientPage& gradient = *pages_.back();
  by_page_[page.id()] = &gradient;
  const int64_t numel = direct_ ? page.layout().numel : page.layout().shard_numel;
  ledger_.predict(MemoryClass::kGradientHome, home_, numel * static_cast<int64_t>(sizeof(float)));
  gradient.home_ = buffers_.allocate(MemoryClass::kGradientHome, home_, numel, at::kFloat);
  book_norm_scratch(page.layout().shard_numel);
  if (direct_ || page.layout().numel <= buckets_->numel()) return;
  buckets_->resize(page.layout().numel);
  staging_ = {};
}

Gradients::~Gradients() {
  clear();
  detach();
}

void Gradients::begin() {
  begun_ = true;
  completions_.clear();
  next_ = 0;
  for (auto& page : pages_) {
    page->arrivals_ = 0;
    page->reduced_ = false;
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
  if (++page.arrivals_ == page.expected_) {
    completions_.push_back(
        static_cast<int>(std::find_if(pages_.begin(), pages_.end(),
                                      [&](const auto& other) { return other.get() == &page; }) -
                         pages_.begin()));
    // With two strategies in one pass it depends on the graph whose page is complete first; at the
    // end each reduces all of its own.
    if (!direct() && (options_.world_size == 1 || subscription_.alone())) reduce_complete_pages();
  }
}

void Gradients::add_to_home(GradientPage& page, size_t parameter, const at::Tensor& gradient) {
  auto& entry = page.entries_[parameter];
  at::Tensor sum = page.shaped(page.home_.tensor, parameter);
  if (entry.content == GradientPage::Content::kSum) {
    sum.add_(gradient);
  } else {
    sum.copy_(gradient);
  }
  entry.content = GradientPage::Content::kSum;
}

void Gradients::add_to_bucket(GradientPage& page, size_t parameter, const at::Tensor& gradient) {
  if (page.bucket_ == nullptr) page.bucket_ = &buckets_->take();
  page.shaped(page.bucket_->memory.tensor, parameter).add_(gradient);
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
  if (page.bucket_ == nullptr) page.bucket_ = &buckets_->take();
  filled_.record();
  {
    const auto on_reductions = reductions_.enter();
    filled_.wait();
    at::Tensor whole = page.bucket_->memory.tensor.narrow(0, 0, page.layout().numel);
    at::Tensor own = own_part(page, whole);
    if (options_.world_size > 1) {
      reduce_.reduce_scatter(own, whole);
      own.mul_(1.0 / options_.world_size);
    }
    deposit(page, own);
    deposited_.record();
    page.bucket_->drained.record();
  }
  buckets_->give(*page.bucket_);
  page.bucket_ = nullptr;
  page.reduced_ = true;
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
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (!begun_) return;  // another model's
  begun_ = false;
  if (!direct()) {
    for (const int index : order_) {
      GradientPage& page = *pages_[index];
      if (completed && (!page.reduced_ || page.bucket_ != nullptr)) reduce(page);
      // An exception ended this backward: what is not reduced is dropped.
      if (page.bucket_ != nullptr) {
        page.bucket_->drained.record();
        buckets_->give(*page.bucket_);
        page.bucket_ = nullptr;
      }
      if (completed && page.arrivals_ > 0) page.expected_ = page.arrivals_;
    }
    if (completed && !order_agreed_) agree_on_order();
  }
  if (completed) exchange_presence();
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

void Gradients::exchange_presence() {
  std::vector<uint8_t> flags;
  for (const auto& page : pages_) {
    for (const auto& entry : page->entries_)
      flags.push_back(entry.content == GradientPage::Content::kSum);
  }
  if (options_.world_size > 1) {
    if (history) {
      control_.agree("the use of parameters", history(),
                     "At stage 3 every rank must touch the same parameters in the same order: do "
                     "on all ranks what some "
                     "did alone (reading a weight, an extra forward), or open "
                     "zero::GatheredParameters on all of them.");
    }
    flags = control_.any(flags);
  }
  size_t next = 0;
  for (auto& page : pages_) {
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
    if (options_.home == Place::kHost) deposited_.synchronize();
  }
  for (auto& page : pages_) zero_stale(*page);
  if (std::exchange(finished_, true) || !direct() || options_.world_size == 1) return;
  for (auto& page : pages_) {
    at::Tensor whole = page->home_.tensor;
    at::Tensor own = own_part(*page, whole);
    if (options_.shard.count == 1) {
      reduce_.all_reduce(whole);
    } else {
      reduce_.reduce_scatter(own, whole);
    }
    own.mul_(1.0 / options_.world_size);
    for (auto& entry : page->entries_) {
      if (entry.present) entry.content = GradientPage::Content::kSum;
    }
  }
  reduced_ = true;
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
