// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

namespace zero {

// Something that is there for the whole process, or not. Any thread; looking costs nothing where
// there is none. Keep it in memory that is never freed: autograd's threads may end last.
template <class T>
class ProcessWide {
 public:
  void set(std::shared_ptr<T> value) {
    {
      const std::lock_guard lock(mutex_);
      value_.swap(value);
      present_ = value_ != nullptr;
    }  // the value before ends outside the lock
  }
  std::shared_ptr<T> get() const {
    if (!present_.load(std::memory_order_acquire)) return nullptr;
    const std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  std::atomic<bool> present_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<T> value_;
};

}  // namespace zero
