// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/sharded_optimizer.h"

#include <algorithm>
#include <utility>

#include "plugin/optimizer/state_shards.h"

namespace zero {

namespace {

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

ShardedOptimizer::ShardedOptimizer(torch::optim::Optimizer& optimizer, int index,
                                   ParameterPages& pages, const ShardedOptimizerOptions& options,
                                   Buffers& buffers, Ledger& ledger, kernels::ThreadPool& pool)
    : optimizer_(&optimizer),
      index_(index),
      pages_(pages),
      options_(options),
      buffers_(buffers),
      ledger_(ledger),
      pool_(pool),
      rule_(rule_of(optimizer)),
      by_page_(pages.all().size()) {
  check_usable(optimizer, options.allow_untested);
  for (const auto& page : pages.all()) {
    if (!page->layout().trainable || page->layout().optimizer != index) continue;
    book(*page);
  }
  check_state(optimizer);
  book_moments();
}

MasterPage& ShardedOptimizer::book(ParameterPage& page) {
  masters_.push_back(
      std::make_unique<MasterPage>(page, pages_, options_.masters, buffers_, ledger_));
  by_page_[page.id()] = masters_.back().get();
  return *masters_.back();
}

ShardedOptimizer::~ShardedOptimizer() {
  if (!holds_any() || !is_alive()) return;
  for (const auto& page : masters_) {
    for (const auto& entry : page->entries()) {
      if (entry.view) optimizer_->state().erase(entry.view->tensor().unsafeGetTensorImpl());
    }
  }
  give_back_groups();
}

// State of earlier steps comes along where we know what it is made of.
void ShardedOptimizer::check_state(const torch::optim::Optimizer& optimizer) const {
  for (const auto& page : masters_) {
    for (const auto& entry : page->entries()) {
      const auto& parameter = page->parameter_of(entry);
      const auto state = optimizer.state().find(parameter.tensor.unsafeGetTensorImpl());
      if (state == optimizer.state().end()) continue;
      if (const UpdateRule* const rule = rule_of(optimizer)) {
        check_whole(rule->moments(*state->second), parameter);
      } else {
        TORCH_CHECK(options_.masters.shard.count == 1, "LibZeRO: the optimizer (",
                    name_of(optimizer), ") has state of earlier steps for '", parameter.name,
                    "', of which LibZeRO does not know how to cut it into shards. Call "
                    "zero::Strategy::setup before the first step.");
      }
    }
  }
}

// Those that any group needs, in all pages: rates and options are per group, memory is per page.
void ShardedOptimizer::book_moments() {
  if (rule_ == nullptr) return;
  Moments<bool> needs{};
  for (const auto& group : optimizer_->param_groups()) {
    const Moments<bool> own = rule_->needs(group);
    for (size_t i = 0; i < needs.size(); ++i) needs[i] |= own[i];
  }
  for (const auto& page : masters_) page->shard().require(needs);
}

MasterPage* ShardedOptimizer::page_of(const ParameterPage& page) const {
  return by_page_[page.id()];
}

void ShardedOptimizer::initialize(const ParameterPage& page, const at::Tensor& exact_shard) {
  if (MasterPage* const masters = page_of(page)) masters->shard().initialize(exact_shard);
}

void ShardedOptimizer::connect(Gradients& gradients) {
  for (const auto& page : masters_) {
    page->connect(gradients, [this] { plain_step_seen_ = true; });
  }
  take_over_groups();
}

void ShardedOptimizer::add(ParameterPage& page, Gradients& gradients) {
  check_groups();
  if (!page.permanent()) pages_.residency()->write_back(page);
  MasterPage& masters = book(page);
  masters.shard().initialize(page.home().to(at::kFloat));
  check_state(*optimizer_);
  book_moments();
  masters.connect(gradients, [this] { plain_step_seen_ = true; });
  take_over_groups();
}

void ShardedOptimizer::take_over_groups() {
  struct Place {
    MasterPage* page;
    Entry* entry;
  };
  std::unordered_map<const void*, Place> places;
  for (const auto& page : masters_) {
    for (auto& entry : page->entries()) {
      entry.group = -1;
      places[page->parameter_of(entry).tensor.unsafeGetTensorImpl()] = {page.get(), &entry};
      places[entry.view->tensor().unsafeGetTensorImpl()] = {page.get(), &entry};
    }
  }
  group_sizes_.clear();
  auto& groups = optimizer_->param_groups();
  for (size_t group = 0; group < groups.size(); ++group) {
    group_sizes_.push_back(groups[group].params().size());
    for (auto& parameter : groups[group].params()) {
      const void* const key = parameter.unsafeGetTensorImpl();
      const auto place = places.find(key);
      if (place == places.end()) continue;  // frozen, or without elements
      Entry& entry = *place->second.entry;
      entry.group = static_cast<int>(group);
      parameter = entry.view->tensor();
      if (parameter.unsafeGetTensorImpl() != key) adopt_state(*place->second.page, entry, key);
    }
  }
}

void ShardedOptimizer::adopt_state(MasterPage& page, const Entry& entry, const void* key) {
  auto& states = optimizer_->state();
  const auto found = states.find(const_cast<void*>(key));
  if (found == states.end()) return;
  auto state = std::move(found->second);
  states.erase(found);
  if (rule_ != nullptr) {
    for (at::Tensor* moment : rule_->moments(*state)) {
      if (moment != nullptr && moment->defined())
        *moment = shard_of(*moment, page.shard(), entry.range);
    }
  }
  states[entry.view->tensor().unsafeGetTensorImpl()] = std::move(state);
}

void ShardedOptimizer::give_back_groups() {
  std::unordered_map<const void*, at::Tensor> parameters;
  for (const auto& page : masters_) {
    for (const auto& entry : page->entries()) {
      if (entry.view)
        parameters[entry.view->tensor().unsafeGetTensorImpl()] = page->parameter_of(entry).tensor;
    }
  }
  for (auto& group : optimizer_->param_groups()) {
    for (auto& parameter : group.params()) {
      const auto own = parameters.find(parameter.unsafeGetTensorImpl());
      if (own != parameters.end()) parameter = own->second;
    }
  }
}

void ShardedOptimizer::check_exchange(const torch::optim::Optimizer& other) const {
  check_usable(other, options_.allow_untested);
  check_state(other);
}

void ShardedOptimizer::exchange(torch::optim::Optimizer& other, Communicator& gather) {
  bool moved = false;  // to another place with our masters in it, or the same one again
  for (const auto& group : other.param_groups()) {
    for (const auto& parameter : group.params()) moved |= holds(parameter);
  }
  if (!moved && holds_any() && is_alive()) {
    return_state(gather);
    give_back_groups();
  }
  optimizer_ = &other;
  rule_ = rule_of(other);
  book_moments();
  take_over_groups();
}

bool ShardedOptimizer::is_alive() const {
  for (const auto& page : masters_) {
    for (const auto& entry : page->entries()) {
      if (entry.group >= 0 && entry.view->tensor().use_count() < 2) return false;
    }
  }
  return true;
}

bool ShardedOptimizer::holds(const at::Tensor& tensor) const {
  for (const auto& page : masters_) {
    for (const auto& entry : page->entries()) {
      if (entry.view->tensor().is_same(tensor)) return true;
    }
  }
  return false;
}

bool ShardedOptimizer::holds_any() const {
  for (const auto& page : masters_) {
    for (const auto& entry : page->entries()) {
      if (entry.group >= 0) return true;
    }
  }
  return false;
}

void ShardedOptimizer::check_groups() const {
  TORCH_CHECK(
      is_alive(),
      "LibZeRO: the optimizer that was given to setup is gone, or its groups were replaced. "
      "Keep it alive as long as the strategy, or call setup() again with the new one.");
  const auto& groups = optimizer_->param_groups();
  bool same = groups.size() == group_sizes_.size();
  for (size_t group = 0; same && group < groups.size(); ++group)
    same = groups[group].params().size() == group_sizes_[group];
  TORCH_CHECK(
      same,
      "LibZeRO: the optimizer's parameter groups have changed since setup (it was moved, or "
      "a group or parameter was added). Call setup() again with it.");
}

void ShardedOptimizer::check_ready() const {
  check_groups();
  if (pages_.residency() != nullptr) pages_.residency()->require_unpinned();
}

template <class Action>
void ShardedOptimizer::for_each_moment(const Action& action) const {
  if (rule_ == nullptr) return;
  for (const auto& page : masters_) {
    for (const auto& entry : page->entries()) {
      const auto state = optimizer_->state().find(entry.view->tensor().unsafeGetTensorImpl());
      if (state == optimizer_->state().end()) continue;
      const Moments<at::Tensor*> held = rule_->moments(*state->second);
      for (size_t i = 0; i < held.size(); ++i) {
        if (held[i] != nullptr && held[i]->defined())
          action(page->shard(), entry.range, i, *held[i]);
      }
    }
  }
}

bool ShardedOptimizer::has_state_elsewhere() const {
  bool elsewhere = false;
  for_each_moment(
      [&](MasterShard& shard, const MasterRange& range, size_t moment, const at::Tensor& held) {
        elsewhere |= shard.has(moment) && !shard.is_moment_of(held, range, moment);
      });
  return elsewhere;
}

void ShardedOptimizer::check_state_elsewhere() const {
  for_each_moment([](MasterShard& shard, const MasterRange& range, size_t /*moment*/,
                     const at::Tensor& held) { check_fits(held, shard.geometry(range)); });
}

torch::optim::OptimizerParamState* ShardedOptimizer::state_of(MasterPage& page, const Entry& entry,
                                                              bool& is_new) {
  const auto& group = optimizer_->param_groups()[entry.group];
  const Moments<bool> needs = rule_->needs(group);
  is_new = false;
  if (!needs[0] && !needs[1] && !needs[2]) return nullptr;
  auto& state = optimizer_->state()[entry.view->tensor().unsafeGetTensorImpl()];
  if (state == nullptr) {
    state = rule_->make_state();
    is_new = true;
  }
  const Moments<at::Tensor*> held = rule_->moments(*state);
  for (size_t i = 0; i < needs.size(); ++i) {
    if (needs[i]) move_into(page.shard(), entry.range, i, *held[i], rule_->initial_value(group));
  }
  return state.get();
}

void ShardedOptimizer::prepare(MasterPage& page, const Entry& entry, kernels::Segment& segment) {
  bool is_new = false;
  auto* const state = state_of(page, entry, is_new);
  segment.begin = entry.range.begin;
  segment.length = entry.range.length;
  rule_->prepare(optimizer_->param_groups()[entry.group], state, is_new, segment);
}

// The optimizer's own arithmetic, operator by operator, on the masters and their gradients.
void ShardedOptimizer::own_step(Gradients& gradients, float scale) {
  if (scale != 1.0f) gradients.scale(scale, index_);
  // What is refused in a plain step is what strategy.step() has looked after.
  const auto checked = std::exchange(gradients.on_optimizer_step, nullptr);
  try {
    optimizer_->step();
  } catch (...) {
    gradients.on_optimizer_step = checked;
    throw;
  }
  gradients.on_optimizer_step = checked;
}

int64_t ShardedOptimizer::step(Gradients& gradients, float scale) {
  ran_on_cpu_ = ran_on_cuda_ = false;
  if (rule_ == nullptr) {
    own_step(gradients, scale);
    return 0;
  }
  book_moments();
  pages_.freshen();
  for (const auto& page : masters_) page->follow_writes();
  int64_t calls = 0;
  for (const auto& page : masters_) {
    const GradientPage& gradient = gradients.page_of(page->page());
    Segments segments;
    for (const auto& entry : page->entries()) {
      if (entry.group < 0 || !gradients.present(gradient, entry.range.parameter)) continue;
      // Also where the parameter lies on other ranks, so that every rank counts its steps.
      prepare(*page, entry, segments.emplace_back());
    }
    page->forget_whole();
    const auto pieces = in_calls(segments, options_.call_elements);
    page->shard().update(options_.isa, pool_, gradients.shard(gradient), pieces, scale);
    calls += static_cast<int64_t>(pieces.size());
    (page->shard().device().is_cpu() ? ran_on_cpu_ : ran_on_cuda_) = true;
    page->outdate_graphs();
    page->publish();
  }
  return calls;
}

void ShardedOptimizer::return_state(Communicator& gather) {
  if (!holds_any() || !is_alive()) return;
  if (rule_ == nullptr && options_.masters.shard.count > 1 && !optimizer_->state().empty()) {
    TORCH_WARN("LibZeRO: the state of ", name_of(*optimizer_),
               " ends with its shards: LibZeRO does not know how to make it whole.");
  }
  for (const auto& page : masters_) return_state(*page, gather);
}

void ShardedOptimizer::return_state(MasterPage& page, Communicator& gather) {
  auto& states = optimizer_->state();
  const bool shared = options_.masters.shard.count > 1;
  bool is_new = false;
  std::vector<std::unique_ptr<torch::optim::OptimizerParamState>> taken;
  for (const auto& entry : page.entries()) {
    const auto found = states.find(entry.view->tensor().unsafeGetTensorImpl());
    if (entry.group < 0 || found == states.end()) {
      taken.push_back(nullptr);
      continue;
    }
    if (rule_ != nullptr) state_of(page, entry, is_new);  // into our buffers
    taken.push_back(std::move(found->second));
    states.erase(found);
  }
  if (rule_ == nullptr && shared) return;
  for (size_t i = 0; i < 3; ++i) {
    if (rule_ == nullptr || !page.shard().has(i)) continue;
    const at::Tensor whole = whole_moment(page.shard(), i, gather);
    for (size_t k = 0; k < taken.size(); ++k) {
      if (taken[k] == nullptr) continue;
      at::Tensor* const held = rule_->moments(*taken[k])[i];
      if (held == nullptr || !held->defined()) continue;
      *held = part_of(whole, page.page().layout(), page.entries()[k].range.parameter);
    }
  }
  for (size_t k = 0; k < taken.size(); ++k) {
    if (taken[k] == nullptr) continue;
    states[page.parameter_of(page.entries()[k]).tensor.unsafeGetTensorImpl()] = std::move(taken[k]);
  }
}

}  // namespace zero
