// SPDX-License-Identifier: Apache-2.0
#include "zero/memory_report.h"

#include <cstdio>
#include <fstream>

#include "plugin/memory/ledger.h"

namespace zero {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::string row(std::string_view name, const MemoryBytes& predicted, const MemoryBytes& booked) {
  char line[160];
  std::snprintf(line, sizeof line, "%-18.*s %12.2f %12.2f %12.2f %12.2f\n",
                static_cast<int>(name.size()), name.data(), predicted.device / kMiB,
                booked.device / kMiB, predicted.host / kMiB, booked.host / kMiB);
  return line;
}

MemoryBytes sum(const std::array<MemoryBytes, kMemoryClasses>& rows) {
  MemoryBytes total;
  for (const auto& bytes : rows) {
    total.device += bytes.device;
    total.host += bytes.host;
    total.pinned += bytes.pinned;
  }
  return total;
}

}  // namespace

std::string_view name_of(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kParameterHome:
      return "parameter home";
    case MemoryClass::kParameterSlots:
      return "parameter slots";
    case MemoryClass::kMaster:
      return "master weights";
    case MemoryClass::kMoments:
      return "optimizer moments";
    case MemoryClass::kGradientHome:
      return "gradient home";
    case MemoryClass::kGradientBuckets:
      return "gradient buckets";
    case MemoryClass::kStaging:
      return "staging";
    case MemoryClass::kActivations:
      return "activations";
  }
  return "unknown";
}

MemoryBytes MemoryReport::total_booked() const { return sum(booked); }

std::string MemoryReport::table() const {
  char line[200];
  std::snprintf(line, sizeof line, "%-18s %12s %12s %12s %12s\n", "MiB", "device pred.", "booked",
                "host pred.", "booked");
  std::string text = line;
  for (int i = 0; i < kMemoryClasses; ++i) {
    text += row(name_of(static_cast<MemoryClass>(i)), predicted[i], booked[i]);
  }
  text += row("total", sum(predicted), sum(booked));
  std::snprintf(line, sizeof line, "of the host's booked %.2f MiB page-locked\n",
                sum(booked).pinned / kMiB);
  text += line;
  std::snprintf(line, sizeof line,
                "live parameter pages %.2f MiB, at most %.2f MiB, for good %.2f MiB\n",
                live_parameter_bytes / kMiB, peak_live_parameter_bytes / kMiB,
                permanent_parameter_bytes / kMiB);
  text += line;
  std::snprintf(line, sizeof line,
                "pages: %ld faults, %ld fetched ahead, %ld evicted, %ld released after use, %ld "
                "written back\n",
                paging.faults, paging.prefetches, paging.evictions, paging.releases,
                paging.write_backs);
  text += line;
  std::snprintf(line, sizeof line,
                "ranks: %ld reductions of gradients, %.2f MiB received; %ld gathers of weights, "
                "%.2f MiB received\n",
                traffic.reductions, traffic.reduced_bytes / kMiB, traffic.weight_gathers,
                traffic.gathered_bytes / kMiB);
  text += line;
  std::snprintf(line, sizeof line, "process resident %.2f MiB, at most %.2f MiB\n",
                process_rss / kMiB, process_peak_rss / kMiB);
  text += line;
  if (device_peak_allocated > 0) {
    std::snprintf(line, sizeof line, "device allocated %.2f MiB, at most %.2f MiB\n",
                  device_allocated / kMiB, device_peak_allocated / kMiB);
    text += line;
  }
  return text;
}

void read_process(MemoryReport& report) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "VmRSS: %ld", &kib) == 1) report.process_rss = kib * 1024;
    if (std::sscanf(line.c_str(), "VmHWM: %ld", &kib) == 1) report.process_peak_rss = kib * 1024;
  }
}

}  // namespace zero
