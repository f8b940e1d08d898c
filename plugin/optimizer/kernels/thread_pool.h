// SPDX-License-Identifier: Apache-2.0
// Worker threads for the update kernels. It is our own pool so that a launcher's OMP_NUM_THREADS=1,
// and LibTorch's use of its threads, say nothing about it. Idle workers sleep.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace zero::kernels {

class ThreadPool {
 public:
  // The cores that this process may run on.
  static int available_cores();

  // `threads` counts the caller of parallel_for, so one thread means no worker. Throws
  // std::invalid_argument below 1.
  explicit ThreadPool(int threads = available_cores());
  // No parallel_for may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs function(0) ... function(count - 1), in any order, on the workers and the calling thread;
  // returns when all have ended. After an exception no further index is started and the first
  // exception is thrown here. Calls from several threads take turns; a call from inside `function`
  // runs on its own thread alone.
  void parallel_for(int64_t count, const std::function<void(int64_t)>& function);

 private:
  struct Job;
  void work();
  void stop();

  std::mutex turn_;   // held for a whole parallel_for
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;  // what workers may join
  int active_ = 0;      // workers inside job_
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace zero::kernels
