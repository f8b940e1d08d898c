// SPDX-License-Identifier: Apache-2.0
#include "plugin/partition/rendezvous.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace zero {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;
constexpr int64_t kDefaultTimeoutSeconds = 300;
constexpr int64_t kMaxTimeoutSeconds = 7 * 24 * 3600;
// Below the ports that hosts give to outgoing connections.
constexpr int64_t kFirstDerivedPort = 20000;
constexpr int64_t kDerivedPorts = 10000;

const char* environment_variable(const char* name) { return std::getenv(name); }

// One launcher's names, and the words for an error about them.
struct Names {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* found_in;
  const char* who_sets_them;
};

constexpr Names kTorchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "torchrun's variables",
                             "torchrun and zero-launch set it"};
constexpr Names kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI's variables",
                            "mpirun of Open MPI sets it"};
constexpr Names kPmi = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI's variables",
                        "mpiexec of MPICH or Intel MPI sets it"};
constexpr Names kSlurm = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "srun's variables",
                          "srun sets it"};

class Reader {
 public:
  explicit Reader(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  // An empty value counts as not set, as shells leave it behind.
  const char* text(const char* name) const {
    const char* value = lookup_(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
  }
  bool has(const char* name) const { return text(name) != nullptr; }

  std::optional<int64_t> number(const char* name, int64_t low, int64_t high) const {
    const char* value = text(name);
    if (value == nullptr) return std::nullopt;
    int64_t result = 0;
    const char* end = value + std::strlen(value);
    const auto parsed = std::from_chars(value, end, result);
    TORCH_CHECK(parsed.ec == std::errc() && parsed.ptr == end && result >= low && result <= high,
                "zero: the environment variable ", name, " is '", value,
                "', expected a whole number from ", low, " to ", high, ".");
    return result;
  }

  int64_t required(const char* name, int64_t low, int64_t high, const char* seen,
                   const char* who_sets_it) const {
    const auto value = number(name, low, high);
    TORCH_CHECK(value.has_value(), missing(name, seen, who_sets_it));
    return *value;
  }

  std::string missing(const char* name, const char* seen, const char* who_sets_it) const {
    return c10::str("zero: ", seen, " is set to '", text(seen), "' but ", name, " is not set (",
                    who_sets_it, "). Start the ranks with torchrun, srun, mpirun or ",
                    "zero-launch, or export ", name, "; for a single process unset ", seen, ".");
  }

 private:
  const EnvironmentLookup& lookup_;
};

Rendezvous read_place(const Reader& env, const Names& names) {
  const char* seen = env.has(names.world_size) ? names.world_size : names.rank;
  if (!env.has(seen)) seen = names.local_rank;
  Rendezvous place;
  place.found_in = names.found_in;
  place.world_size =
      static_cast<int>(env.required(names.world_size, 1, kMaxRanks, seen, names.who_sets_them));
  place.rank = static_cast<int>(env.required(names.rank, 0, kMaxRanks, seen, names.who_sets_them));
  TORCH_CHECK(place.rank < place.world_size, "zero: ", names.rank, "=", place.rank,
              " is not below ", names.world_size, "=", place.world_size,
              ": ranks count from 0. Check how the ranks were started (", names.who_sets_them,
              ").");
  // LOCAL_RANK, exported by hand, wins over what the launcher says.
  const char* local = env.has(kTorchrun.local_rank) ? kTorchrun.local_rank : names.local_rank;
  if (place.world_size > 1) {
    place.local_rank =
        static_cast<int>(env.required(local, 0, kMaxRanks, seen, names.who_sets_them));
  } else {
    place.local_rank = static_cast<int>(env.number(local, 0, kMaxRanks).value_or(0));
  }
  return place;
}

void read_meeting_place(const Reader& env, const Names& names, Rendezvous& place) {
  const char* who =
      "torchrun and zero-launch set it; other launchers pass on what you export: "
      "the host of rank 0 as MASTER_ADDR, a free port there as MASTER_PORT";
  const char* address = env.text("MASTER_ADDR");
  TORCH_CHECK(address != nullptr, env.missing("MASTER_ADDR", names.world_size, who));
  place.master_addr = address;
  place.master_port =
      static_cast<uint16_t>(env.required("MASTER_PORT", 1, 65535, names.world_size, who));
}

void read_agent(const Reader& env, Rendezvous& place) {
  const char* agent = env.text("TORCHELASTIC_USE_AGENT_STORE");
  place.agent_listens = agent != nullptr && std::string_view(agent) == "True";
  if (place.agent_listens) {
    const char* attempt = env.text("TORCHELASTIC_RESTART_COUNT");
    place.attempt = attempt != nullptr ? attempt : "0";
  }
}

// srun's tasks have a step; a batch script or an salloc shell has not, and is one process that
// would wait for tasks that nobody started.
void check_slurm_step(const Reader& env, const Rendezvous& place) {
  TORCH_CHECK(place.world_size == 1 || env.has("SLURM_STEP_ID") || env.has("SLURM_STEPID"),
              "zero: this Slurm job has SLURM_NTASKS=", place.world_size,
              " tasks, but this process was not started by srun (SLURM_STEP_ID is not set). Start "
              "it with srun or zero-launch; for a single process set RANK=0 and WORLD_SIZE=1.");
}

void read_slurm_meeting_place(const Reader& env, Rendezvous& place) {
  if (const char* address = env.text("MASTER_ADDR")) {
    place.master_addr = address;
  } else {
    const char* list = nullptr;
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}) {
      if (list == nullptr) list = env.text(name);
    }
    TORCH_CHECK(list != nullptr, env.missing("MASTER_ADDR", "SLURM_NTASKS",
                                             "nor SLURM_NODELIST, whose first host would do"));
    place.master_addr = first_host(list);
  }
  if (const auto port = env.number("MASTER_PORT", 1, 65535)) {
    place.master_port = static_cast<uint16_t>(*port);
    return;
  }
  const int64_t job = env.required("SLURM_JOB_ID", 0, INT64_MAX, "SLURM_NTASKS",
                                   "srun sets it; MASTER_PORT does as well");
  const int64_t step = env.number("SLURM_STEP_ID", 0, INT64_MAX).value_or(0);
  // Steps of one job and neighbouring jobs on one host get different ports.
  place.master_port = static_cast<uint16_t>(kFirstDerivedPort +
                                            (job % kDerivedPorts * 16 + step % 16) % kDerivedPorts);
}

