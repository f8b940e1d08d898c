// SPDX-License-Identifier: Apache-2.0
// What a run leaves behind: numbers as CSV and a picture as SVG.
#pragma once

#include <zero/memory_report.h>
#include <zero/trainer.h>

#include <filesystem>
#include <string>

namespace gpt {

inline constexpr double kBitsPerNat =
    1.4426950408889634;  // losses are in nats, we report bits per byte

// One row a step that was logged or validated; a cell without a value is empty.
std::string metrics_csv(const zero::TrainSummary& summary);
// Writes report.svg and metrics.csv into `folder`, which is made where it is missing.
void write_outputs(const std::filesystem::path& folder, const std::string& title,
                   const zero::TrainSummary& summary, const zero::MemoryReport& memory);
// "held-out loss from 7.80 to 2.61 bits per byte, 400 steps, 97 s, 8.4k tokens/s"
std::string summary_line(const zero::TrainSummary& summary, int world_size);

}  // namespace gpt
