// Curves as SVG (Scalable Vector Graphics 1.1), with axes; see rlx/metrics.h.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>

#include "rlx/metrics.h"

namespace rlx {
namespace {

constexpr double kWidth = 720, kHeight = 420, kLeft = 70, kRight = 20, kTop = 40, kBottom = 50;
// Readable on white also by those who do not tell red from green: Okabe, Ito 2008, "Color Universal Design".
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return out;
}
std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", v);
  return text;
}

/// An axis: numbers from `low` to `high` onto places from `begin` to `end`.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low, begin = 0, end = 1;
  bool log = false;

  void see(double v) { low = std::min(low, v), high = std::max(high, v); }
  void settle() {
    if (!(low <= high)) low = log ? 1 : 0, high = log ? 10 : 1;
    if (low == high) {
      double by = log ? 2 : low == 0 ? 1 : std::abs(low) / 2;
      low = log ? low / by : low - by, high = log ? high * by : high + by;
    }
  }
  double place(double v) const {
    double part = log ? (std::log(v) - std::log(low)) / (std::log(high) - std::log(low)) : (v - low) / (high - low);
    return begin + part * (end - begin);
  }
  /// Round numbers, some five to nine of them.
  std::vector<double> ticks() const {
    std::vector<double> found;
    if (log) {
      double decades = std::log10(high / low);
      for (double power = std::floor(std::log10(low)); power <= std::log10(high); ++power)
        for (double digit : {1.0, 2.0, 5.0}) {
          double v = digit * std::pow(10, power);
          if (v >= low && v <= high && (digit == 1 || decades < 3)) found.push_back(v);
        }
      if (found.size() > 1) return found;
      found.clear();  // less than between two of them: evenly
    }
    double step = std::pow(10, std::floor(std::log10((high - low) / 4)));
    for (double factor : {5.0, 2.0})
      if ((high - low) / (step * factor) >= 4) {
        step *= factor;
        break;
      }
    for (double k = std::ceil(low / step); k * step <= high + step * 1e-9; ++k) found.push_back(k * step);
    return found;
  }
};

}  // namespace

std::string curves_svg(std::span<const Curve> curves, const CurveOptions& options) {
  Axis x, y;
  y.log = options.log_y;
  for (const Curve& c : curves)
    for (double v : c.y) y.log &= std::isnan(v) || v > 0;
  for (const Curve& c : curves)
    for (size_t i = 0; i < std::min(c.x.size(), c.y.size()); ++i)
      if (std::isfinite(c.x[i]) && std::isfinite(c.y[i])) x.see(c.x[i]), y.see(c.y[i]);
  x.settle(), y.settle();
  x.begin = kLeft, x.end = kWidth - kRight, y.begin = kHeight - kBottom, y.end = kTop;

  std::ostringstream out;
  out << R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 )" << kWidth << " " << kHeight << R"(" width=")"
      << kWidth << R"(" height=")" << kHeight << R"(" font-family="sans-serif" font-size="12">)"
      << "\n"
      << R"(<rect width="100%" height="100%" fill="white"/>)"
      << "\n";
  auto text = [&](double at_x, double at_y, const char* anchor, const std::string& words, const char* more = "") {
    out << R"(<text x=")" << number(at_x) << R"(" y=")" << number(at_y) << R"(" text-anchor=")" << anchor << "\" "
        << more << ">" << escaped(words) << "</text>\n";
  };
  auto line = [&](double x1, double y1, double x2, double y2, const char* color) {
    out << R"(<line x1=")" << number(x1) << R"(" y1=")" << number(y1) << R"(" x2=")" << number(x2) << R"(" y2=")"
        << number(y2) << R"(" stroke=")" << color << "\"/>\n";
  };
  for (double v : x.ticks()) {
    line(x.place(v), y.begin, x.place(v), y.end, "#e5e5e5");
    text(x.place(v), y.begin + 16, "middle", number(v));
  }
  for (double v : y.ticks()) {
    line(x.begin, y.place(v), x.end, y.place(v), "#e5e5e5");
    text(x.begin - 6, y.place(v) + 4, "end", number(v));
  }
  line(x.begin, y.begin, x.end, y.begin, "black");
  line(x.begin, y.begin, x.begin, y.end, "black");
  text(kWidth / 2, 22, "middle", options.title, R"(font-size="15")");
  text((x.begin + x.end) / 2, kHeight - 12, "middle", options.x_label);
  text(16, kHeight / 2, "middle", options.y_label, R"-(transform="rotate(-90 16 210)")-");

  for (size_t c = 0; c < curves.size(); ++c) {
    const char* color = kColors[c % std::size(kColors)];
    bool open = false;
    for (size_t i = 0; i < std::min(curves[c].x.size(), curves[c].y.size()); ++i) {
      bool there = std::isfinite(curves[c].x[i]) && std::isfinite(curves[c].y[i]);
      if (there && !open) out << R"(<polyline fill="none" stroke-width="1.5" stroke=")" << color << R"(" points=")";
      if (there) out << number(x.place(curves[c].x[i])) << "," << number(y.place(curves[c].y[i])) << " ";
      if (!there && open) out << "\"/>\n";
      open = there;
    }
    if (open) out << "\"/>\n";
    double at = kTop + 14 + 16 * static_cast<double>(c);
    out << R"(<rect x=")" << number(x.end - 120) << R"(" y=")" << number(at - 5) << R"(" width="14" height="3" fill=")"
        << color << "\"/>\n";
    text(x.end - 100, at, "start", curves[c].name);
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace rlx
