// .npy headers as text; see the header.
#include "io/npy_header.h"

#include <charconv>

#include "base/rounded_up.h"
#include "io/names_in_messages.h"

namespace rlx {
namespace {

constexpr size_t kMostNumpyDims = 64;  // NumPy's

// NumPy's codes for the dtypes that are ours too: kind, bytes.
struct Code {
  char kind;
  int bytes;
  DType dtype;
};
constexpr Code kNumpyCodes[] = {
    {'b', 1, boolean}, {'i', 1, i8},  {'i', 2, i16}, {'i', 4, i32}, {'i', 8, i64}, {'u', 1, u8},  {'u', 2, u16},
    {'u', 4, u32},     {'u', 8, u64}, {'f', 2, f16}, {'f', 4, f32}, {'f', 8, f64}, {'c', 8, c64}, {'c', 16, c128},
};

class Parser {
 public:
  Parser(std::string_view text, size_t offset) : text_(text), offset_(offset) {}

  NpyHeader header() {
    NpyHeader h;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      std::string_view key = string();
      expect(':');
      bool* seen = key == "descr" ? &descr : key == "fortran_order" ? &order : key == "shape" ? &shape : nullptr;
      if (!seen) refuse("has the unknown key ", quoted_name(key), "; there are 'descr', 'fortran_order' and 'shape'");
      if (std::exchange(*seen, true)) refuse("has ", quoted_name(key), " twice");
      if (seen == &descr) parse_descr(h);
      else if (seen == &order) h.fortran_order = boolean_value();
      else h.shape = tuple();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) unexpected("nothing but spaces");
    if (!descr || !order || !shape)
      refuse("has no ", !descr ? "'descr'" : !order ? "'fortran_order'" : "'shape'", ", which every header has");
    return h;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorCode::parse, "damaged header: the dictionary at byte ", offset_, " ", parts...);
  }
  [[noreturn]] void unexpected(const std::string& wanted) const {
    std::string found = at_ < text_.size() ? std::string(text_.substr(at_, 12)) : "its end";
    for (char& c : found)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';  // only part of a character may stand there
    fail(ErrorCode::parse, "damaged header: expected ", wanted, " at byte ", offset_ + at_, " of the file, found ",
         quoted_name(found));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) unexpected(std::string("'") + c + "'");
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  // NumPy escapes nothing in what it writes for the dtypes that we take.
  std::string_view string() {
    char quote = peek();
    if (quote != '\'' && quote != '"') unexpected("a string in quotes");
    size_t begin = at_ + 1, end = begin;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\\' && text_[end] != '\n') ++end;
    if (end == text_.size() || text_[end] != quote) at_ = end, unexpected("the end of a string without escapes");
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  bool boolean_value() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    unexpected("True or False");
  }

  Shape tuple() {
    Shape shape;
    bool comma = false;
    expect('(');
    while (!accept(')')) {
      if (!shape.empty() && !comma) unexpected("',' or ')'");
      if (shape.size() == kMostNumpyDims) refuse("has a shape of more than ", kMostNumpyDims, " dims");
      skip_space();
      int64_t extent = 0;
      const char* begin = text_.data() + at_;
      auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
      if (error == std::errc::result_out_of_range) unexpected("an extent that memory can hold");
      if (error != std::errc{} || extent < 0) unexpected("an extent: 0, 1, 2 ...");
      at_ += static_cast<size_t>(end - begin);
      accept('L');  // Python 2 wrote long integers so
      shape.push_back(extent);
      comma = accept(',');
    }
    if (shape.size() == 1 && !comma) unexpected("',' before the ')' of a tuple of one number");
    return shape;
  }

  void parse_descr(NpyHeader& h) {
    if (peek() == '[')
      fail(ErrorCode::unsupported,
           "the array is structured (its dtype has named fields), which is no tensor; "
           "save its fields as arrays of their own: np.savez(path, **{f: a[f] for f in a.dtype.names})");
    std::string_view descr = string(), code = descr;
    char order = code.empty() ? '\0' : code[0];
    if (order == '<' || order == '>' || order == '|' || order == '=') code.remove_prefix(1);
    h.big_endian = order == '>';
    char kind = code.empty() ? '\0' : code[0];
    int bytes = 0;
    if (!code.empty()) {
      auto [end, error] = std::from_chars(code.data() + 1, code.data() + code.size(), bytes);
      if (error != std::errc{} || end != code.data() + code.size()) bytes = 0;
    }
    for (const Code& c : kNumpyCodes)
      if (c.kind == kind && c.bytes == bytes) {
        h.dtype = c.dtype;
        return;
      }
    const char* advice = "; save it as one of NumPy's bool, int, uint, float or complex types: a.astype('float32')";
    if (kind == 'O')
      advice = " (Python objects), which only Python can read; save numbers: np.save(path, a.astype('float32'))";
    else if (kind == 'S' || kind == 'U' || kind == 'a') advice = " (text), which is no tensor; save numbers";
    else if (kind == 'M' || kind == 'm') advice = " (dates or times); save it as integers: a.astype('int64')";
    else if (kind == 'V')
      advice =
          " (raw bytes, as which NumPy saves bfloat16 and the 8-bit floats); which type they were is lost: "
          "use "
          "safetensors, or save a.astype('float32')";
    fail(ErrorCode::unsupported, "the array has dtype ", quoted_name(descr), advice);
  }

  std::string_view text_;
  size_t offset_, at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, size_t offset) { return Parser(text, offset).header(); }

std::string npy_header_text(DType dtype, const Shape& shape) {
  const Code* code = nullptr;
  for (const Code& c : kNumpyCodes)
    if (c.dtype == dtype) code = &c;
  if (!code)
    fail(ErrorCode::unsupported, "NumPy has no dtype ", dtype,
         "; convert the tensor (f32 holds every low-precision "
         "float), or write safetensors");
  std::string text = "{'descr': '";
  text += code->bytes == 1 ? '|' : '<';
  text += code->kind + std::to_string(code->bytes) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  text += shape.size() == 1 ? ",), }" : "), }";
  // Room for the first extent to grow to 21 digits, so that rows can be appended in place.
  if (!shape.empty()) text.append(21 - std::to_string(shape[0]).size(), ' ');
  // The data begin at a multiple of 64 bytes, behind a newline. Version 2 has four bytes for the length.
  auto padded = [&](size_t prefix) { return aligned(prefix + text.size() + 1) - prefix; };
  bool long_header = padded(10) > 0xffff;
  size_t length = padded(long_header ? 12 : 10);
  std::string out = std::string("\x93NUMPY") + (long_header ? '\2' : '\1') + '\0';
  for (int i = 0; i < (long_header ? 4 : 2); ++i) out += static_cast<char>(length >> (8 * i));
  text.resize(length - 1, ' ');
  return out + text + '\n';
}

}  // namespace rlx
