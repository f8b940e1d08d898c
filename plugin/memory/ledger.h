// SPDX-License-Identifier: Apache-2.0
// The ledger names every byte that the engine holds. A buffer carries its booking, so that what is
// booked is exactly what is allocated; a prediction is written before the allocation and compared
// with it in the report. All members may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "zero/memory_report.h"

namespace zero {

enum class Place : uint8_t { kDevice, kHost };

class Ledger {
 public:
  // Bytes of one buffer; given back when the booking is destroyed.
  class Booking {
   public:
    Booking() = default;
    Booking(Booking&& other) noexcept;
    Booking& operator=(Booking&& other) noexcept;
    ~Booking();

   private:
    friend class Ledger;
    Booking(Ledger* ledger, MemoryClass memory_class, Place place, int64_t bytes, bool pinned);
    Ledger* ledger_ = nullptr;
    MemoryClass class_{};
    Place place_{};
    int64_t bytes_ = 0;
    bool pinned_ = false;
  };

  [[nodiscard]] Booking book(MemoryClass memory_class, Place place, int64_t bytes,
                             bool pinned = false);
  void predict(MemoryClass memory_class, Place place, int64_t bytes);

  // Whole parameter pages that became resident (positive) or were released (negative), bytes.
  void add_live_parameters(int64_t bytes);

  // The engine's own figures; process and device figures are added by read_process() and
  // read_device().
  MemoryReport report() const;

 private:
  using Counter = std::atomic<int64_t>;
  struct Row {
    Counter predicted[2]{};
    Counter booked[2]{};
    Counter pinned{};
  };
  Row& row(MemoryClass memory_class) { return rows_[static_cast<int>(memory_class)]; }
  std::array<Row, kMemoryClasses> rows_{};
  Counter live_{0};
  Counter peak_live_{0};
};

// Fills in resident set size and its peak from the operating system.
void read_process(MemoryReport& report);

}  // namespace zero
