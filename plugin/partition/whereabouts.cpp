// SPDX-License-Identifier: Apache-2.0
#include "plugin/partition/whereabouts.h"

#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace zero {

namespace {

constexpr auto kSlow = std::chrono::milliseconds(500);  // a wait that is worth a line on the board

constexpr auto kLastLook = std::chrono::seconds(1);

thread_local const Doing* innermost = nullptr;

// Whether the work ended within the time. Its own failure is left for the next wait.
bool done_within(c10d::Work& work, std::chrono::milliseconds time) {
  if (work.isCompleted()) return true;
  try {
    work.wait(time);
  } catch (...) {
    return work.isCompleted();
  }
  return true;
}

}  // namespace

Doing::Doing(std::function<std::string()> text) : text_(std::move(text)), outer_(innermost) {
  innermost = this;
}

Doing::~Doing() { innermost = outer_; }

std::string Doing::text() { return innermost != nullptr ? innermost->text_() : std::string(); }

Whereabouts::Whereabouts(int rank, int world_size, c10::intrusive_ptr<c10d::Store> store)
    : rank_(rank), world_size_(world_size), store_(std::move(store)) {}

Whereabouts::~Whereabouts() = default;

void Whereabouts::wait(c10d::Work& work, const std::string& call) {
  if (!store_ || done_within(work, kSlow)) {
    work.wait();
    return;
  }
  write("waits: " + here(call));
  try {
    work.wait();
  } catch (...) {
    failed_ = true;
    write("stopped waiting: " + here(call));
    throw;
  }
  write("");
}

std::string Whereabouts::of_others() const {
  std::string text;
  try {
    for (int rank = 0; rank < world_size_ && store_; ++rank) {
      if (rank == rank_) continue;
      std::string line;
      if (store_->check({key(rank)})) {
        const auto bytes = store_->get(key(rank));
        line.assign(bytes.begin(), bytes.end());
      }
      if (line.empty()) line = "waits for nobody: it computes, has ended, or waits elsewhere";
      text.append("\n  rank ").append(std::to_string(rank)).append(" ").append(line);
    }
  } catch (const std::exception&) {
    text.append("\n  The place where the ranks met is gone: its process has ended.");
  }
  return text;
}

void Whereabouts::leave() {
  if (!store_) return;
  write("has left: its process ends");
  if (failed_) std::this_thread::sleep_for(kLastLook);
}

std::string Whereabouts::here(const std::string& call) const {
  std::string text = call;
  if (const std::string doing = Doing::text(); !doing.empty()) text.append(" in ").append(doing);
  const int64_t updates = updates_;
  text.append(", after ").append(std::to_string(updates));
  return text.append(updates == 1 ? " update" : " updates");
}

std::string Whereabouts::key(int rank) const { return "whereabouts/" + std::to_string(rank); }

// The board helps to explain; a wait must not fail because of it.
void Whereabouts::write(const std::string& text) {
  try {
    store_->set(key(rank_), text);
  } catch (const std::exception&) {
  }
}

}  // namespace zero
