// SPDX-License-Identifier: Apache-2.0
// Where this process stands among the ranks, read from what its launcher left in the environment.
//
// Looked for in this order:
//   RANK / WORLD_SIZE              torchrun, zero-launch, or exported by hand
//   OMPI_COMM_WORLD_RANK / _SIZE   mpirun of Open MPI
//   PMI_RANK / PMI_SIZE            mpiexec of MPICH and Intel MPI
//   SLURM_PROCID / SLURM_NTASKS    srun
//   none of them                   one process
// mpirun inside a Slurm job leaves Slurm's names too, and there they count the nodes: so Slurm
// comes last.
//
// A partly set environment is an error that names the variable: a guess would leave the other ranks
// waiting. No state, any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace zero {

// Value of an environment variable, or nullptr.
using EnvironmentLookup = std::function<const char*(const char*)>;

struct Rendezvous {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // index of this process on its host, and so of its GPU
  // Where rank 0 listens. Empty and 0 with one process, which meets nobody.
  std::string master_addr;
  uint16_t master_port = 0;
  std::string found_in;  // for messages: "torchrun's variables", "srun's variables", ...
  // torchrun may keep the meeting place in its own agent; then no rank listens there, and keys of
  // an earlier attempt of the same job may still lie in it.
  bool agent_listens = false;
  std::string attempt;

  static Rendezvous from_environment();
  static Rendezvous from(const EnvironmentLookup& lookup);
};

// How long a collective or a meeting waits for the other ranks: ZERO_TIMEOUT_SECONDS, 300 if it is
// not set.
std::chrono::milliseconds timeout_from_environment();
std::chrono::milliseconds timeout_from(const EnvironmentLookup& lookup);

// "node[003-010,12],other" -> "node003": the first host of a Slurm node list, without asking
// scontrol.
std::string first_host(const std::string& node_list);

}  // namespace zero
