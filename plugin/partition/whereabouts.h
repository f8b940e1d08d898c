// SPDX-License-Identifier: Apache-2.0
// Where each rank stands while it waits for the others. A wait that takes long is written on a board
// that all ranks can read, the store they met at; when a wait fails, its error tells what the board
// says. Nothing is sent while no wait is slow. Any thread.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace c10d {
class Store;
class Work;
}  // namespace c10d

namespace zero {

// What this thread is about while the object lives, for the errors of collectives inside. The text
// is made only when it is needed: "the fetch of page 3 ('head.weight')".
class Doing {
 public:
  explicit Doing(std::function<std::string()> text);
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  // The innermost text of this thread, or nothing.
  static std::string text();

 private:
  std::function<std::string()> text_;
  const Doing* outer_;
};

class Whereabouts {
 public:
  // One rank has no store and waits for nobody.
  Whereabouts(int rank, int world_size, c10::intrusive_ptr<c10d::Store> store);
  ~Whereabouts();

  // Waits until `work` is done; throws what it throws.
  void wait(c10d::Work& work, const std::string& call);
  // One line for each other rank, from the board. Asks the store.
  std::string of_others() const;
  // This process ends. When a wait has failed here, the others are about to fail, too, and the board
  // may be in this process: it stays a moment longer.
  void leave();

  // Updates of weights so far, by any way.
  void count_update() { ++updates_; }
  // "all_gather of 16 Float in the fetch of page 3 ('head.weight'), after 7 updates".
  std::string here(const std::string& call) const;

 private:
  std::string key(int rank) const;
  void write(const std::string& text);

  const int rank_;
  const int world_size_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<int64_t> updates_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace zero
