// SPDX-License-Identifier: Apache-2.0
#include "zero/chart.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "trainer_integration/svg_canvas.h"
#include "zero/progress.h"

namespace zero {
namespace {

using svg::Anchor;
using svg::Canvas;
using Points = std::vector<std::pair<double, double>>;

constexpr double kWidth = 1280, kHeight = 500;
constexpr double kLabel = 12, kHeading = 14;

// The part of the picture where values are drawn.
struct Plot {
  double left, top, right, bottom;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};
constexpr Plot kCurves{84, 118, 632, 426};
constexpr Plot kBars{762, 118, 1058, 406};
constexpr double kBarLegend = 1082, kNote = 462;

// A range of values that maps to pixels.
struct Axis {
  double low, high, from, to;
  double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};
Axis axis_over(const svg::Ticks& ticks, double from, double to) {
  return {ticks.values.front(), ticks.values.back(), from, to};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines{""};
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

void text_block(Canvas& canvas, double x, double y, const std::string& text,
                const svg::TextStyle& style) {
  for (const auto& line : lines_of(text)) {
    canvas.text(x, y, line, style);
    y += style.size + 4;
  }
}

void horizontal_grid(Canvas& canvas, const Plot& plot, const svg::Ticks& ticks, const Axis& y,
                     const std::string& label) {
  double widest = 0;
  for (const double value : ticks.values) {
    const std::string text = svg::fixed(value, ticks.decimals);
    canvas.line(plot.left, y(value), plot.right, y(value), svg::kGrid);
    canvas.text(plot.left - 8, y(value) + 4, text, {kLabel, Anchor::kEnd, svg::kFaint});
    widest = std::max(widest, svg::text_width(text, kLabel));
  }
  canvas.text(plot.left - 18 - widest, (plot.top + plot.bottom) / 2, label,
              {kLabel, Anchor::kMiddle, svg::kFaint, false, /*upright=*/true});
}

void no_data(Canvas& canvas, const Plot& plot) {
  canvas.text((plot.left + plot.right) / 2, (plot.top + plot.bottom) / 2, "no data",
              {kHeading, Anchor::kMiddle, svg::kFaint});
}

struct Extent {
  double low = std::numeric_limits<double>::infinity(),
         high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

bool is_finite(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

// One curve: a piece of line between gaps; a piece of one point is drawn as a dot.
void draw_curve(Canvas& canvas, const Curve& curve, const Axis& x, const Axis& y,
                std::string_view stroke) {
  Points piece;
  auto flush = [&] {
    if (piece.size() > 1) canvas.polyline(piece, stroke);
    if (curve.dots || piece.size() == 1) {
      for (const auto& [px, py] : piece) canvas.circle(px, py, 3.5, stroke);
    }
    piece.clear();
  };
  for (const auto& point : curve.points) {
    if (is_finite(point)) {
      piece.emplace_back(x(point.first), y(point.second));
    } else {
      flush();
    }
  }
  flush();
}

void draw_curves(Canvas& canvas, const CurvePanel& panel) {
  const Plot& plot = kCurves;
  canvas.text(plot.left, plot.top - 46, panel.title,
              {kHeading, Anchor::kStart, svg::kInk, /*bold=*/true});
  Extent xs, ys;
  for (const auto& curve : panel.curves) {
    for (const auto& point : curve.points) {
      if (!is_finite(point)) continue;
      xs.take(point.first);
      ys.take(point.second);
    }
  }
  canvas.line(plot.left, plot.bottom, plot.right, plot.bottom, svg::kFaint);
  if (xs.low > xs.high) return no_data(canvas, plot);

  const svg::Ticks x_ticks = svg::round_ticks(xs.low, xs.high, 6);
  const svg::Ticks y_ticks = svg::round_ticks(ys.low, ys.high, 6);
  const Axis x = axis_over(x_ticks, plot.left, plot.right),
             y = axis_over(y_ticks, plot.bottom, plot.top);
  horizontal_grid(canvas, plot, y_ticks, y, panel.y_label);
  for (const double value : x_ticks.values) {
    canvas.line(x(value), plot.bottom, x(value), plot.bottom + 5, svg::kFaint);
    canvas.text(x(value), plot.bottom + 19, svg::fixed(value, x_ticks.decimals),
                {kLabel, Anchor::kMiddle, svg::kFaint});
  }
  canvas.text((plot.left + plot.right) / 2, plot.bottom + 40, panel.x_label,
              {kLabel, Anchor::kMiddle, svg::kFaint});

  double legend = plot.left;
  for (size_t i = 0; i < panel.curves.size(); ++i) {
    const Curve& curve = panel.curves[i];
    draw_curve(canvas, curve, x, y, svg::colour(i));
    const double height = plot.top - 24;
    canvas.line(legend, height, legend + 22, height, svg::colour(i), 2);
    if (curve.dots) canvas.circle(legend + 11, height, 3.5, svg::colour(i));
    canvas.text(legend + 28, height + 4, curve.name);
    legend += 28 + svg::text_width(curve.name, kLabel) + 22;
  }
}

double counted(double bytes) { return std::isfinite(bytes) && bytes > 0.0 ? bytes : 0.0; }

double total_of(const StackedBar& bar) {
  double total = 0.0;
  for (const double bytes : bar.bytes) total += counted(bytes);
  return total;
}

// The largest binary unit in which `bytes` is at least one.
std::pair<double, const char*> unit_for(double bytes) {
  constexpr const char* kNames[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = 1.0;
  size_t name = 0;
  for (; bytes >= 1024.0 * size && name + 1 < std::size(kNames); ++name) size *= 1024.0;
  return {size, kNames[name]};
}

void draw_bars(Canvas& canvas, const BarPanel& panel) {
  const Plot& plot = kBars;
  canvas.text(plot.left, plot.top - 46, panel.title,
              {kHeading, Anchor::kStart, svg::kInk, /*bold=*/true});
  text_block(canvas, plot.left, kNote, panel.note, {kLabel, Anchor::kStart, svg::kFaint});
  double highest = 0.0;
  for (const auto& bar : panel.bars) highest = std::max(highest, total_of(bar));
  canvas.line(plot.left, plot.bottom, plot.right, plot.bottom, svg::kFaint);
  if (highest <= 0.0) return no_data(canvas, plot);

  const auto [unit, unit_name] = unit_for(highest);
  // A little air above the highest bar for its total.
  const svg::Ticks ticks = svg::round_ticks(0.0, highest / unit * 1.06, 5);
  const Axis y = axis_over(ticks, plot.bottom, plot.top);
  horizontal_grid(canvas, plot, ticks, y, unit_name);
  canvas.line(plot.left, plot.bottom, plot.right, plot.bottom, svg::kFaint);

  const double room = plot.width() / static_cast<double>(panel.bars.size());
  const double thick = std::min(0.6 * room, 90.0);
  for (size_t b = 0; b < panel.bars.size(); ++b) {
    const StackedBar& bar = panel.bars[b];
    const double middle = plot.left + room * (static_cast<double>(b) + 0.5);
    double below = 0.0;
    for (size_t layer = 0; layer < bar.bytes.size(); ++layer) {
      const double bytes = counted(bar.bytes[layer]);
      if (bytes == 0.0) continue;
      const double top = y((below + bytes) / unit), bottom = y(below / unit);
      canvas.rectangle(middle - thick / 2, top, thick, bottom - top, svg::colour(layer));
      below += bytes;
    }
    // The total stands on white, so that no grid line crosses it.
    const std::string total = format_bytes(below);
    const double half = svg::text_width(total, kLabel) / 2;
    canvas.rectangle(middle - half, y(below / unit) - 17, 2 * half, 14, svg::kPaper);
    canvas.text(middle, y(below / unit) - 6, total, {kLabel, Anchor::kMiddle, svg::kInk});
    text_block(canvas, middle, plot.bottom + 18, bar.name, {kLabel, Anchor::kMiddle, svg::kFaint});
  }
  // The legend reads from the top down, as the layers lie; a layer that no bar has is left out.
  double height = plot.top + 6;
  for (size_t layer = panel.layers.size(); layer-- > 0;) {
    const auto has_it = [layer](const StackedBar& bar) {
      return layer < bar.bytes.size() && counted(bar.bytes[layer]) > 0.0;
    };
    if (std::none_of(panel.bars.begin(), panel.bars.end(), has_it)) continue;
    canvas.rectangle(kBarLegend, height - 10, 12, 12, svg::colour(layer));
    canvas.text(kBarLegend + 20, height, panel.layers[layer]);
    height += 24;
  }
}

using Rows = std::array<MemoryBytes, kMemoryClasses>;

StackedBar bar_of(const std::string& name, const Rows& rows, int64_t MemoryBytes::*place) {
  StackedBar bar{name, {}};
  for (const auto& row : rows) bar.bytes.push_back(static_cast<double>(row.*place));
  return bar;
}

}  // namespace

std::string chart_svg(const std::string& title, const CurvePanel& curves, const BarPanel& bars) {
  Canvas canvas(kWidth, kHeight, title);
  canvas.text(kCurves.left, 38, title, {18, Anchor::kStart, svg::kInk, /*bold=*/true});
  draw_curves(canvas, curves);
  draw_bars(canvas, bars);
  return canvas.finish();
}

void write_text_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) {
    throw std::runtime_error("cannot write " + file.string() +
                             "; check that its folder exists and has room");
  }
}

CurvePanel loss_curves(const TrainSummary& summary, double scale, const std::string& y_label) {
  CurvePanel panel{"Loss", "step", y_label, {{"training", {}}, {"held-out", {}, /*dots=*/true}}};
  for (const auto& info : summary.log) {
    panel.curves[0].points.emplace_back(static_cast<double>(info.step), info.loss * scale);
  }
  for (const auto& info : summary.validations) {
    panel.curves[1].points.emplace_back(static_cast<double>(info.step), info.loss * scale);
  }
  return panel;
}

BarPanel memory_bars(const MemoryReport& report) {
  BarPanel panel;
  panel.title = "Memory of one rank by class";
  for (int i = 0; i < kMemoryClasses; ++i) {
    panel.layers.emplace_back(name_of(static_cast<MemoryClass>(i)));
  }
  panel.bars = {bar_of("device\npredicted", report.predicted, &MemoryBytes::device),
                bar_of("device\nbooked", report.booked, &MemoryBytes::device),
                bar_of("host\npredicted", report.predicted, &MemoryBytes::host),
                bar_of("host\nbooked", report.booked, &MemoryBytes::host)};
  panel.note = "whole parameters: at most " +
               format_bytes(static_cast<double>(report.peak_live_parameter_bytes)) +
               " at once\nwhole process: " + format_bytes(static_cast<double>(report.process_rss)) +
               " resident, peak " + format_bytes(static_cast<double>(report.process_peak_rss));
  if (report.device_allocated > 0) {
    panel.note += "\nGPU: " + format_bytes(static_cast<double>(report.device_allocated)) +
                  " allocated, peak " +
                  format_bytes(static_cast<double>(report.device_peak_allocated));
  }
  return panel;
}

}  // namespace zero
