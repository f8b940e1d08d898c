// SPDX-License-Identifier: Apache-2.0
// How ranks that need different things still gather together.
//
// Note [Rounds]
// A gather is a collective: all ranks must enter it, also those that do not need its item (a page
// of parameters), and in one order. So every rank says one word a round, without waiting for the
// others: which item it needs, or the place where it has come to and waits for everybody. All ranks
// hear all words of a round, in the order of the rounds, and draw the same conclusions:
//   - every item that somebody needs is gathered by all ranks, in rank order;
//   - when all have come to the same place, they go on;
//   - when all have come to a place, but not to the same, all get the same error that names them.
// A rank that needs less than another serves it from the next place where it waits. Ranks that do
// the same say the same, and then a round costs one small message that travels ahead of need.
//
// Words are heard where this rank asks for something. Where the gather blocks (Gloo) that must be
// the same point of the program on all ranks, so there every word is heard as soon as it is said.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugin/partition/communicator.h"

namespace zero {

class Rounds {
 public:
  using Lock = std::lock_guard<std::mutex>;

  // Somebody whose items are gathered. Called under the lock.
  class Member {
   public:
    // All ranks enter this gather now.
    virtual void gather(int item, const Lock& lock) = 0;
    virtual std::string name_of(int item) const = 0;

   protected:
    ~Member() = default;
  };

  // Connects to the other ranks, which must do the same. `blocking`: gathers block the host.
  Rounds(CommunicatorOptions options, bool blocking, const c10::intrusive_ptr<c10d::Store>& store);
  ~Rounds();
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  // Guards the rounds and what their members do in gather().
  std::mutex& mutex() { return mutex_; }

  // All ranks enlist the same members in the same order.
  int enlist(Member& member);
  // In good order, all ranks together: nothing is pending.
  void leave(int member);
  // This rank leaves alone: the others get an error that says so. What was asked for before is
  // still gathered.
  void desert(int member) noexcept;

  // This rank needs `item`; it is gathered in one of the next rounds that are heard.
  void ask(int member, int item, const Lock& lock);
  // Waits for the next round and does what it asks for.
  void hear(int member, const Lock& lock);
  // Hears what can be heard now: everything where gathers block, else what has arrived.
  void catch_up(const Lock& lock);
  // Hears everything that was said.
  void settle(const Lock& lock);
  // Waits until all ranks have come to this place; serves them until then. `item`: -1 for none.
  void meet(int member, const char* place, int item, const Lock& lock);

  // Whether ranks have said different things up to the last meeting.
  bool diverged() const { return diverged_at_meeting_; }
  bool blocking() const { return blocking_; }

  void close(bool in_good_order);

 private:
  struct Word;
  struct Round;
  struct Seat {
    Member* member = nullptr;              // null: has left
    std::string broken;                    // why no round is possible any more
    std::map<int, int64_t> last_gathered;  // round by item
  };

  void hear_next(const Lock& lock);
  void say(const Word& word, const Lock& lock);
  std::vector<Word> listen();
  void conclude(const std::vector<Word>& words, const Lock& lock);
  void require_whole(int member) const;
  std::string describe(const Word& word) const;

  CommunicatorOptions options_;
  const bool blocking_;
  struct Group;
  std::unique_ptr<Group> group_;
  std::mutex mutex_;
  std::deque<Round> pending_;  // said and not yet heard
  std::vector<Round> spare_;
  int64_t heard_ = 0;
  std::string failed_;  // why nothing can be heard any more
  bool met_ = false;    // in the last round that was heard
  bool diverged_ = false;
  bool diverged_at_meeting_ = false;
  std::vector<Seat> seats_;
};

}  // namespace zero
