// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/run_outputs.h"

#include <zero/chart.h>
#include <zero/progress.h>

#include <array>
#include <cstdio>
#include <map>

namespace gpt {
namespace {

template <class... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

std::string metrics_csv(const zero::TrainSummary& summary) {
  struct Row {
    const zero::StepInfo* logged = nullptr;
    const zero::ValidationInfo* validated = nullptr;
  };
  std::map<int64_t, Row> rows;
  for (const auto& info : summary.log) rows[info.step].logged = &info;
  for (const auto& info : summary.validations) rows[info.step].validated = &info;

  std::string csv =
      "step,held_out_bits_per_byte,train_bits_per_byte,gradient_norm,tokens_per_s,seconds,"
      "booked_device_bytes,booked_host_bytes,live_parameter_bytes,process_bytes,gpu_bytes\n";
  for (const auto& [step, row] : rows) {
    csv += std::to_string(step) + ",";
    if (row.validated != nullptr) csv += print("%.5f", row.validated->loss * kBitsPerNat);
    if (row.logged == nullptr) {
      csv += ",,,,,,,,,\n";
      continue;
    }
    const zero::StepInfo& info = *row.logged;
    const zero::MemoryBytes booked = info.memory.total_booked();
    csv += print(",%.5f,%.5f,%.1f,%.2f", info.loss * kBitsPerNat, info.gradient_norm,
                 info.tokens_per_s, info.seconds);
    for (const int64_t bytes : {booked.device, booked.host, info.memory.live_parameter_bytes,
                                info.memory.process_rss, info.memory.device_allocated}) {
      csv.append(",").append(std::to_string(bytes));
    }
    csv += "\n";
  }
  return csv;
}

void write_outputs(const std::filesystem::path& folder, const std::string& title,
                   const zero::TrainSummary& summary, const zero::MemoryReport& memory) {
  std::filesystem::create_directories(folder);
  const auto curves = zero::loss_curves(summary, kBitsPerNat, "bits per byte");
  zero::write_text_file(folder / "report.svg",
                        zero::chart_svg(title, curves, zero::memory_bars(memory)));
  zero::write_text_file(folder / "metrics.csv", metrics_csv(summary));
}

std::string summary_line(const zero::TrainSummary& summary, int world_size) {
  const double rate = static_cast<double>(summary.tokens) * world_size / summary.seconds;
  return print("held-out loss from %.2f to %.2f bits per byte, %lld steps, %.0f s, %s tokens/s",
               summary.validations.front().loss * kBitsPerNat,
               summary.validations.back().loss * kBitsPerNat, static_cast<long long>(summary.steps),
               summary.seconds, zero::format_count(rate).c_str());
}

}  // namespace gpt
