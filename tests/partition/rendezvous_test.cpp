// SPDX-License-Identifier: Apache-2.0
// Every launcher's variables are read, and an incomplete or wrong environment is named.
#include "plugin/partition/rendezvous.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

EnvironmentLookup lookup(const Environment& environment) {
  return [&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

Rendezvous place(const Environment& environment) { return Rendezvous::from(lookup(environment)); }

Environment with(Environment base, const Environment& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

Environment without(Environment base, const std::string& name) {
  base.erase(name);
  return base;
}

std::string error(const Environment& environment) {
  try {
    place(environment);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return "no error";
}

const Environment kTorchrun = {{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "node7"},
                               {"MASTER_PORT", "29500"}};
const Environment kSrun = {{"SLURM_PROCID", "5"},    {"SLURM_NTASKS", "8"},
                           {"SLURM_LOCALID", "1"},   {"SLURM_STEP_ID", "0"},
                           {"SLURM_JOB_ID", "4711"}, {"SLURM_NODELIST", "node[03-04]"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "a"},
                             {"MASTER_PORT", "1234"}};
const Environment kMpiexec = {{"PMI_RANK", "2"},
                              {"PMI_SIZE", "3"},
                              {"MPI_LOCALRANKID", "0"},
                              {"MASTER_ADDR", "a"},
                              {"MASTER_PORT", "1234"}};

void expect_place(const Rendezvous& r, int rank, int world, int local, const std::string& address,
                  int port) {
  EXPECT_EQ(r.rank, rank);
  EXPECT_EQ(r.world_size, world);
  EXPECT_EQ(r.local_rank, local);
  EXPECT_EQ(r.master_addr, address);
  EXPECT_EQ(r.master_port, port);
}

TEST(Rendezvous, NothingSetIsOneProcess) {
  expect_place(place({}), 0, 1, 0, "", 0);
  expect_place(place({{"MASTER_ADDR", "left-over"}, {"RANK", ""}}), 0, 1, 0, "", 0);
}

TEST(Rendezvous, ReadsEveryLauncher) {
  expect_place(place(kTorchrun), 3, 4, 1, "node7", 29500);
  EXPECT_EQ(place(kTorchrun).found_in, "torchrun's variables");
  expect_place(place(kMpirun), 1, 2, 1, "a", 1234);
  EXPECT_EQ(place(kMpirun).found_in, "Open MPI's variables");
  expect_place(place(kMpiexec), 2, 3, 0, "a", 1234);
  EXPECT_EQ(place(kMpiexec).found_in, "PMI's variables");
  const auto slurm = place(kSrun);
  expect_place(slurm, 5, 8, 1, "node03", slurm.master_port);
  EXPECT_EQ(slurm.found_in, "srun's variables");
}

TEST(Rendezvous, OneRankNeedsNoMeetingPlace) {
  expect_place(place({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), 0, 1, 0, "", 0);
  expect_place(place({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), 0, 1, 0, "",
               0);
  expect_place(place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}), 0, 1, 0, "", 0);
}

TEST(Rendezvous, SlurmsPortIsTheSameOnAllTasksAndDiffersBetweenSteps) {
  const int port = place(kSrun).master_port;
  EXPECT_GE(port, 20000);
  EXPECT_LT(port, 30000);
  EXPECT_EQ(place(with(kSrun, {{"SLURM_PROCID", "0"}})).master_port, port);
  EXPECT_NE(place(with(kSrun, {{"SLURM_STEP_ID", "1"}})).master_port, port);
  EXPECT_NE(place(with(kSrun, {{"SLURM_JOB_ID", "4712"}})).master_port, port);
}

TEST(Rendezvous, ExportedMeetingPlaceWinsOverSlurms) {
  expect_place(place(with(kSrun, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "99"}})), 5, 8, 1,
               "10.0.0.1", 99);
}

TEST(Rendezvous, FirstHostOfSlurmsLists) {
  EXPECT_EQ(first_host("node7"), "node7");
  EXPECT_EQ(first_host("b,a"), "b");
  EXPECT_EQ(first_host("node[003-010,12],other"), "node003");
  EXPECT_EQ(first_host("node[5,7]"), "node5");
  EXPECT_EQ(first_host("rack[1-2]n[04-08]-ib,x"), "rack1n04-ib");
  EXPECT_THROW(first_host("node[003-"), c10::Error);
  EXPECT_THROW(first_host("node[]"), c10::Error);
  EXPECT_THROW(first_host(""), c10::Error);
}

TEST(Rendezvous, ClosestLauncherWins) {
  const auto under_slurm = with(kMpirun, kSrun);
  EXPECT_EQ(place(under_slurm).rank, 1) << "mpirun inside a Slurm job";
  EXPECT_EQ(place(with(under_slurm, kTorchrun)).rank, 3) << "torchrun inside both";
  EXPECT_EQ(place(with(kMpiexec, kSrun)).rank, 2) << "mpiexec inside a Slurm job";
  const auto srun_pmi2 = with(kSrun, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}});
  EXPECT_EQ(place(srun_pmi2).found_in, "srun's variables") << "srun --mpi=pmi2";
}

