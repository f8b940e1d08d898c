// SPDX-License-Identifier: Apache-2.0
// zero-launch: runs a program as N ranks on this host.
//
//   zero-launch -n 2 [--port P] program arguments...
//
// Signals are passed on to the ranks. Exits with 0 when all ranks did, else with the code of the
// rank that failed first (128 + signal if a signal ended it), after a sentence that says which one
// and how.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "trainer_integration/launch/rank_processes.h"

namespace {

constexpr int kUsageError = 2;
constexpr const char* kUsage = "usage: zero-launch -n RANKS [--port PORT] program [arguments...]";
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

int number(const char* option, const char* text, int high) {
  if (text == nullptr) throw std::invalid_argument(std::string(option) + " needs a number");
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1 || value > high) {
    throw std::invalid_argument(std::string(option) + " is '" + text +
                                "', expected a whole number from 1 to " + std::to_string(high));
  }
  return value;
}

zero::LaunchOptions parse(char** argument) {
  zero::LaunchOptions options;
  options.ranks = 0;
  while (*argument != nullptr && (*argument)[0] == '-') {
    const std::string option = *argument++;
    if (option == "-n") {
      options.ranks = number("-n", *argument, 4096);
    } else if (option == "--port") {
      options.port = static_cast<uint16_t>(number("--port", *argument, 65535));
    } else {
      throw std::invalid_argument("unknown option " + option);
    }
    ++argument;
  }
  while (*argument != nullptr) options.command.emplace_back(*argument++);
  if (options.ranks == 0) throw std::invalid_argument("-n is missing");
  if (options.command.empty()) throw std::invalid_argument("the program is missing");
  return options;
}

sigset_t forwarded_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kForwarded) sigaddset(&set, signal);
  return set;
}

int run(const zero::LaunchOptions& options) {
  // Blocked before any thread exists: then only the forwarding thread takes them.
  const sigset_t set = forwarded_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  zero::RankProcesses ranks(options);
  std::atomic<bool> done = false;
  std::thread forwarder([&] {
    int signal = 0;
    while (sigwait(&set, &signal) == 0 && !done) ranks.send(signal);
  });
  const auto exits = ranks.wait();
  done = true;
  pthread_kill(forwarder.native_handle(), SIGTERM);  // wakes it
  forwarder.join();

  const auto failed = [](const zero::RankExit& exit) { return exit.failed() && !exit.stopped; };
  const auto stopped = [](const zero::RankExit& exit) { return exit.stopped; };
  const auto first = std::find_if(exits.begin(), exits.end(), failed);
  if (first == exits.end()) return 0;
  std::cerr << "zero-launch: " << first->sentence();
  if (std::any_of(exits.begin(), exits.end(), stopped)) {
    std::cerr << "; the ranks that still ran were stopped";
  }
  std::cerr << std::endl;
  return first->code;
}

}  // namespace

int main(int, char** argv) {
  try {
    return run(parse(argv + 1));
  } catch (const std::invalid_argument& error) {
    std::cerr << "zero-launch: " << error.what() << "\n" << kUsage << std::endl;
    return kUsageError;
  } catch (const std::exception& error) {
    std::cerr << "zero-launch: " << error.what() << std::endl;
    return 127;
  }
}
