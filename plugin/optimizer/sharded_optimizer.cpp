// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/sharded_optimizer.h"

#include <algorithm>
#include <unordered_map>

#include "plugin/gradients/gradient_slot.h"

namespace zero {

namespace {

// The group of each parameter of the optimizer.
std::unordered_map<const c10::TensorImpl*, size_t> groups_of(
    const torch::optim::Optimizer& optimizer) {
  std::unordered_map<const c10::TensorImpl*, size_t> groups;
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    for (const auto& parameter : optimizer.param_groups()[group].params()) {
      groups.emplace(parameter.unsafeGetTensorImpl(), group);
    }
  }
  return groups;
}

using Segments = std::vector<kernels::Segment>;

// The segments of each call, of at most `limit` elements together; 0: a segment a call.
std::vector<Segments> in_calls(const Segments& segments, int64_t limit) {
  std::vector<Segments> calls;
  int64_t room = 0;
  for (kernels::Segment segment : segments) {
    while (segment.length > 0) {
      if (room == 0) {
        calls.emplace_back();
        room = limit == 0 ? segment.length : limit;
      }
      kernels::Segment piece = segment;
      piece.length = std::min(segment.length, room);
      calls.back().push_back(piece);
      segment.begin += piece.length;
      segment.length -= piece.length;
      room -= piece.length;
    }
  }
  return calls;
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(torch::optim::Optimizer& optimizer, ParameterPages& pages,
                                   const ShardedOptimizerOptions& options, Buffers& buffers,
                                   Ledger& ledger, kernels::ThreadPool& pool)
    : optimizer_(optimizer),
      pages_(pages),
      options_(options),
      pool_(pool),
      rule_(rule_of(optimizer)) {
  const auto groups = groups_of(optimizer);
  const StateNeeds needs = rule_->needs(optimizer);
  for (const auto& page : pages.all()) {
    if (!page->layout().trainable) continue;
    auto entry = std::make_unique<PageEntry>();
    entry->shard = std::make_unique<MasterShard>(*page, options.shard,
                                                 page->permanent() ? Place::kDevice : options.home,
                                                 page->optimizer_place(), needs, buffers, ledger);
    for (const auto& range : entry->shard->ranges()) {
      Entry parameter;
      parameter.range = range;
      parameter.group = groups.at(
          page->layout().parameters[range.parameter].parameter.tensor.unsafeGetTensorImpl());
      entry->entries.push_back(std::move(parameter));
    }
    page->on_written = [shard = entry->shard.get()](const at::Tensor& values) {
      shard->follow(values);
    };
    page->on_rewritten = [entry = entry.get()](size_t parameter) {
      entry->shard->follow_range(entry->entries[entry->entry_of[parameter]].range);
    };
    entry->entry_of.resize(page->layout().parameters.size());
    for (size_t i = 0; i < entry->entries.size(); ++i)
      entry->entry_of[entry->entries[i].range.parameter] = i;
    by_page_.resize(pages.all().size());
    by_page_[page->id()] = entry.get();
    entries_.push_back(std::move(entry));
  }
}

ShardedOptimizer::~ShardedOptimizer() {
  for (auto& page : entries_) {
    page->shard->page().on_written = nullptr;
    page->shard->page().on_rewritten = nullptr;
    for (const auto& entry : page->entries) {
      if (entry.view) unwatch_gradient(entry.view->tensor());
    }
  }
  if (!optimizer_is_alive() || !groups_are_ours()) return;
  for (const auto& page : entries_) {
    for (const auto& entry : page->entries) {
      if (entry.view) optimizer_.state().erase(entry.view->tensor().unsafeGetTensorImpl());
    }
  }
  for (size_t group = 0; group < user_parameters_.size(); ++group) {
    optimizer_.param_groups()[group].params() = user_parameters_[group];
  }
}

const NamedParameter& ShardedOptimizer::parameter_of(const PageEntry& page,
                                                     const Entry& entry) const {
  return page.shard->page().layout().parameters[entry.range.parameter].parameter;
}

void ShardedOptimizer::initialize(const ParameterPage& page, const at::Tensor& exact_shard) {
  for (auto& entry : entries_) {
    if (&entry->shard->page() == &page) entry->shard->initialize(exact_shard);
  }
}

void ShardedOptimizer::connect(Gradients& gradients) {
  std::unordered_map<const c10::TensorImpl*, at::Tensor> masters;
  for (size_t i = 0; i < entries_.size(); ++i) {
    PageEntry& page = *entries_[i];
    for (auto& entry : page.entries) {
      const auto& parameter = parameter_of(page, entry);
      MasterView::Hooks hooks;
      hooks.before_use = [this, &page, &gradients](Access access) {
        if (access == Access::kWrite) gradients.optimizer_steps();
        follow_writes(page);
      };
      hooks.before_write = [this] { pages_.before_update(); };
      hooks.on_written = [this, &page] { outdate(page); };
      entry.view =
          std::make_unique<MasterView>(*page.shard, entry.range, parameter.name, std::move(hooks));
      entry.gradient = std::make_unique<MasterGradient>(gradients, *gradients.pages()[i],
                                                        *page.shard, entry.range, parameter.name);
      watch_gradient(entry.view->tensor(),
                     [&gradients, &gradient = *gradients.pages()[i],
                      index = entry.range.parameter] { gradients.used(gradient, index); });
      masters.emplace(parameter.tensor.unsafeGetTensorImpl(), entry.view->tensor());
    }
    note_contents(page);
  }
  for (auto& group : optimizer_.param_groups()) {
    user_parameters_.push_back(group.params());
    for (auto& parameter : group.params()) {
      const auto master = masters.find(parameter.unsafeGetTensorImpl());
      if (master != masters.end()) {
        parameter = master->second;
      } else if (parameter.numel() > 0) {
        frozen_.push_back(parameter);
      }
    }
  }
  gradients.on_presence = [this, &gradients](const GradientPage& page, size_t parameter) {
    Entry& entry = entry_of(page.parameter_page(), parameter);
    gradient_slot(entry.view->tensor()) =
        gradients.present(page, parameter) ? entry.gradient->tensor() : at::Tensor();
  };
  gradients.cleared_elsewhere = [this](const GradientPage& page, size_t parameter) {
    return !gradient_slot(entry_of(page.parameter_page(), parameter).view->tensor()).defined();
  };
}

ShardedOptimizer::Entry& ShardedOptimizer::entry_of(const ParameterPage& page, size_t parameter) {
  PageEntry& candidate = *by_page_[page.id()];
  return candidate.entries[candidate.entry_of[parameter]];
}

void ShardedOptimizer::follow_writes(PageEntry& page) {
  ParameterPage& parameters = page.shard->page();
  if (parameters.stale())
    return;  // masters are newer: no operator has touched the parameters since
  if (!parameters.permanent()) {
    pages_.residency()->write_back(parameters);
    return;
  }
  bool seen = false;
  for (const auto& entry : page.entries) {
    if (parameter_of(page, entry).tensor._version() == entry.version) continue;
    page.shard->follow_range(entry.range);
    seen = true;
  }
  if (seen) {
    note_contents(page);
  } else {
    page.shard->follow_unseen_writes();
  }
}

void ShardedOptimizer::note_contents(PageEntry& page) {
  if (!page.shard->page().permanent()) return;
  for (auto& entry : page.entries) entry.version = parameter_of(page, entry).tensor._version();
  page.shard->note_home();
}

void ShardedOptimizer::forget_whole(PageEntry& page) {
  ParameterPage& parameters = page.shard->page();
  if (!parameters.permanent()) pages_.residency()->invalidate(parameters);
}

void ShardedOptimizer::publish(PageEntry& page) {
  ParameterPage& parameters = page.shard->page();
  page.shard->publish();
  pages_.refresh(parameters);
  note_contents(page);
}

void ShardedOptimizer::outdate(PageEntry& page) {
  plain_step_seen_ = true;
  if (page.shard->page().stale()) return;
  outdate_graphs(page);
  page.shard->page().mark_stale([this, &page] {
    forget_whole(page);
    publish(page);
  });
}

// As after an optimizer of LibTorch, a graph that saved the old values must not be used again.
void ShardedOptimizer::outdate_graphs(const PageEntry& page) const {
  for (const auto& entry : page.entries) {
    parameter_of(page, entry).tensor.unsafeGetTensorImpl()->bump_version();
  }
}

bool ShardedOptimizer::optimizer_is_alive() const {
  for (const auto& page : entries_) {
    for (const auto& entry : page->entries) {
      if (entry.view && entry.view->tensor().use_count() < 2) return false;
    }
  }
  return true;
}

bool ShardedOptimizer::groups_are_ours() const {
  const auto& groups = optimizer_.param_groups();
  if (groups.size() != user_parameters_.size()) return false;
  for (size_t group = 0; group < groups.size(); ++group) {
    if (groups[group].params().size() != user_parameters_[group].size()) return false;
  }
  return true;
}

void ShardedOptimizer::check_frozen() const {
  for (const auto& parameter : frozen_) {
    TORCH_CHECK(!parameter.requires_grad(), "LibZeRO: a parameter of sizes ", parameter.sizes(),
                " was frozen at setup and requires a gradient now, but has no master weights and "
                "no optimizer state. "
                "Call teardown(), then setup() again.");
  }
}

std::string ShardedOptimizer::kernels_run() const {
  std::string names;
  if (ran_on_cpu_) names.append(kernels::name_of(options_.isa));
  if (ran_on_cuda_) names.append(ran_on_cpu_ ? "+cuda" : "cuda");
  return names;
}

int64_t ShardedOptimizer::step(Gradients& gradients, float scale) {
  TORCH_CHECK(
      optimizer_is_alive(),
      "LibZeRO: the optimizer that was given to setup is gone, or its groups were replaced. "
      "Keep it alive as long as the strategy, or call teardown() and setup() with the new one.");
  TORCH_CHECK(
      groups_are_ours(),
      "LibZeRO: the optimizer's parameter groups have changed since setup (it was moved, or "
      "a group or parameter was added). Call teardown(), then setup() again.");
  check_frozen();
  if (pages_.residency() != nullptr) pages_.residency()->require_unpinned();
  pages_.freshen();
  for (auto& page : entries_) {
    follow_writes(*page);
  }
  int64_t calls = 0;
  ran_on_cpu_ = ran_on_cuda_ = false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    PageEntry& page = *entries_[i];
    const GradientPage& gradient = *gradients.pages()[i];
    std::vector<kernels::Segment> segments;
    for (const auto& entry : page.entries) {
      if (entry.range.length == 0 || !gradients.present(gradient, entry.range.parameter)) continue;
      auto& segment = segments.emplace_back();
      segment.begin = entry.range.begin;
      segment.length = entry.range.length;
      rule_->prepare(optimizer_, optimizer_.param_groups()[entry.group], entry.view->tensor(),
                     page.shard->state(entry.range), segment);
    }
    forget_whole(page);
    const auto pieces = in_calls(segments, options_.call_elements);
    page.shard->update(options_.isa, pool_, gradients.shard(gradient), pieces, scale);
    calls += static_cast<int64_t>(pieces.size());
    (page.shard->device().is_cpu() ? ran_on_cpu_ : ran_on_cuda_) = true;
    outdate_graphs(page);
    publish(page);
  }
  return calls;
}

}  // namespace zero
