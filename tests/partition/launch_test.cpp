// SPDX-License-Identifier: Apache-2.0
// zero-launch: its ranks' variables, its exit codes, and what it says when a rank fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "trainer_integration/launch/rank_processes.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct Result {
  int code = 0;
  std::string output;
};

// Runs the launcher in a shell, both outputs together.
Result launch(const std::string& arguments, const std::string& before = "") {
  const std::string command = before + " exec " ZERO_LAUNCH " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Result result;
  std::array<char, 4096> buffer;
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    result.output.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string script(const std::string& text) { return " sh -c '" + text + "'"; }

TEST(Launch, GivesEachRankItsVariables) {
  const auto result =
      launch("-n 3 --port 4321" +
             script("echo \"[$RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE at "
                    "$MASTER_ADDR:$MASTER_PORT]\""));
  EXPECT_EQ(result.code, 0);
  for (const char* rank : {"0", "1", "2"}) {
    const std::string r = rank;
    EXPECT_THAT(result.output, HasSubstr("[" + r + "/3 local " + r + "/3 at 127.0.0.1:4321]\n"));
  }
}

TEST(Launch, PicksAPortAndKeepsTheRestOfTheEnvironment) {
  const auto result = launch("-n 1" + script("echo \"<$MASTER_PORT $MINE $TORCHELASTIC_X>\""),
                             "MINE=kept TORCHELASTIC_X=dropped");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.output, MatchesRegex("<[0-9]+ kept >\n"));
}

TEST(Launch, ThreadsShareTheCores) {
  EXPECT_EQ(launch("-n 1000000 true").code, 2);
  EXPECT_EQ(launch("-n 1" + script("echo $OMP_NUM_THREADS"), "OMP_NUM_THREADS=5").output, "5\n");
  EXPECT_THAT(launch("-n 2" + script("test $OMP_NUM_THREADS -ge 1"), "unset OMP_NUM_THREADS;").code,
              0);
}

TEST(Launch, PassesArgumentsUntouched) {
  const auto result = launch("-n 1 printf '%s|' -n --port 'a b' ''");
  EXPECT_EQ(result.output, "-n|--port|a b||");
}

TEST(Launch, ExitsWithTheFailedRanksCode) {
  const auto result = launch("-n 3" + script("test $RANK != 1 || exit 7"));
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 1 (pid "), HasSubstr("exited with code 7")));
}

TEST(Launch, StopsTheOthersWhenARankFails) {
  const auto result = launch("-n 2" + script("test $RANK = 0 && exit 7; exec sleep 1000"));
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 0 (pid "), HasSubstr("were stopped")));
}

TEST(Launch, NamesTheSignal) {
  const auto result = launch("-n 2" + script("test $RANK = 0 || kill -SEGV $$"));
  EXPECT_EQ(result.code, 128 + SIGSEGV);
  EXPECT_THAT(result.output, AllOf(HasSubstr("rank 1"), HasSubstr("signal 11")));
}

TEST(Launch, PassesSignalsOn) {
  // Each rank tells its launcher, its parent, once it is ready; the first USR1 that arrives ends
  // it.
  const auto result = launch(
      "-n 1" +
      script("trap \"echo got it; exit 5\" USR1; kill -USR1 $PPID; while :; do sleep 0.01; done"));
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.output, HasSubstr("got it"));
}

TEST(Launch, SaysWhatIsWrongWithItsArguments) {
  for (const char* wrong : {"", "true", "-n", "-n 2", "-n 0 true", "-n two true",
                            "-n 1 --port 70000 true", "-n 1 --fast true"}) {
    const auto result = launch(wrong);
    EXPECT_EQ(result.code, 2) << wrong;
    EXPECT_THAT(result.output, HasSubstr("usage: zero-launch")) << wrong;
  }
}

TEST(Launch, NamesAProgramThatCannotBeRun) {
  const auto result = launch("-n 2 /no/such/program");
  EXPECT_EQ(result.code, 127);
  EXPECT_THAT(result.output, HasSubstr("cannot run '/no/such/program': No such file"));
}

TEST(RankProcesses, EndWithTheirOwner) {
  zero::LaunchOptions options;
  options.ranks = 2;
  options.command = {"sleep", "1000"};
  { const zero::RankProcesses ranks(options); }
  errno = 0;
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
  EXPECT_EQ(errno, ECHILD);
}

TEST(RankProcesses, FreePortsAreUsable) { EXPECT_GT(zero::free_port(), 1023); }

}  // namespace
