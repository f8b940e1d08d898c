// SPDX-License-Identifier: Apache-2.0
#include "tests/support/ranks.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "trainer_integration/launch/rank_processes.h"

namespace zero::testing {
namespace {

constexpr const char* kBodyVariable = "ZERO_TEST_RANK_BODY";

std::map<std::string, RankBody>& bodies() {
  static std::map<std::string, RankBody> registered;
  return registered;
}

class BodyTest : public ::testing::Test {
 public:
  explicit BodyTest(RankBody body) : body_(body) {}
  void TestBody() override { body_(); }

 private:
  RankBody body_;
};

// What one rank prints. Memory, not a pipe: nobody needs to read while the rank runs.
class Output {
 public:
  Output() : fd_(memfd_create("rank_output", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("memfd_create failed");
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { close(fd_); }

  int fd() const { return fd_; }
  std::string text() const {
    std::string result(lseek(fd_, 0, SEEK_END), '\0');
    const ssize_t got = pread(fd_, result.data(), result.size(), 0);
    result.resize(got > 0 ? got : 0);
    return result;
  }

 private:
  int fd_;
};

std::string this_executable() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size < 0) throw std::runtime_error("/proc/self/exe cannot be read");
  path.resize(size);
  return path;
}

}  // namespace

RankBodyRegistration::RankBodyRegistration(const char* name, RankBody body) {
  if (!bodies().emplace(name, body).second) {
    throw std::logic_error(std::string("two rank bodies are named ") + name);
  }
}

std::vector<RankResult> run_ranks(int ranks, const std::string& body, const RankRun& run) {
  if (bodies().count(body) == 0) throw std::logic_error("no rank body is named " + body);
  std::vector<std::unique_ptr<Output>> outputs;
  LaunchOptions options;
  options.ranks = ranks;
  options.command = {this_executable()};
  // The cores are shared by all ranks of a test.
  options.environment = {{"OMP_NUM_THREADS", "1"}};
  for (const auto& [name, value] : run.environment) options.environment[name] = value;
  options.environment[kBodyVariable] = body;
  options.grace = std::chrono::seconds(10);
  options.limit = run.limit;
  for (int rank = 0; rank < ranks; ++rank) {
    outputs.push_back(std::make_unique<Output>());
    options.output.push_back(outputs.back()->fd());
  }
  RankProcesses processes(options);
  std::vector<RankResult> results(ranks);
  for (const RankExit& exit : processes.wait()) {
    results[exit.rank] = {exit.code, exit.stopped, outputs[exit.rank]->text()};
  }
  return results;
}

void on_ranks(const std::vector<int>& counts, const std::string& body, const RankRun& run) {
  for (const int ranks : counts) {
    const auto results = run_ranks(ranks, body, run);
    for (int rank = 0; rank < ranks; ++rank) {
      const RankResult& result = results[rank];
      if (result.exit_code == 0 && !result.stopped) continue;
      ADD_FAILURE() << body << ": rank " << rank << " of " << ranks
                    << (result.stopped ? " was stopped" : " failed") << " (exit code "
                    << result.exit_code << "):\n"
                    << result.output;
    }
  }
}

void select_rank_body() {
  const char* name = std::getenv(kBodyVariable);
  if (name == nullptr) return;
  const auto found = bodies().find(name);
  if (found == bodies().end()) {
    throw std::logic_error(std::string("no rank body is named ") + name);
  }
  const RankBody body = found->second;
  // A suite of its own, so that no TEST of the executable can have the same name.
  ::testing::RegisterTest("zero_rank", name, nullptr, nullptr, __FILE__, __LINE__,
                          [body]() -> BodyTest* { return new BodyTest(body); });
  // gtest's switches in the environment were meant for the test that started this rank.
  ::testing::GTEST_FLAG(filter) = std::string("zero_rank.") + name;
  ::testing::GTEST_FLAG(output) = "";
  ::testing::GTEST_FLAG(repeat) = 1;
  unsetenv("GTEST_TOTAL_SHARDS");
}

}  // namespace zero::testing
