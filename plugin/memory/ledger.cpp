// SPDX-License-Identifier: Apache-2.0
#include "plugin/memory/ledger.h"

#include <utility>

namespace zero {

Ledger::Booking::Booking(Ledger* ledger, MemoryClass memory_class, Place place, int64_t bytes,
                         bool pinned)
    : ledger_(ledger), class_(memory_class), place_(place), bytes_(bytes), pinned_(pinned) {
  ledger_->row(class_).booked[static_cast<int>(place_)] += bytes_;
  if (pinned_) ledger_->row(class_).pinned += bytes_;
}

Ledger::Booking::Booking(Booking&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      class_(other.class_),
      place_(other.place_),
      bytes_(other.bytes_),
      pinned_(other.pinned_) {}

Ledger::Booking& Ledger::Booking::operator=(Booking&& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(class_, other.class_);
  std::swap(place_, other.place_);
  std::swap(bytes_, other.bytes_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

Ledger::Booking::~Booking() {
  if (ledger_ == nullptr) return;
  ledger_->row(class_).booked[static_cast<int>(place_)] -= bytes_;
  if (pinned_) ledger_->row(class_).pinned -= bytes_;
}

Ledger::Booking Ledger::book(MemoryClass memory_class, Place place, int64_t bytes, bool pinned) {
  return Booking(this, memory_class, place, bytes, pinned);
}

void Ledger::predict(MemoryClass memory_class, Place place, int64_t bytes) {
  row(memory_class).predicted[static_cast<int>(place)] += bytes;
}

void Ledger::add_live_parameters(int64_t bytes) {
  const int64_t now = live_ += bytes;
  int64_t peak = peak_live_;
  while (now > peak && !peak_live_.compare_exchange_weak(peak, now)) {
  }
}

MemoryReport Ledger::report() const {
  MemoryReport report;
  for (int i = 0; i < kMemoryClasses; ++i) {
    report.predicted[i] = {rows_[i].predicted[0], rows_[i].predicted[1]};
    report.booked[i] = {rows_[i].booked[0], rows_[i].booked[1], rows_[i].pinned};
  }
  report.live_parameter_bytes = live_;
  report.peak_live_parameter_bytes = peak_live_;
  return report;
}

}  // namespace zero
