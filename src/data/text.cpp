// Text files; see rlx/data.h.
#include <algorithm>

#include "io/tokenizer/utf8.h"
#include "rlx/data.h"

namespace rlx {

std::string read_text(const std::string& path) {
  return with_context([&] { return "reading the text file '" + path + "'"; },
                      [&] {
                        auto file = FileBytes::read(path);
                        std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                                              file->bytes().size());
                        if (size_t valid = tokenizer::valid_utf8_prefix(text); valid != text.size())
                          fail(ErrorCode::parse, "byte ", valid, " (line ",
                               1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(valid), '\n'),
                               ") is no UTF-8; convert the file, for instance with iconv");
                        if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
                        return std::string(text);
                      });
}

std::vector<std::string> read_lines(const std::string& path) {
  std::string text = read_text(path);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    size_t last = end > begin && text[end - 1] == '\r' && end < text.size() ? end - 1 : end;
    lines.push_back(text.substr(begin, last - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace rlx
