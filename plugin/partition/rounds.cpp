// SPDX-License-Identifier: Apache-2.0
#include "plugin/partition/rounds.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "plugin/partition/agreement.h"
#include "plugin/partition/control.h"
#include "plugin/partition/groups.h"

namespace zero {

struct Rounds::Word {
  enum Kind : int32_t { kAsk, kMeet, kDesert };
  int32_t kind = kAsk;
  int32_t member = 0;
  int32_t item = -1;
  int32_t padding = 0;
  int64_t heard = 0;  // rounds that the speaker had heard
  char place[40] = {};

  bool says_the_same_as(const Word& other) const {
    return kind == other.kind && member == other.member && item == other.item &&
           std::strncmp(place, other.place, sizeof place) == 0;
  }
};

struct Rounds::Round {
  at::Tensor mine, all;
  c10::intrusive_ptr<c10d::Work> work;
};

struct Rounds::Group {
  c10::intrusive_ptr<c10d::Backend> backend;
};

Rounds::Rounds(CommunicatorOptions options, bool blocking,
               const c10::intrusive_ptr<c10d::Store>& store)
    : options_(std::move(options)), blocking_(blocking), group_(std::make_unique<Group>()) {
  group_->backend = make_gloo_group(options_, store);
}

Rounds::~Rounds() = default;

int Rounds::enlist(Member& member) {
  const Lock lock(mutex_);
  seats_.emplace_back().member = &member;
  return static_cast<int>(seats_.size()) - 1;
}

void Rounds::leave(int member) {
  const Lock lock(mutex_);
  seats_[member] = {};
}

void Rounds::desert(int member) noexcept {
  const Lock lock(mutex_);
  try {
    if (group_ && failed_.empty() && seats_[member].broken.empty()) {
      settle(lock);
      Word word;
      word.kind = Word::kDesert;
      word.member = member;
      say(word, lock);
    }
  } catch (const std::exception& error) {
    TORCH_WARN("LibZeRO: the other ranks could not be told that this one left: ", error.what());
  }
  seats_[member] = {};
}

void Rounds::require_whole(int member) const {
  TORCH_CHECK(failed_.empty(), failed_);
  const std::string& broken = seats_[member].broken;
  TORCH_CHECK(broken.empty(), broken);
}

void Rounds::say(const Word& word, const Lock&) {
  TORCH_CHECK(group_,
              "zero: ranks ask each other for parameters after the connections were closed: "
              "the process is exiting. Finish training before main ends.");
  const c10::InferenceMode normal(false);  // the tensors outlive the caller's mode
  const at::NoGradGuard no_grad;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Word));
  Round round;
  if (spare_.empty()) {
    round.mine = at::zeros({kBytes}, at::kByte);
    round.all = at::empty({kBytes * options_.world_size}, at::kByte);
  } else {
    round = std::move(spare_.back());
    spare_.pop_back();
  }
  Word mine = word;
  mine.heard = heard_;
  std::memcpy(round.mine.mutable_data_ptr(), &mine, sizeof mine);
  round.work = group_->backend->_allgather_base(round.all, round.mine);
  pending_.push_back(std::move(round));
}

std::vector<Rounds::Word> Rounds::listen() {
  Round round = std::move(pending_.front());
  pending_.pop_front();
  ++heard_;
  try {
    wait_for(*round.work, "waiting for the other ranks", options_);
  } catch (const WaitFailed& error) {
    failed_ = error.what_without_backtrace();
    throw;
  }
  std::vector<Word> words(options_.world_size);
  std::memcpy(words.data(), round.all.const_data_ptr(), words.size() * sizeof(Word));
  round.work.reset();
  spare_.push_back(std::move(round));
  return words;
}

void Rounds::ask(int member, int item, const Lock& lock) {
  require_whole(member);
  Word word;
  word.kind = Word::kAsk;
  word.member = member;
  word.item = item;
  say(word, lock);
}

void Rounds::hear(int member, const Lock& lock) {
  require_whole(member);
  TORCH_INTERNAL_ASSERT(!pending_.empty(), "a rank listens without having said anything");
  hear_next(lock);
}

void Rounds::hear_next(const Lock& lock) { conclude(listen(), lock); }

void Rounds::settle(const Lock& lock) {
  while (!pending_.empty()) hear_next(lock);
}

void Rounds::catch_up(const Lock& lock) {
  while (!pending_.empty() && (blocking_ || pending_.front().work->isCompleted())) hear_next(lock);
}

void Rounds::meet(int member, const char* place, int item, const Lock& lock) {
  require_whole(member);
  Word word;
  word.kind = Word::kMeet;
  word.member = member;
  word.item = item;
  std::strncpy(word.place, place, sizeof word.place - 1);
  do {
    say(word, lock);
    settle(lock);
  } while (!met_);
  diverged_at_meeting_ = diverged_;
}

void Rounds::conclude(const std::vector<Word>& words, const Lock& lock) {
  const int64_t round = heard_ - 1;
  const bool same = std::all_of(words.begin(), words.end(),
                                [&](const Word& word) { return word.says_the_same_as(words[0]); });
  const auto all_are = [&](Word::Kind kind) {
    return std::all_of(words.begin(), words.end(), [&](const Word& w) { return w.kind == kind; });
  };
  diverged_ |= !same;
  met_ = same && words[0].kind == Word::kMeet;

  std::vector<int> deserters;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].kind == Word::kDesert) deserters.push_back(static_cast<int>(rank));
  }
  if (!deserters.empty()) {
    Seat& seat = seats_[words[deserters[0]].member];
    if (seat.member == nullptr || !seat.broken.empty()) return;  // an old story here, too
    seat.broken = "LibZeRO: " + name_ranks(deserters) +
                  " ended its strategy because of an exception, so the parameters can no longer be "
                  "gathered. Read its output.";
    require_whole(words[deserters[0]].member);
  }
  if (!same && all_are(Word::kMeet)) {
    std::vector<std::string> places;
    for (const Word& word : words) places.push_back(describe(word));
    throw RankMismatch(
        "LibZeRO: the ranks wait for each other at different places.\n" +
        describe_difference(places) +
        "Every rank must run as many backward passes and steps, and write the same parameters. "
        "When "
        "ranks have different numbers of batches, stop all of them after the smallest.");
  }
  for (const Word& word : words) {
    if (word.kind != Word::kAsk) continue;
    Seat& seat = seats_[word.member];
    // One gather answers all who had asked before it.
    const auto [last, first] = seat.last_gathered.try_emplace(word.item, -1);
    if (last->second >= word.heard) continue;
    last->second = round;
    seat.member->gather(word.item, lock);
  }
}

std::string Rounds::describe(const Word& word) const {
  std::string text(word.place, strnlen(word.place, sizeof word.place));
  const Seat& seat = seats_[word.member];
  if (word.item >= 0 && seat.member != nullptr) text += seat.member->name_of(word.item);
  return text;
}

void Rounds::close(bool in_good_order) {
  const Lock lock(mutex_);
  if (!group_) return;
  if (in_good_order) {
    group_->backend->shutdown();
  } else {
    group_->backend->abort();
  }
  pending_.clear();
  group_.reset();
}

}  // namespace zero
