// SPDX-License-Identifier: Apache-2.0
#include "plugin/memory/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/memory/buffers.h"

namespace zero {
namespace {

int64_t booked(const Ledger& ledger, MemoryClass memory_class) {
  const auto bytes = ledger.report().booked[static_cast<int>(memory_class)];
  return bytes.device + bytes.host;
}

TEST(Ledger, ABufferIsBookedExactlyAsLongAsItLives) {
  Ledger ledger;
  Buffers buffers(ledger, at::kCPU);
  {
    const Buffer buffer = buffers.allocate(MemoryClass::kMoments, Place::kHost, 1001, at::kFloat);
    EXPECT_EQ(buffer.tensor.nbytes(), 4004U);
    EXPECT_EQ(booked(ledger, MemoryClass::kMoments), 4004);
    EXPECT_EQ(buffer.tensor.abs().sum().item<float>(), 0.0f);
  }
  EXPECT_EQ(booked(ledger, MemoryClass::kMoments), 0);
}

TEST(Ledger, AMovedBookingIsBookedOnce) {
  Ledger ledger;
  auto first = ledger.book(MemoryClass::kMaster, Place::kDevice, 10);
  auto second = std::move(first);
  EXPECT_EQ(booked(ledger, MemoryClass::kMaster), 10);
  second = ledger.book(MemoryClass::kMaster, Place::kDevice, 3);
  second = {};
  EXPECT_EQ(booked(ledger, MemoryClass::kMaster), 0);
}

TEST(Ledger, LiveParametersRememberTheirPeak) {
  Ledger ledger;
  ledger.add_live_parameters(5);
  ledger.add_live_parameters(7);
  ledger.add_live_parameters(-10);
  EXPECT_EQ(ledger.report().live_parameter_bytes, 2);
  EXPECT_EQ(ledger.report().peak_live_parameter_bytes, 12);
}

TEST(Ledger, TheTableNamesEveryClass) {
  Ledger ledger;
  ledger.predict(MemoryClass::kGradientHome, Place::kHost, 3 << 20);
  MemoryReport report = ledger.report();
  read_process(report);
  EXPECT_GT(report.process_rss, 0);
  EXPECT_GE(report.process_peak_rss, report.process_rss);
  for (int i = 0; i < kMemoryClasses; ++i) {
    EXPECT_THAT(report.table(),
                ::testing::HasSubstr(std::string(name_of(static_cast<MemoryClass>(i)))));
  }
  EXPECT_THAT(report.table(), ::testing::HasSubstr("3.00"));
}

}  // namespace
}  // namespace zero