TEST(Rendezvous, LocalRankCanBeGivenByHand) {
  EXPECT_EQ(place(with(kMpirun, {{"LOCAL_RANK", "7"}})).local_rank, 7);
}

TEST(Rendezvous, TorchrunsAgentMayHoldTheMeetingPlace) {
  EXPECT_FALSE(place(kTorchrun).agent_listens);
  const auto r = place(with(
      kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_TRUE(r.agent_listens);
  EXPECT_EQ(r.attempt, "2");
  EXPECT_FALSE(place(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_listens);
}

TEST(RendezvousError, NamesTheMissingVariableAndItsLauncher) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    EXPECT_THAT(error(without(kTorchrun, name)),
                AllOf(HasSubstr(std::string(name) + " is not set"), HasSubstr("torchrun")))
        << name;
  }
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    EXPECT_THAT(error(without(kMpirun, name)),
                AllOf(HasSubstr(std::string(name)), HasSubstr("is not set"), HasSubstr("mpirun")))
        << name;
  }
  for (const char* name : {"PMI_RANK", "PMI_SIZE", "MASTER_ADDR"}) {
    EXPECT_THAT(error(without(kMpiexec, name)), HasSubstr(std::string(name) + " is not set"));
  }
  for (const char* name : {"SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID"}) {
    EXPECT_THAT(error(without(kSrun, name)),
                AllOf(HasSubstr(std::string(name) + " is not set"), HasSubstr("srun")))
        << name;
  }
  EXPECT_THAT(error(without(kSrun, "SLURM_NODELIST")), HasSubstr("MASTER_ADDR is not set"));
}

TEST(RendezvousError, ALoneVariableIsNotIgnored) {
  EXPECT_THAT(error({{"WORLD_SIZE", "2"}}), HasSubstr("WORLD_SIZE is set to '2' but RANK"));
  EXPECT_THAT(error({{"RANK", "0"}}), HasSubstr("RANK is set to '0' but WORLD_SIZE"));
  EXPECT_THAT(error({{"LOCAL_RANK", "0"}}), HasSubstr("LOCAL_RANK is set to '0' but WORLD_SIZE"));
}

TEST(RendezvousError, NumbersMustBeNumbersInRange) {
  EXPECT_THAT(error(with(kTorchrun, {{"RANK", "one"}})), HasSubstr("RANK is 'one'"));
  EXPECT_THAT(error(with(kTorchrun, {{"RANK", "-1"}})), HasSubstr("RANK is '-1'"));
  EXPECT_THAT(error(with(kTorchrun, {{"WORLD_SIZE", "4x"}})), HasSubstr("WORLD_SIZE is '4x'"));
  EXPECT_THAT(error(with(kTorchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE is '0'"));
  EXPECT_THAT(error(with(kTorchrun, {{"LOCAL_RANK", " 1"}})), HasSubstr("LOCAL_RANK is ' 1'"));
  EXPECT_THAT(error(with(kTorchrun, {{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(error(with(kSrun, {{"SLURM_NTASKS", "8(x2)"}})), HasSubstr("SLURM_NTASKS"));
}

TEST(RendezvousError, RankMustBeBelowTheWorldSize) {
  EXPECT_THAT(error(with(kTorchrun, {{"RANK", "4"}})), HasSubstr("RANK=4 is not below"));
  EXPECT_THAT(error(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "2"}})), HasSubstr("is not below"));
}

TEST(RendezvousError, ABatchScriptWithoutSrunDoesNotWaitForTasks) {
  EXPECT_THAT(error(without(kSrun, "SLURM_STEP_ID")), HasSubstr("not started by srun"));
}

TEST(Timeout, IsReadAndChecked) {
  using std::chrono::seconds;
  EXPECT_EQ(timeout_from(lookup({})), seconds(300));
  EXPECT_EQ(timeout_from(lookup({{"ZERO_TIMEOUT_SECONDS", "7"}})), seconds(7));
  for (const char* wrong : {"0", "-5", "soon", "1.5"}) {
    EXPECT_THROW(timeout_from(lookup({{"ZERO_TIMEOUT_SECONDS", wrong}})), c10::Error) << wrong;
  }
}

}  // namespace
}  // namespace zero
