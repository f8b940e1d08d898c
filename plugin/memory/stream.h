// SPDX-License-Identifier: Apache-2.0
// Events and side streams of the compute device, without CUDA headers. On the CPU work is done when
// a call returns, so everything here does nothing there.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <optional>

namespace zero {

// A point in a stream's work. Reused: recording again forgets the point before.
class Event {
 public:
  explicit Event(at::Device device);
  // Marks the work enqueued so far on the current stream.
  void record();
  // Work enqueued on the current stream from now on starts after the marked work. The host goes on.
  void wait() const;
  // The host waits for the marked work.
  void synchronize() const;

 private:
  at::Device device_;
  std::optional<c10::Event> event_;
  bool recorded_ = false;
};

// A stream beside the one that computes.
class SideStream {
 public:
  explicit SideStream(at::Device device);
  // While the guard lives, work is enqueued here; it starts after what the caller's stream has been
  // given so far only if an event says so.
  class Guard {
   public:
    explicit Guard(const std::optional<c10::Stream>& stream);

   private:
    std::optional<c10::StreamGuard> guard_;
  };
  [[nodiscard]] Guard enter() const { return Guard(stream_); }

 private:
  std::optional<c10::Stream> stream_;
};

}  // namespace zero
