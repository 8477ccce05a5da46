// Any bytes as CSV: refused with an rlx::Error, or read; and what is read, written with every cell in quotes and read
// again is the same. The first byte chooses the options.
#include <cstdlib>

#include "rlx/data.h"

using namespace rlx;

namespace {

std::string quoted(const std::string& cell) {
  std::string out = "\"";
  for (char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  CsvOptions options{.separator = data[0] & 1 ? ';' : ',', .header = (data[0] & 2) == 0};
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    CsvTable table = parse_csv(text, options);
    for (const CsvColumn& c : table.columns) options.types[c.name] = CsvType::text;
    CsvTable texts = parse_csv(text, options);
    if (texts.rows != table.rows) std::abort();
    std::string again;
    auto end_of = [&](size_t c) { return c + 1 == texts.columns.size() ? '\n' : options.separator; };
    for (size_t c = 0; options.header && c < texts.columns.size(); ++c)
      again += quoted(texts.columns[c].name) + end_of(c);
    for (size_t row = 0; row < static_cast<size_t>(texts.rows); ++row)
      for (size_t c = 0; c < texts.columns.size(); ++c) again += quoted(texts.columns[c].text[row]) + end_of(c);
    CsvTable back = parse_csv(again, options);
    if (back.rows != texts.rows) std::abort();
    for (size_t c = 0; c < texts.columns.size(); ++c)
      if (back.columns[c].text != texts.columns[c].text) std::abort();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
  return 0;
}
