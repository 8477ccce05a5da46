// Names as messages show them; see the header.
#include "io/names_in_messages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/printable_text.h"

namespace rlx {
namespace {

// A file may hold a million names as long as a book; a message must not take minutes.
constexpr size_t kLongestName = 200, kMostNames = 20'000;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string quoted_name(std::string_view text) {
  constexpr size_t kShown = 100;
  size_t end = std::min(text.size(), kShown);
  // Not in the middle of a UTF-8 sequence.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  std::string out = "'";
  for (char c : printable_text(text.substr(0, end))) {
    if (c == '\n' || c == '\t') out += c == '\n' ? "\\x0a" : "\\x09";  // a name stays within its line
    else out += c;
  }
  return out + (end < text.size() ? "...'" : "'");
}

std::string nearest_names(std::string_view wanted, const std::vector<std::string_view>& names) {
  if (names.empty()) return "; there are none";
  std::vector<std::pair<size_t, std::string_view>> nearest;
  wanted = wanted.substr(0, kLongestName);
  for (std::string_view name : names) {
    if (nearest.size() == kMostNames) break;
    nearest.emplace_back(edit_distance(wanted, name.substr(0, kLongestName)), name);
  }
  size_t shown = std::min<size_t>(3, nearest.size());
  std::partial_sort(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(shown), nearest.end());
  std::string out = shown == 1 ? "; the nearest is " : "; the nearest are ";
  for (size_t i = 0; i < shown; ++i)
    out += (i == 0 ? "" : i + 1 == shown ? " and " : ", ") + quoted_name(nearest[i].second);
  return out;
}

}  // namespace rlx
