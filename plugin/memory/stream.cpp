// SPDX-License-Identifier: Apache-2.0
#include "plugin/memory/stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace zero {

namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

Event::Event(at::Device device) : device_(device) {
  if (!device_.is_cpu()) event_.emplace(device_.type());
}

void Event::record() {
  if (event_) event_->record(current_stream(device_));
  recorded_ = true;
}

void Event::wait() const {
  if (event_ && recorded_) event_->block(current_stream(device_));
}

void Event::synchronize() const {
  if (event_ && recorded_) event_->synchronize();
}

SideStream::SideStream(at::Device device) {
  if (!device.is_cpu()) {
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

SideStream::Guard::Guard(const std::optional<c10::Stream>& stream) {
  if (stream) guard_.emplace(*stream);
}

}  // namespace zero
