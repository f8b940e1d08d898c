// SPDX-License-Identifier: Apache-2.0
#include "trainer_integration/svg_canvas.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <iterator>

namespace zero::svg {
namespace {

constexpr std::string_view kFont =
    "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML has no place for control characters.
        if (static_cast<unsigned char>(c) >= 0x20) result += c;
    }
  }
  return result;
}

std::string px(double value) { return fixed(value, 1); }

struct Attribute {
  std::string_view name;
  std::string value;
};

// "<name a="b"", still open.
void begin(std::string& out, std::string_view element,
           std::initializer_list<Attribute> attributes) {
  out.append("<").append(element);
  for (const auto& [name, value] : attributes) {
    out.append(" ").append(name).append("=\"").append(value).append("\"");
  }
}

void whole(std::string& out, std::string_view element,
           std::initializer_list<Attribute> attributes) {
  begin(out, element, attributes);
  out.append("/>\n");
}

}  // namespace

std::string_view colour(size_t index) { return kColours[index % std::size(kColours)]; }

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

double text_width(std::string_view text, double size) {
  constexpr double kMeanAdvance = 0.58;  // of the font size, for sans-serif text; on the wide side
  return static_cast<double>(text.size()) * size * kMeanAdvance;
}

Canvas::Canvas(double width, double height, const std::string& title) {
  std::string view_box = "0 0 ";
  view_box.append(px(width)).append(" ").append(px(height));
  begin(body_, "svg",
        {{"xmlns", "http://www.w3.org/2000/svg"},
         {"width", px(width)},
         {"height", px(height)},
         {"viewBox", view_box},
         {"font-family", std::string(kFont)},
         {"role", "img"}});
  body_.append(">\n<title>").append(escaped(title)).append("</title>\n");
  rectangle(0, 0, width, height, kPaper);
}

void Canvas::text(double x, double y, std::string_view content, const TextStyle& style) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  std::string turn = "rotate(";
  turn.append(style.upright ? "-90" : "0")
      .append(" ")
      .append(px(x))
      .append(" ")
      .append(px(y))
      .append(")");
  begin(body_, "text",
        {{"x", px(x)},
         {"y", px(y)},
         {"font-size", px(style.size)},
         {"font-weight", style.bold ? "600" : "400"},
         {"fill", std::string(style.fill)},
         {"text-anchor", kAnchors[static_cast<size_t>(style.anchor)]},
         {"transform", turn}});
  body_.append(">").append(escaped(content)).append("</text>\n");
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view stroke,
                  double width) {
  whole(body_, "line",
        {{"x1", px(x1)},
         {"y1", px(y1)},
         {"x2", px(x2)},
         {"y2", px(y2)},
         {"stroke", std::string(stroke)},
         {"stroke-width", px(width)}});
}

void Canvas::rectangle(double x, double y, double width, double height, std::string_view fill) {
  whole(body_, "rect",
        {{"x", px(x)},
         {"y", px(y)},
         {"width", px(width)},
         {"height", px(height)},
         {"fill", std::string(fill)}});
}

void Canvas::circle(double x, double y, double radius, std::string_view fill) {
  whole(body_, "circle",
        {{"cx", px(x)}, {"cy", px(y)}, {"r", px(radius)}, {"fill", std::string(fill)}});
}

void Canvas::polyline(const std::vector<std::pair<double, double>>& points,
                      std::string_view stroke) {
  std::string path;
  for (const auto& [x, y] : points) {
    if (!path.empty()) path.append(" ");
    path.append(px(x)).append(",").append(px(y));
  }
  whole(body_, "polyline",
        {{"points", path},
         {"fill", "none"},
         {"stroke", std::string(stroke)},
         {"stroke-width", "2"},
         {"stroke-linejoin", "round"}});
}

std::string Canvas::finish() { return std::move(body_) + "</svg>\n"; }

Ticks round_ticks(double low, double high, int count) {
  if (!(high > low)) {
    const double room = low == 0.0 ? 1.0 : std::abs(low) * 0.1;
    low -= room;
    high += room;
  }
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double part = raw / power;
  const double step = power * (part <= 1.0 ? 1.0 : part <= 2.0 ? 2.0 : part <= 5.0 ? 5.0 : 10.0);
  Ticks ticks;
  ticks.decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  const auto first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; i += 1.0) ticks.values.push_back(i * step);
  return ticks;
}

}  // namespace zero::svg
