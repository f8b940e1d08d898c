// SPDX-License-Identifier: Apache-2.0
#include "plugin/paging/parameter_pages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "plugin/paging/interposer.h"

namespace zero {

namespace {

constexpr int64_t kAutomaticBudget = int64_t{1} << 30;  // bytes

}  // namespace

ParameterPages::ParameterPages(const std::vector<NamedParameter>& parameters,
                               const PagingOptions& options, Buffers& buffers, Ledger& ledger,
                               World& world)
    : options_(options), buffers_(buffers), world_(world), gather_(world.reduce()) {
  install_interposer();
  LayoutOptions layout_options{options.page_bytes, options.shard.count, options.compute_dtype};
  if (!options.whole_pages_stay) {
    layout_options.stays_up_to = options.stays_up_to;
    layout_options.stays_in_all = options.stays_in_all;
  }
  auto layouts = plan_pages(parameters, layout_options);
  for (auto& layout : layouts) {
    const int id = static_cast<int>(pages_.size());
    const bool stays = options.whole_pages_stay || layout.stays;
    pages_.push_back(
        std::make_unique<ParameterPage>(*this, id, std::move(layout), buffers.device(), stays));
    for (const auto& slice : pages_.back()->layout().parameters)
      by_parameter_.emplace(slice.parameter.tensor.unsafeGetTensorImpl(), pages_.back().get());
  }
  predict(ledger);
  place_optimizer();
  make_weight_gather(ledger);
  ledger.add_live_parameters(permanent_bytes());
  if (const int64_t budget = choose_budget(); budget > 0) {
    ledger.predict(MemoryClass::kParameterSlots, Place::kDevice, budget);
    const ResidencyOptions residency{budget,
                                     options_.prefetch_pages,
                                     options_.prefetch_elements,
                                     options_.reuse_elements,
                                     options_.shard.index,
                                     options_.shard.count};
    residency_ = std::make_unique<Residency>(residency, buffers_, ledger, world.gather(),
                                             options_.shard.count > 1 ? world.rounds() : nullptr);
  }
  for (auto& page : pages_) {
    const bool whole = page->permanent();
    page->home_buffer_ = buffers_.allocate(
        MemoryClass::kParameterHome, whole ? Place::kDevice : options_.home,
        whole ? page->layout().numel : page->layout().shard_numel, page->layout().dtype);
    page->home_ = page->home_buffer_.tensor;
    if (whole) {
      page->whole_ = page->home_buffer_.tensor;
      page->home_ = page->whole_.narrow(0, options_.shard.index * page->layout().shard_numel,
                                        page->layout().shard_numel);
    } else {
      residency_->manage(*page);
    }
  }
}

ParameterPages::~ParameterPages() = default;

void ParameterPages::predict(Ledger& ledger) const {
  for (const auto& page : pages_) {
    const int64_t bytes = page->layout().bytes();
    if (page->permanent()) {
      ledger.predict(MemoryClass::kParameterHome, Place::kDevice, bytes);
    } else {
      ledger.predict(MemoryClass::kParameterHome, options_.home, bytes / options_.shard.count);
    }
  }
}

void ParameterPages::place_optimizer() {
  int64_t total = 0;
  for (const auto& page : pages_) total += page->layout().trainable ? page->layout().numel : 0;
  auto on_device =
      static_cast<int64_t>((1.0 - options_.offloaded_optimizer) * static_cast<double>(total));
  for (const auto& page : pages_) {
    if (!page->layout().trainable) continue;
    on_device -= page->layout().numel;
    if (on_device < 0) page->optimizer_place_ = Place::kHost;
  }
}

void ParameterPages::train(ParameterPage& page) {
  page.layout_.trainable = true;
  if (options_.offloaded_optimizer > 0) page.optimizer_place_ = Place::kHost;
}

void ParameterPages::make_weight_gather(Ledger& ledger) {
  if (options_.shard.count == 1) return;
  int64_t largest = 0;
  size_t element = 1;
  for (const auto& page : pages_) {
    if (!page->permanent() || page->layout().optimizer < 0) continue;
    largest = std::max(largest, page->layout().numel);
    element = std::max(element, c10::elementSize(page->layout().dtype));
  }
  weight_gather_ = std::make_unique<WeightGather>(options_.weight_gather, gather_, largest,
                                                  static_cast<int64_t>(element), buffers_, ledger);
}

ParameterPage* ParameterPages::page_of(const at::Tensor& parameter) const {
  const auto found = by_parameter_.find(parameter.unsafeGetTensorImpl());
  return found == by_parameter_.end() ? nullptr : found->second;
}

int64_t ParameterPages::permanent_bytes() const {
  int64_t bytes = 0;
  for (const auto& page : pages_) bytes += page->permanent() ? page->layout().bytes() : 0;
  return bytes;
}

// Bytes for the pages that come and go; 0 when there are none.
int64_t ParameterPages::choose_budget() const {
  int64_t largest = 0;
  int64_t total = 0;
  for (const auto& page : pages_) {
    if (page->permanent()) continue;
    largest = std::max(largest, page->layout().bytes());
    total += page->layout().bytes();
  }
  if (options_.parameter_budget == 0)
    return std::min(total, std::max(kAutomaticBudget, 3 * largest));
  TORCH_CHECK(options_.parameter_budget >= largest, "LibZeRO: ", options_.budget_flag, " leaves ",
              options_.parameter_budget,
              " bytes for whole pages, but the largest page alone needs ", largest, ". Raise ",
              options_.budget_flag, ", or lower page_bytes if no single parameter is that large.");
  return std::min(total, options_.parameter_budget);
}

// The whole page in the parameters' original precision, on the device.
at::Tensor ParameterPages::exact_values(const ParameterPage& page) const {
  const auto& layout = page.layout();
  const bool lowered = layout.dtype == at::kBFloat16 || layout.dtype == at::kHalf;
  const auto exact = lowered ? at::kFloat : layout.dtype;
  const at::Tensor whole =
      at::zeros({layout.numel}, at::TensorOptions().dtype(exact).device(buffers_.device()));
  for (const auto& storage : layout.storages) {
    whole.narrow(0, storage.offset, storage.numel).copy_(storage.source);
  }
  return whole;
}

void ParameterPages::adopt(const std::function<void(ParameterPage&, const at::Tensor&)>& on_shard) {
  at::NoGradGuard no_grad;
  for (auto& page : pages_) {
    const auto& layout = page->layout();
    const at::Tensor exact = exact_values(*page);
    gather_.broadcast(exact, 0);
    const at::Tensor shard =
        exact.narrow(0, options_.shard.index * layout.shard_numel, layout.shard_numel);
    if (page->permanent()) {
      page->whole_.copy_(exact);
    } else {
      page->home_.copy_(shard);
    }
    page->home_changed();
    on_shard(*page, shard);

    if (page->permanent()) page->bind_storages(page->whole_.data_ptr());
    for (auto& storage : page->layout_.storages) storage.source.reset();
    for (const auto& slice : layout.parameters) page->point_at_page(slice, !page->permanent());
  }
  if (residency_) residency_->begin();
}

void ParameterPages::refresh(ParameterPage& page) {
  if (page.permanent() && weight_gather_) weight_gather_->complete(page.whole_);
}

void ParameterPages::freshen() {
  if (stale_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(freshen_mutex_);
  for (const auto& page : pages_) page->freshen();
}

void ParameterPages::meet(const char* place, const ParameterPage* page) {
  freshen();
  if (residency_) residency_->meet(place, page);
}

void ParameterPages::before_update() {
  if (stale_.load(std::memory_order_acquire) > 0) return;
  if (residency_) residency_->meet("an update of the weights");
  world_.whereabouts().count_update();
}

void ParameterPages::reclaim() {
  for (const auto& page : pages_) page->reclaim();
}

void ParameterPages::hand_back() {
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  if (residency_) {
    residency_->end();
    residency_->write_back();
    residency_->invalidate();
  }
  for (auto& page : pages_) {
    const auto& layout = page->layout();
    at::Tensor whole = page->whole_;
    if (!page->permanent()) {
      whole = at::empty({layout.numel},
                        at::TensorOptions().dtype(layout.dtype).device(buffers_.device()));
      if (options_.shard.count == 1) {
        whole.copy_(page->home_);
      } else {
        gather_.all_gather(whole, page->home_.to(buffers_.device()));
      }
    }
    const auto element = static_cast<int64_t>(c10::elementSize(layout.dtype));
    page->set_tagged(false);
    for (size_t i = 0; i < page->storages_.size(); ++i) {
      // The page's memory lives as long as the last of its storages.
      page->storages_[i]->detach(keeping(
          whole, static_cast<char*>(whole.data_ptr()) + layout.storages[i].offset * element));
    }
  }
}

}  // namespace zero
