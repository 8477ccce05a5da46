// A manifest as a picture (Scalable Vector Graphics 1.1): layers as an indented list, with bars; see rlx/manifest.h.
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "base/printable_text.h"
#include "cost/manifest_rows.h"

namespace rlx {
namespace {

constexpr size_t kMostRowsDrawn = 60;
constexpr double kRowHeight = 22, kHeadHeight = 108, kIndent = 16, kMargin = 24;
constexpr double kNameWidth = 300, kOpsWidth = 190, kOutputWidth = 150, kBarWidth = 210, kGap = 18;
constexpr double kDrawnWidth = 2 * kMargin + kNameWidth + kOpsWidth + kOutputWidth + 3 * (kBarWidth + kGap);
// Told apart also by those who do not see red or green: Okabe, Ito 2008, "Color Universal Design".
constexpr const char *kParamsColor = "#0072b2", *kFlopsColor = "#d55e00", *kBytesColor = "#009e73";
constexpr const char *kInk = "#1a1a1a", *kFaintInk = "#6b6b6b", *kLine = "#e3e6ea";

/// What fits into so many characters; the end is cut.
std::string fitting(std::string_view text, size_t most) {
  const std::string line = printable_line(text);
  std::string out;
  size_t characters = 0;
  for (size_t at = 0; at < line.size(); ++characters) {
    const size_t bytes = std::max<size_t>(1, utf8_character_bytes(std::string_view(line).substr(at)));
    if (characters + 1 == most && at + bytes < line.size()) return out + "…";
    out += line.substr(at, bytes), at += bytes;
  }
  return out;
}
std::string for_xml(const std::string& text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}
std::string place_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}
double amount_of(const Dim& d) { return static_cast<double>(d.value()); }

class Drawing {
 public:
  explicit Drawing(double height) {
    out_ << R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 )" << kDrawnWidth << " " << height << R"(" width=")"
         << kDrawnWidth << R"(" height=")" << height
         << R"(" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="12">)"
         << "\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  }
  void text(double x, double y, const std::string& words, const char* color = kInk, const char* more = "") {
    out_ << "<text x=\"" << place_text(x) << "\" y=\"" << place_text(y) << "\" fill=\"" << color << "\"" << more << ">"
         << for_xml(words) << "</text>\n";
  }
  void box(double x, double y, double width, double height, const char* color, const char* more = "") {
    out_ << "<rect x=\"" << place_text(x) << "\" y=\"" << place_text(y) << "\" width=\"" << place_text(width)
         << "\" height=\"" << place_text(height) << "\" fill=\"" << color << "\"" << more << "/>\n";
  }
  std::string done() {
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  std::ostringstream out_;
};

struct BarColumn {
  const char* title;
  const char* color;
  bool is_bytes;
  double whole;
  double (*amount)(const ManifestTotals&);
};

std::string counted_amount(double v, bool is_bytes) { return is_bytes ? byte_amount(v) : short_amount(v); }

/// A bar whose length is the part of the whole, and behind it how much that is.
void draw_bar(Drawing& drawing, const BarColumn& column, const ManifestRow& row, double x, double y) {
  const double each = column.amount(row.each), all = each * static_cast<double>(row.times);
  const double part = column.whole > 0 ? std::clamp(all / column.whole, 0.0, 1.0) : 0;
  constexpr double kTrack = 92;
  drawing.box(x, y + 5, kTrack, 12, "#f1f3f5", " rx=\"2\"");
  if (part > 0)
    drawing.box(x, y + 5, std::max(1.0, part * kTrack), 12, column.color,
                row.has_rows ? " rx=\"2\" fill-opacity=\"0.35\"" : " rx=\"2\"");
  if (all <= 0) return;
  std::string words = counted_amount(each, column.is_bytes);
  if (row.times > 1) words = text_of(row.times, " × ", words);
  char percent[16];
  std::snprintf(percent, sizeof percent, part < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * part);
  drawing.text(x + kTrack + 6, y + 15, words);
  if (row.depth > 0) drawing.text(x + kBarWidth, y + 15, percent, kFaintInk, " text-anchor=\"end\" font-size=\"11\"");
}

std::string output_text(const ManifestRow& row) {
  if (row.outputs.empty()) return {};
  const std::string first = text_of(row.outputs[0]);
  return row.outputs.size() == 1 ? first : text_of(first, " + ", row.outputs.size() - 1);
}

}  // namespace

std::string short_amount(double v) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  for (; v >= 999.5 && unit + 1 < std::size(kUnits); ++unit) v /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || v >= 99.95 ? "%.0f" : v >= 9.995 ? "%.1f" : "%.2f", v);
  return std::string(text) + kUnits[unit];
}
std::string byte_amount(double v) {
  const std::string text = short_amount(v);
  return v < 999.5 ? text + " B" : text + "B";
}