bool pmi_is_slurms(const Reader& env) {
  const char* procid = env.text("SLURM_PROCID");
  const char* ntasks = env.text("SLURM_NTASKS");
  const char* rank = env.text("PMI_RANK");
  const char* size = env.text("PMI_SIZE");
  return procid && ntasks && rank && size && std::string_view(procid) == rank &&
         std::string_view(ntasks) == size;
}

bool any_of(const Reader& env, const Names& names) {
  return env.has(names.rank) || env.has(names.world_size);
}

}  // namespace

std::string first_host(const std::string& node_list) {
  std::string host;
  for (size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      host += node_list[i];
      continue;
    }
    const size_t close = node_list.find(']', i);
    const size_t end = node_list.find_first_of(",-]", i);
    TORCH_CHECK(close != std::string::npos && end > i + 1, "zero: the Slurm node list '", node_list,
                "' cannot be read. Set MASTER_ADDR to the host of rank 0.");
    host += node_list.substr(i + 1, end - i - 1);
    i = close;
  }
  TORCH_CHECK(!host.empty(), "zero: the Slurm node list '", node_list,
              "' names no host. Set MASTER_ADDR to the host of rank 0.");
  return host;
}

Rendezvous Rendezvous::from(const EnvironmentLookup& lookup) {
  const Reader env(lookup);
  Rendezvous place;
  if (any_of(env, kTorchrun)) {
    place = read_place(env, kTorchrun);
    if (place.world_size > 1) {
      read_meeting_place(env, kTorchrun, place);
      read_agent(env, place);
    }
  } else if (any_of(env, kOpenMpi)) {
    place = read_place(env, kOpenMpi);
    if (place.world_size > 1) read_meeting_place(env, kOpenMpi, place);
  } else if (any_of(env, kPmi) && !pmi_is_slurms(env)) {
    place = read_place(env, kPmi);
    if (place.world_size > 1) read_meeting_place(env, kPmi, place);
  } else if (env.has(kSlurm.rank)) {
    place = read_place(env, kSlurm);
    check_slurm_step(env, place);
    if (place.world_size > 1) read_slurm_meeting_place(env, place);
  } else if (env.has(kTorchrun.local_rank)) {
    place = read_place(env, kTorchrun);  // throws: LOCAL_RANK alone says nothing
  } else {
    place.found_in = "no launcher's variables";
  }
  return place;
}

Rendezvous Rendezvous::from_environment() { return from(environment_variable); }

std::chrono::milliseconds timeout_from(const EnvironmentLookup& lookup) {
  const auto seconds = Reader(lookup)
                           .number("ZERO_TIMEOUT_SECONDS", 1, kMaxTimeoutSeconds)
                           .value_or(kDefaultTimeoutSeconds);
  return std::chrono::seconds(seconds);
}

std::chrono::milliseconds timeout_from_environment() { return timeout_from(environment_variable); }

}  // namespace zero
