// SPDX-License-Identifier: Apache-2.0
// This process's place among the ranks, and its communicators. One per process and kind of device,
// shared by all strategies, closed when the process exits.
//
// All ranks join together. With one rank there is no store, no connection and no thread.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "plugin/partition/communicator.h"
#include "plugin/partition/control.h"
#include "plugin/partition/rounds.h"
#include "plugin/partition/whereabouts.h"

namespace zero {

class World {
 public:
  // Meets the other ranks at the place named by the environment (see rendezvous.h); later calls
  // return the same world. On GPUs, LOCAL_RANK picks the device. Throws c10::Error if the
  // environment is incomplete or somebody does not come within the timeout.
  static std::shared_ptr<World> join(at::DeviceType type);

  int rank() const { return control_.rank(); }
  int world_size() const { return control_.world_size(); }
  int local_rank() const { return local_rank_; }
  // cpu; or cuda:LOCAL_RANK, or the only GPU where the launcher shows each rank just its own.
  at::Device device() const { return gather_.device(); }

  // Gathers of pages, in the order that the rounds say.
  Communicator& gather() { return gather_; }
  // Everything else, in the order of the program. It does not queue behind gathers.
  Communicator& reduce() { return reduce_; }
  // A communicator over `size` consecutive ranks, this one among them: 0 to size - 1, size to
  // 2 * size - 1, ... Every rank asks. The same one for the same size. Throws where the ranks
  // cannot be divided so.
  std::shared_ptr<Communicator> neighbours(int size);
  Rounds* rounds() { return rounds_.get(); }  // nullptr with one rank
  Control& control() { return control_; }     // one for all kinds of device
  Whereabouts& whereabouts() { return *whereabouts_; }

 private:
  World(int local_rank, const CommunicatorOptions& gather, const CommunicatorOptions& reduce,
        const CommunicatorOptions& rounds, Control& control,
        const c10::intrusive_ptr<c10d::Store>& store);
  friend class Process;

  int local_rank_;
  Communicator gather_;
  Communicator reduce_;
  std::unique_ptr<Rounds> rounds_;
  Control& control_;
  std::shared_ptr<Whereabouts> whereabouts_;
};

}  // namespace zero
