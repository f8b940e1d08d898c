// SPDX-License-Identifier: Apache-2.0
// A picture of a run as one SVG file: curves on the left, stacked bars of bytes on the right. No
// dependency, no state.
//
//   auto summary = trainer.fit(...);
//   auto picture = zero::chart_svg("GPT under ZeRO-3", zero::loss_curves(summary),
//                                  zero::memory_bars(strategy.memory_report()));
//   zero::write_text_file("report.svg", picture);
//
// Values that are not finite leave gaps. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "zero/memory_report.h"
#include "zero/trainer.h"

namespace zero {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y), x rising
  bool dots = false;                              // each point is marked
};

struct CurvePanel {
  std::string title, x_label, y_label;
  std::vector<Curve> curves;
};

struct StackedBar {
  std::string name;           // a line break makes a second line
  std::vector<double> bytes;  // one for each layer, from the bottom up
};

struct BarPanel {
  std::string title;
  std::vector<std::string> layers;
  std::vector<StackedBar> bars;
  std::string note;  // under the panel; a line break makes a second line
};

std::string chart_svg(const std::string& title, const CurvePanel& curves, const BarPanel& bars);
// Replaces the file. Throws std::runtime_error when it cannot be written.
void write_text_file(const std::filesystem::path& file, const std::string& text);

// Training and held-out loss over steps. `scale` turns the loss into the unit that `y_label` names.
CurvePanel loss_curves(const TrainSummary& summary, double scale = 1.0,
                       const std::string& y_label = "loss");
// Predicted and booked bytes by class, on the device and in host memory; how much of the parameters
// was whole at once and what the process really uses is the note.
BarPanel memory_bars(const MemoryReport& report);

}  // namespace zero