std::string Manifest::svg() const {
  if (!symbols.empty())
    fail(ErrorCode::invalid_argument, "bars need numbers, and '", symbols[0], "' of graph '", graph,
         "' has none; give one: ", symbols[0], "=1");
  std::vector<ManifestRow> rows = manifest_rows(*this, kMostRowsDrawn);
  const ManifestTotals& whole_totals = whole.totals;
  const BarColumn columns[] = {
      {"params", kParamsColor, false, amount_of(whole_totals.params),
       [](const ManifestTotals& t) { return amount_of(t.params); }},
      {"flops of a run", kFlopsColor, false, amount_of(whole_totals.flops()),
       [](const ManifestTotals& t) { return amount_of(t.flops()); }},
      {"bytes moved by a run", kBytesColor, true, amount_of(whole_totals.bytes_moved),
       [](const ManifestTotals& t) { return amount_of(t.bytes_moved); }},
  };
  Drawing drawing(kHeadHeight + kRowHeight * static_cast<double>(rows.size()) + 34);
  drawing.text(kMargin, 36, fitting(graph, 90), kInk, " font-size=\"20\" font-weight=\"bold\"");
  std::string about =
      short_amount(amount_of(whole_totals.params)) + " params (" + byte_amount(amount_of(whole_totals.param_bytes)) +
      ")   ·   " + short_amount(amount_of(whole_totals.flops())) + " flops   ·   " +
      byte_amount(amount_of(whole_totals.bytes_moved)) + " moved   ·   " + text_of(whole_totals.ops, " ops");
  std::string given;
  for (const auto& [symbol, number] : numbers)
    given += text_of(given.empty() ? "   ·   " : ", ", symbol, " = ", number);
  drawing.text(kMargin, 60, fitting(about + given, 190), kFaintInk, " font-size=\"13\"");

  const double ops_at = kMargin + kNameWidth, output_at = ops_at + kOpsWidth, bars_at = output_at + kOutputWidth + kGap;
  const auto bar_at = [&](size_t i) { return bars_at + static_cast<double>(i) * (kBarWidth + kGap); };
  const char* head = " font-size=\"12\" font-weight=\"bold\"";
  drawing.text(kMargin, kHeadHeight - 10, "layer", kInk, head);
  drawing.text(ops_at, kHeadHeight - 10, "ops", kInk, head);
  drawing.text(output_at, kHeadHeight - 10, "output", kInk, head);
  for (size_t i = 0; i < std::size(columns); ++i)
    drawing.text(bar_at(i), kHeadHeight - 10, columns[i].title, columns[i].color, head);
  drawing.box(kMargin, kHeadHeight - 1, kDrawnWidth - 2 * kMargin, 1, "#9aa1a9");

  for (size_t i = 0; i < rows.size(); ++i) {
    const ManifestRow& row = rows[i];
    const double y = kHeadHeight + kRowHeight * static_cast<double>(i),
                 x = kMargin + kIndent * static_cast<double>(row.depth);
    if (i % 2) drawing.box(kMargin, y, kDrawnWidth - 2 * kMargin, kRowHeight, "#fafbfc");
    for (size_t d = 1; d < row.depth; ++d)  // a thin line for each layer around it
      drawing.box(kMargin + kIndent * static_cast<double>(d) + 3, y, 1, kRowHeight, kLine);
    const auto room =
        static_cast<size_t>(std::max(8.0, (kNameWidth - 8 - kIndent * static_cast<double>(row.depth)) / 6.6));
    drawing.text(x, y + 15, fitting(row.depth == 0 ? "all" : row.label, room), row.is_rest ? kFaintInk : kInk,
                 row.has_rows                           ? " font-weight=\"bold\""
                 : row.label == "itself" || row.is_rest ? " font-style=\"italic\""
                                                        : "");
    drawing.text(ops_at, y + 15, fitting(row.ops, 30), kFaintInk, " font-size=\"11\"");
    drawing.text(output_at, y + 15, fitting(output_text(row), 24), kFaintInk, " font-size=\"11\"");
    for (size_t c = 0; c < std::size(columns); ++c) draw_bar(drawing, columns[c], row, bar_at(c), y);
  }
  drawing.text(
      kMargin, kHeadHeight + kRowHeight * static_cast<double>(rows.size()) + 22,
      "A multiplication and an addition are two flops, those of products, convolutions and attention are counted. "
      "“6 × ” stands for layers that are alike; bars show all of them. Pale bars: the rows below are their parts.",
      kFaintInk, " font-size=\"11\"");
  return drawing.done();
}

}  // namespace rlx
