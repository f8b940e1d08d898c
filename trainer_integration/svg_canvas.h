// SPDX-License-Identifier: Apache-2.0
// SVG elements as text, and the arithmetic of axes. Coordinates are pixels, y grows downwards.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero::svg {

inline constexpr std::string_view kInk = "#1f2933", kFaint = "#6b7785", kGrid = "#e4e8ec",
                                  kPaper = "#ffffff";
// Okabe and Ito's colours, told apart by colour-blind eyes.
inline constexpr std::string_view kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                "#56b4e9", "#d55e00", "#8c8c8c"};
std::string_view colour(size_t index);

enum class Anchor { kStart, kMiddle, kEnd };
struct TextStyle {
  double size = 12.0;
  Anchor anchor = Anchor::kStart;
  std::string_view fill = kInk;
  bool bold = false;
  bool upright = false;  // turned by a quarter, read from below
};

class Canvas {
 public:
  Canvas(double width, double height, const std::string& title);
  void text(double x, double y, std::string_view content, const TextStyle& style = {});
  void line(double x1, double y1, double x2, double y2, std::string_view stroke,
            double width = 1.0);
  void rectangle(double x, double y, double width, double height, std::string_view fill);
  void circle(double x, double y, double radius, std::string_view fill);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view stroke);
  std::string finish();

 private:
  std::string body_;
};

// Round values from `low` to `high` in about `count` steps; the ends may lie inside the first and
// last tick. low == high gives room around the value.
struct Ticks {
  std::vector<double> values;
  int decimals = 0;  // that tell neighbours apart
};
Ticks round_ticks(double low, double high, int count);
std::string fixed(double value, int decimals);
// Width of a text in pixels, about: there is no font to ask.
double text_width(std::string_view text, double size);

}  // namespace zero::svg
