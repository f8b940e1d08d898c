// SPDX-License-Identifier: Apache-2.0
#include "trainer_integration/launch/rank_processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace zero {
namespace {

std::runtime_error system_failure(const std::string& what) {
  return std::runtime_error(what + ": " + std::generic_category().message(errno));
}

// This process's environment with `changes`, as NAME=value. What torchrun's agent left for its own
// ranks is dropped.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (changes.count(name) == 0 && name.rfind("TORCHELASTIC_", 0) != 0) result.push_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + '=' + value);
  return result;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Between fork and exec, in a process that may have had other threads: only calls that are safe
// there.
[[noreturn]] void become(char* const* command, char* const* environment, int output, int report,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (output < 0 || (dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0)) {
    execvpe(command[0], command, environment);
  }
  const int error = errno;
  (void)!write(report, &error, sizeof error);
  _exit(127);
}

}  // namespace

std::string RankExit::sentence() const {
  std::ostringstream text;
  text << "rank " << rank << " (pid " << pid << ") ";
  if (signal != 0) {
    text << "was ended by signal " << signal << " (" << strsignal(signal) << ")";
  } else {
    text << "exited with code " << code;
  }
  return text.str();
}

uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  const bool bound = fd >= 0 && bind(fd, any, size) == 0 && getsockname(fd, any, &size) == 0;
  const auto failure = system_failure("no free TCP port");
  if (fd >= 0) close(fd);
  if (!bound) throw failure;
  return ntohs(address.sin_port);
}

RankProcesses::RankProcesses(const LaunchOptions& options)
    : options_(options), children_(options.ranks) {
  if (options_.port == 0) options_.port = free_port();
  std::map<std::string, std::string> changes = options_.environment;
  const std::string ranks = std::to_string(options_.ranks);
  changes.insert({{"WORLD_SIZE", ranks},
                  {"LOCAL_WORLD_SIZE", ranks},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", std::to_string(options_.port)}});
  // The ranks share the cores: each with a thread per core would run slower than one alone.
  if (getenv("OMP_NUM_THREADS") == nullptr) {
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency() / options_.ranks);
    changes.insert({"OMP_NUM_THREADS", std::to_string(cores)});
  }
  try {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      auto mine = changes;
      mine.insert({{"RANK", std::to_string(rank)}, {"LOCAL_RANK", std::to_string(rank)}});
      start(rank, environment_with(mine));
    }
  } catch (...) {
    stop_running(SIGKILL);
    for (Child& child : children_) {
      if (child.waiter.joinable()) child.waiter.join();
    }
    throw;
  }
}

RankProcesses::~RankProcesses() {
  stop_running(SIGKILL);
  for (Child& child : children_) {
    if (child.waiter.joinable()) child.waiter.join();
  }
}

void RankProcesses::start(int rank, const std::vector<std::string>& environment) {
  const std::vector<char*> command = pointers(options_.command);
  const std::vector<char*> variables = pointers(environment);
  const int output = options_.output.empty() ? -1 : options_.output.at(rank);
  int report[2];  // closed by a successful exec, else it brings the reason
  if (pipe2(report, O_CLOEXEC) != 0) throw system_failure("cannot make a pipe");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(command.data(), variables.data(), output, report[1], parent);
  const auto fork_failure = system_failure("cannot start rank " + std::to_string(rank));
  close(report[1]);
  int error = 0;
  const bool failed = pid > 0 && read(report[0], &error, sizeof error) == sizeof error;
  close(report[0]);
  if (pid < 0) throw fork_failure;
  if (failed) {
    waitpid(pid, nullptr, 0);
    errno = error;
    throw system_failure("cannot run '" + options_.command[0] + "'");
  }
  children_[rank].pid = pid;
  children_[rank].waiter = std::thread([this, rank] { await(rank); });
}

void RankProcesses::await(int rank) {
  siginfo_t info{};
  // Leaves the process unreaped, so that its id is not given to another before the lock is held.
  while (waitid(P_PID, children_[rank].pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);
  int status = 0;
  waitpid(children_[rank].pid, &status, 0);
  children_[rank].ended = true;
  RankExit exit{rank, children_[rank].pid, 0, 0, stopping_};
  exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit.code = exit.signal != 0 ? 128 + exit.signal : WEXITSTATUS(status);
  exits_.push_back(exit);
  changed_.notify_all();
}

void RankProcesses::send(int signal) {
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_) {
    if (child.pid != 0 && !child.ended) kill(-child.pid, signal);
  }
}

void RankProcesses::stop_running(int signal) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  send(signal);
}

std::vector<RankExit> RankProcesses::wait() {
  const auto all_ended = [this] { return exits_.size() == children_.size(); };
  const auto one_failed = [this] {
    return std::any_of(exits_.begin(), exits_.end(), [](const RankExit& e) { return e.failed(); });
  };
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return all_ended() || one_failed(); };
  if (options_.limit.count() == 0) {
    changed_.wait(lock, ready);
  } else {
    out_of_time_ = !changed_.wait_for(lock, options_.limit, ready);
  }
  if (!out_of_time_) changed_.wait_for(lock, options_.grace, all_ended);
  for (const int signal : {SIGTERM, SIGKILL}) {
    if (all_ended()) break;
    lock.unlock();
    stop_running(signal);
    lock.lock();
    changed_.wait_for(lock, options_.grace, all_ended);
  }
  changed_.wait(lock, all_ended);
  return exits_;
}

}  // namespace zero
