// SPDX-License-Identifier: Apache-2.0
// parallel_for runs every index once, reports the first failure, and may be called from anywhere.
#include "plugin/optimizer/kernels/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <memory>
#include <stdexcept>

namespace zero::kernels {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      pool.parallel_for(count, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      for (auto& run : runs) ASSERT_EQ(run, 1);
    }
  }
}

TEST(ThreadPool, WorkersHelpInEveryCallAndNotOnlyInTheFirst) {
  ThreadPool pool(2);
  for (int round = 0; round < 50; ++round) {
    // Each index waits for the other one, so one thread alone could not end the call.
    std::atomic<int> arrived = 0;
    pool.parallel_for(2, [&](int64_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
  }
}

TEST(ThreadPool, RethrowsAndStaysUsable) {
  ThreadPool pool(3);
  std::atomic<int64_t> started = 0;
  EXPECT_THROW(pool.parallel_for(1'000'000,
                                 [&](int64_t) {
                                   ++started;
                                   throw std::runtime_error("first");
                                 }),
               std::runtime_error);
  EXPECT_LE(started, 3) << "indices after the failure were started";
  std::atomic<int> runs = 0;
  pool.parallel_for(10, [&](int64_t) { ++runs; });
  EXPECT_EQ(runs, 10);
}

TEST(ThreadPool, ACallFromInsideRunsOnItsOwnThread) {
  ThreadPool pool(3);
  std::atomic<int> runs = 0;
  pool.parallel_for(4, [&](int64_t) {
    const auto outer = std::this_thread::get_id();
    pool.parallel_for(5, [&](int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++runs;
    });
  });
  EXPECT_EQ(runs, 20);
}

TEST(ThreadPool, CallersFromSeveralThreadsTakeTurns) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) pool.parallel_for(20, [&](int64_t i) { sum += i; });
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 190);
}

TEST(ThreadPool, ManyMayExist) {
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (int i = 0; i < 20; ++i) pools.push_back(std::make_unique<ThreadPool>(2));
  std::atomic<int> runs = 0;
  for (auto& pool : pools) pool->parallel_for(3, [&](int64_t) { ++runs; });
  EXPECT_EQ(runs, 60);
}

TEST(ThreadPool, CountsTheCoresOfThisProcessAndRefusesNone) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(ThreadPool::available_cores(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(ThreadPool::available_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_THROW(ThreadPool(0), std::invalid_argument);
}

}  // namespace
}  // namespace zero::kernels
