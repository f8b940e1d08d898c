// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/master_page.h"

#include "plugin/gradients/gradient_slot.h"

namespace zero {

MasterPage::MasterPage(ParameterPage& page, ParameterPages& pages, const MasterOptions& options,
                       Buffers& buffers, Ledger& ledger)
    : page_(page),
      pages_(pages),
      shards_(options.shard.count),
      shard_(page, options.shard, page.permanent() ? Place::kDevice : options.home,
             page.optimizer_place(), buffers, ledger),
      entry_of_(page.layout().parameters.size(), -1) {
  for (const auto& range : shard_.ranges()) {
    entry_of_[range.parameter] = static_cast<int>(entries_.size());
    entries_.emplace_back().range = range;
  }
  page_.on_written = [this](const at::Tensor& values) { shard_.follow(values); };
  page_.on_rewritten = [this](size_t parameter) {
    const int entry = entry_of_[parameter];
    if (entry >= 0) shard_.follow_range(entries_[entry].range);
  };
}

MasterPage::~MasterPage() {
  for (const auto& entry : entries_) {
    if (entry.view) unwatch_gradient(entry.view->tensor());
  }
  page_.on_written = nullptr;
  page_.on_rewritten = nullptr;
}

const NamedParameter& MasterPage::parameter_of(const Entry& entry) const {
  return page_.layout().parameters[entry.range.parameter].parameter;
}

void MasterPage::connect(Gradients& gradients, std::function<void()> on_plain_write) {
  GradientPage& gradient = gradients.page_of(page_);
  for (auto& entry : entries_) {
    const auto& name = parameter_of(entry).name;
    MasterView::Hooks hooks;
    hooks.before_use = [this, &gradients, parameter = entry.range.parameter](Access access) {
      if (access == Access::kWrite) gradients.optimizer_steps();
      if (!page_.holds(parameter)) page_.reclaim();
      follow_writes();
    };
    hooks.before_write = [this] { pages_.before_update(); };
    hooks.on_written = [this, on_plain_write] { written(on_plain_write); };
    entry.view = std::make_unique<MasterView>(shard_, entry.range, name, std::move(hooks));
    entry.gradient =
        std::make_unique<MasterGradient>(gradients, gradient, shard_, entry.range, name);
    watch_gradient(entry.view->tensor(),
                   [&gradients, &gradient, parameter = entry.range.parameter] {
                     gradients.used(gradient, parameter);
                   });
  }
  note_contents();
}

void MasterPage::written(const std::function<void()>& on_plain_write) {
  on_plain_write();
  if (page_.stale()) return;
  outdate_graphs();
  page_.mark_stale(
      [this] {
        forget_whole();
        publish();
      },
      shard_.writes_home() && shards_ == 1 ? ParameterPage::Bytes::kNew
                                           : ParameterPage::Bytes::kOld);
}

void MasterPage::set_gradient(size_t parameter, bool present) {
  const Entry& entry = entries_[entry_of_[parameter]];
  gradient_slot(entry.view->tensor()) = present ? entry.gradient->tensor() : at::Tensor();
}

bool MasterPage::cleared(size_t parameter) const {
  return !gradient_slot(entries_[entry_of_[parameter]].view->tensor()).defined();
}

void MasterPage::follow_writes() {
  if (page_.stale()) return;  // masters are newer: no operator has touched the parameters since
  if (!page_.permanent()) {
    pages_.residency()->write_back(page_);
    return;
  }
  bool seen = false;
  for (const auto& entry : entries_) {
    if (parameter_of(entry).tensor._version() == entry.version) continue;
    shard_.follow_range(entry.range);
    seen = true;
  }
  if (seen) {
    note_contents();
  } else {
    shard_.follow_unseen_writes();
  }
}

void MasterPage::note_contents() {
  if (!page_.permanent()) return;
  for (auto& entry : entries_) entry.version = parameter_of(entry).tensor._version();
  shard_.note_home();
}

void MasterPage::forget_whole() {
  if (!page_.permanent()) pages_.residency()->invalidate(page_);
}

void MasterPage::publish() {
  shard_.publish();
  pages_.refresh(page_);
  note_contents();
}

void MasterPage::outdate_graphs() const {
  for (const auto& entry : entries_) {
    parameter_of(entry).tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace zero
