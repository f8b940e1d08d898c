// SPDX-License-Identifier: Apache-2.0
// How values may be written, and that what is printed is read back as the same value.
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

template <class T>
std::optional<T> parsed(const std::string& text, Unit unit = Unit::kNone, bool quoted = false) {
  return parse_value<T>({text, quoted}, unit).value;
}

TEST(Booleans, AreReadAsYamlWritersWriteThem) {
  for (const char* text : {"true", "True", "TRUE", "yes", "Yes", "on", "On"}) {
    EXPECT_EQ(parsed<bool>(text), true) << text;
  }
  for (const char* text : {"false", "False", "no", "NO", "off", "Off"}) {
    EXPECT_EQ(parsed<bool>(text), false) << text;
  }
  for (const char* text : {"", "y", "2", "enabled", "truee"}) {
    EXPECT_EQ(parsed<bool>(text), std::nullopt) << text;
  }
}

TEST(Sizes, TakeUnitsAndWholeFloats) {
  const std::map<std::string, int64_t> sizes = {
      {"4096", 4096},
      {"32MiB", int64_t{32} << 20},
      {"4 MiB", int64_t{4} << 20},
      {"1.5KiB", 1536},
      {"1GB", 1000000000},
      {"2TiB", int64_t{2} << 40},
      {"10kB", 10000},
      {"7B", 7},
      {"5e8", 500000000},
      {"1.0", 1},
      {"9007199254740993", 9007199254740993},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
  };
  for (const auto& [text, bytes] : sizes) {
    EXPECT_EQ(parsed<int64_t>(text, Unit::kBytes), bytes) << text;
  }
  for (const char* text : {"", " ", "MiB", "1 mib", "4Mb", "1_000", "0x10", "1e30", "nan", "inf",
                           "9223372036854775808", "1MiBs", "--1", "+-1"}) {
    EXPECT_EQ(parsed<int64_t>(text, Unit::kBytes), std::nullopt) << text;
  }
}

template <class T>
std::string notice(const std::string& text, Unit unit = Unit::kNone, bool quoted = false) {
  return parse_value<T>({text, quoted}, unit).notice;
}

TEST(Booleans, AsZeroAndOneAreTakenWithANotice) {
  EXPECT_EQ(parsed<bool>("1"), true);
  EXPECT_EQ(parsed<bool>("0"), false);
  EXPECT_EQ(notice<bool>("1"), "read 1 as true");
  EXPECT_EQ(notice<bool>("true"), "");
}

TEST(Quotes, AroundNumbersAndBooleansAreTakenWithANotice) {
  EXPECT_EQ(parsed<int64_t>("3", Unit::kNone, true), 3);
  EXPECT_EQ(notice<int64_t>("3", Unit::kNone, true), "read the string \"3\" as 3");
  EXPECT_EQ(parsed<double>("2e-5", Unit::kNone, true), 2e-5);
  EXPECT_EQ(notice<double>("2e-5", Unit::kNone, true), "read the string \"2e-5\" as 2e-5");
  EXPECT_EQ(parsed<bool>("true", Unit::kNone, true), true);
  EXPECT_EQ(notice<bool>("true", Unit::kNone, true), "read the string \"true\" as true");
  EXPECT_EQ(parsed<int64_t>("1KiB", Unit::kBytes, true), 1024);
  EXPECT_EQ(notice<int64_t>("1KiB", Unit::kBytes, true), "");
}

TEST(Sizes, OfAFractionAreRoundedDownWithANotice) {
  EXPECT_EQ(parsed<int64_t>("15099494.4", Unit::kElements), 15099494);
  EXPECT_EQ(notice<int64_t>("15099494.4", Unit::kElements), "rounded 15099494.4 down to 15099494");
  EXPECT_EQ(parsed<int64_t>("1.3B", Unit::kBytes), 1);
  EXPECT_EQ(parsed<int64_t>("2.5"), std::nullopt) << "a count is no size";
  EXPECT_EQ(parsed<int64_t>("-2.5", Unit::kElements), std::nullopt);
}

TEST(WholeNumbers, TakeNoUnit) {
  EXPECT_EQ(parsed<int64_t>("1e3"), 1000);
  EXPECT_EQ(parsed<int64_t>("+3"), 3);
  EXPECT_EQ(parsed<int64_t>("-3"), -3);
  EXPECT_EQ(parsed<int64_t>("3MiB"), std::nullopt);
  EXPECT_EQ(parsed<int>("3000000000"), std::nullopt);
}

TEST(Numbers, AreFinite) {
  EXPECT_EQ(parsed<double>("1"), 1.0);
  EXPECT_EQ(parsed<double>("2e-5"), 2e-5);
  EXPECT_EQ(parsed<double>(".5"), 0.5);
  for (const char* text : {"", ".inf", "inf", "nan", "1e999", "1,5", "0.5x"}) {
    EXPECT_EQ(parsed<double>(text), std::nullopt) << text;
  }
}

TEST(Choices, AreReadByTheirExactNamesQuotedOrNot) {
  EXPECT_EQ(parsed<Precision>("bf16"), Precision::kBf16);
  EXPECT_EQ(parsed<Precision>("fp32", Unit::kNone, true), Precision::kFp32);
  EXPECT_EQ(parsed<Precision>("bfloat16"), std::nullopt);
  EXPECT_EQ(parsed<DeviceChoice>("auto"), DeviceChoice::kAuto);
  EXPECT_EQ(parsed<UpdateKernel>("portable"), UpdateKernel::kPortable);
}

template <class T>
void expect_round_trip(const std::vector<T>& values, Unit unit) {
  for (const T value : values) {
    EXPECT_EQ(parsed<T>(print_value(value, unit), unit), value) << print_value(value, unit);
  }
}

TEST(PrintedValues, AreReadBackAsTheSame) {
  expect_round_trip<bool>({true, false}, Unit::kNone);
  expect_round_trip<int>({0, 3, -1}, Unit::kNone);
  expect_round_trip<int64_t>({0, 1, 1023, 1024, 1025, 3 << 20, int64_t{5} << 40, 1000000007},
                             Unit::kBytes);
  expect_round_trip<double>({0.0, 1.0, 0.1, 1e-12, 1.0 / 3.0, 1e100}, Unit::kNone);
  expect_round_trip<Precision>({Precision::kFp32, Precision::kBf16, Precision::kFp16}, Unit::kNone);
  expect_round_trip<DeviceChoice>({DeviceChoice::kAuto, DeviceChoice::kCpu, DeviceChoice::kCuda},
                                  Unit::kNone);
  expect_round_trip<UpdateKernel>(
      {UpdateKernel::kAuto, UpdateKernel::kAvx512, UpdateKernel::kAvx2, UpdateKernel::kPortable},
      Unit::kNone);
}

}  // namespace
}  // namespace zero::config_test
