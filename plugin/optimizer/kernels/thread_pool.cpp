// SPDX-License-Identifier: Apache-2.0
#include "plugin/optimizer/kernels/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>

namespace zero::kernels {
namespace {

// The pool whose job this thread is running.
thread_local const ThreadPool* inside = nullptr;

}  // namespace

struct ThreadPool::Job {
  const std::function<void(int64_t)>& function;
  const int64_t count;
  std::atomic<int64_t> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error = nullptr;  // written by the one thread that set `failed`

  bool has_work() const { return next.load(std::memory_order_relaxed) < count; }

  void run() {
    for (int64_t index; (index = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        function(index);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }
};

int ThreadPool::available_cores() {
  // The kernel refuses a set smaller than its own, so grow until it fits.
  for (std::vector<cpu_set_t> sets(1); sets.size() <= 64; sets.resize(sets.size() * 2)) {
    const size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) == 0) {
      return std::max(1, CPU_COUNT_S(bytes, sets.data()));
    }
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) {
    throw std::invalid_argument("ThreadPool: needs at least one thread, was given " +
                                std::to_string(threads));
  }
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t)>& function) {
  if (inside == this || workers_.empty() || count <= 1) {
    for (int64_t index = 0; index < count; ++index) function(index);
    return;
  }
  std::lock_guard turn(turn_);
  Job job{function, count};
  {
    std::lock_guard lock(mutex_);
    job_ = &job;
  }
  const int64_t helpers = std::min<int64_t>(count - 1, static_cast<int64_t>(workers_.size()));
  for (int64_t i = 0; i < helpers; ++i) wake_.notify_one();

  const ThreadPool* outer = inside;
  inside = this;
  job.run();
  inside = outer;

  std::unique_lock lock(mutex_);
  job_ = nullptr;  // a worker that wakes up late finds nothing to join
  done_.wait(lock, [this] { return active_ == 0; });
  lock.unlock();
  if (job.error) std::rethrow_exception(job.error);
}

void ThreadPool::work() {
  inside = this;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || (job_ != nullptr && job_->has_work()); });
    if (stop_) return;
    Job* job = job_;
    ++active_;
    lock.unlock();
    job->run();
    lock.lock();
    if (--active_ == 0) done_.notify_one();
  }
}

}  // namespace zero::kernels
