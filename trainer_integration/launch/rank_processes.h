// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of one job on this host, with the variables torchrun would set, and waits for
// all of them.
//
// When a rank fails, the others get a moment to end by themselves, so that their own messages are
// seen; then they are told to (SIGTERM), and then made to (SIGKILL). Each rank leads its own
// process group, and ends with this process. start() and wait() belong to one thread, which must
// live as long as the ranks; send() may be called from any.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace zero {

struct LaunchOptions {
  int ranks = 1;
  uint16_t port = 0;                 // where the ranks meet on this host; 0 picks a free one
  std::vector<std::string> command;  // program, found through PATH, and its arguments
  std::map<std::string, std::string> environment;  // on top of what this process has
  std::vector<int> output;  // one descriptor per rank for stdout and stderr; empty: as this process
  std::chrono::milliseconds grace =
      std::chrono::seconds(3);        // between failure, SIGTERM and SIGKILL
  std::chrono::milliseconds limit{};  // of the whole run; 0 is none
};

struct RankExit {
  int rank = 0;
  pid_t pid = 0;
  int code = 0;          // exit code, or 128 + signal
  int signal = 0;        // that ended it, or 0
  bool stopped = false;  // told to end because another rank failed or the time was over
  bool failed() const { return code != 0; }
  std::string sentence() const;  // "rank 1 (pid 4711) was ended by signal 9 (Killed)"
};

class RankProcesses {
 public:
  // Throws std::runtime_error if the program cannot be started; ranks already started are ended.
  explicit RankProcesses(const LaunchOptions& options);
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses();

  // Returns when every rank has ended, in the order in which they ended.
  std::vector<RankExit> wait();
  // To every rank that still runs.
  void send(int signal);
  // Whether wait() ended the ranks because of the limit.
  bool out_of_time() const { return out_of_time_; }

 private:
  struct Child {
    pid_t pid = 0;
    bool ended = false;
    std::thread waiter;
  };
  void start(int rank, const std::vector<std::string>& environment);
  void await(int rank);
  void stop_running(int signal);

  LaunchOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Child> children_;
  std::vector<RankExit> exits_;
  bool stopping_ = false;
  bool out_of_time_ = false;
};

// A TCP port that nobody listens on now.
uint16_t free_port();

}  // namespace zero
