// Splats in .ply files: the header says which properties a vertex has, in any order. Source of the format: Turk, "The
// PLY Polygon File Format" (1994); of the properties' names and meaning: Kerbl et al., ACM TOG 42(4) (2023), their
// viewer.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>

#include "rlx/error.h"
#include "rlx/extras/splat_files.h"
#include "rlx/io.h"

namespace rlx {
namespace {

static_assert(std::endian::native == std::endian::little, "little-endian numbers are read as they stand");

const double kFirstHarmonic = 0.5 / std::sqrt(std::acos(-1.0));  // the harmonic that is the same in all directions
constexpr float kGray = 0.5f;
constexpr int64_t kMostCoefficients = 16;

enum class Scalar { i8, u8, i16, u16, i32, u32, f32, f64 };
struct ScalarName {
  std::string_view name, other;
  Scalar type;
  size_t bytes;
};
constexpr ScalarName kScalars[] = {
    {"char", "int8", Scalar::i8, 1},      {"uchar", "uint8", Scalar::u8, 1},     {"short", "int16", Scalar::i16, 2},
    {"ushort", "uint16", Scalar::u16, 2}, {"int", "int32", Scalar::i32, 4},      {"uint", "uint32", Scalar::u32, 4},
    {"float", "float32", Scalar::f32, 4}, {"double", "float64", Scalar::f64, 8},
};

struct Property {
  std::string name;
  Scalar type;
  size_t bytes, offset;
};
struct Element {
  std::string name;
  uint64_t count = 0;
  std::vector<Property> properties;
  size_t bytes = 0;  ///< of one, in binary
  bool has_list = false;
};
struct Header {
  bool ascii = false;
  std::vector<Element> elements;
  size_t size = 0;  ///< bytes up to the data
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0;;) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) return words;
    size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
}
/// As it may stand in a message.
std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 60)) out += c >= ' ' && c < 127 ? c : '?';
  return out;
}

class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}
  Header read() {
    if (next_line() != "ply") fail(ErrorCode::parse, "the file does not begin with a line 'ply'");
    std::optional<std::string> format;
    for (;;) {
      auto words = words_of(next_line());
      if (words.empty() || words[0] == "comment" || words[0] == "obj_info") continue;
      if (words[0] == "end_header") break;
      if (words[0] == "format" && words.size() == 3) format = std::string(words[1]);
      else if (words[0] == "element" && words.size() == 3) add_element(words[1], words[2]);
      else if (words[0] == "property" && words.size() >= 3) add_property(words);
      else wrong("is no line of a header");
    }
    if (format != "ascii" && format != "binary_little_endian")
      fail(ErrorCode::unsupported, "the format is '", format ? shown(*format) : "not given",
           "'; ascii and binary_little_endian are read");
    header_.ascii = format == "ascii", header_.size = at_;
    return std::move(header_);
  }

 private:
  [[noreturn]] void wrong(std::string_view what) const {
    fail(ErrorCode::parse, "line ", number_, " '", shown(line_), "' ", what);
  }
  std::string_view next_line() {
    size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) fail(ErrorCode::parse, "the header does not end: there is no line 'end_header'");
    line_ = text_.substr(at_, end - at_);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    at_ = end + 1, ++number_;
    return line_;
  }
  void add_element(std::string_view name, std::string_view count) {
    Element e{std::string(name), 0, {}, 0, false};
    auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), e.count);
    if (error != std::errc() || end != count.data() + count.size()) wrong("has no count");
    header_.elements.push_back(std::move(e));
  }
  void add_property(const std::vector<std::string_view>& words) {
    if (header_.elements.empty()) wrong("stands in front of the first element");
    Element& e = header_.elements.back();
    if (words[1] == "list") {
      e.has_list = true;
      return;
    }
    for (const ScalarName& s : kScalars)
      if (words.size() == 3 && (words[1] == s.name || words[1] == s.other)) {
        e.properties.push_back({std::string(words[2]), s.type, s.bytes, e.bytes});
        e.bytes += s.bytes;
        return;
      }
    wrong("names no type; char to double and int8 to float64 are known");
  }
  std::string_view text_, line_;
  size_t at_ = 0, number_ = 0;
  Header header_;
};

template <class T>
double number_at(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return static_cast<double>(v);
}
double number_at(const std::byte* p, Scalar type) {
  switch (type) {
    case Scalar::i8: return number_at<int8_t>(p);
    case Scalar::u8: return number_at<uint8_t>(p);
    case Scalar::i16: return number_at<int16_t>(p);
    case Scalar::u16: return number_at<uint16_t>(p);
    case Scalar::i32: return number_at<int32_t>(p);
    case Scalar::u32: return number_at<uint32_t>(p);
    case Scalar::f32: return number_at<float>(p);
    case Scalar::f64: break;
  }
  return number_at<double>(p);
}

/// The properties of one vertex after another, as numbers.
class Vertices {
 public:
  Vertices(const Header& header, std::span<const std::byte> data, size_t first_byte)
      : data_(data), at_(first_byte), ascii_(header.ascii) {
    for (const Element& e : header.elements) {
      bool wanted = e.name == "vertex";
      if (e.has_list)
        fail(ErrorCode::unsupported, "element '", shown(e.name), "' ", wanted ? "" : "in front of the vertices ",
             "has a list; splats have none");
      require_room(e);
      if (wanted) {
        vertex_ = &e;
        row_.resize(e.properties.size());
        return;
      }
      if (ascii_) {
        for (uint64_t i = 0; i < e.count; ++i)
          for (size_t p = 0; p < e.properties.size(); ++p) next_word();
      } else {
        at_ += static_cast<size_t>(e.count) * e.bytes;
      }
    }
    fail(ErrorCode::parse, "there is no element 'vertex'");
  }
  const Element& element() const { return *vertex_; }
  const std::vector<double>& next() {
    for (size_t p = 0; p < row_.size(); ++p) {
      const Property& property = vertex_->properties[p];
      row_[p] = ascii_ ? number(next_word(), property) : number_at(data_.data() + at_ + property.offset, property.type);
    }
    if (!ascii_) at_ += vertex_->bytes;
    return row_;
  }

 private:
  /// A number has at least two characters, the last of a file but one.
  void require_room(const Element& e) const {
    size_t left = data_.size() - at_, each = ascii_ ? 2 * e.properties.size() : e.bytes;
    if (e.properties.empty() && e.count > 0) fail(ErrorCode::parse, "element '", shown(e.name), "' has no properties");
    if (each > 0 && e.count > (left + (ascii_ ? 1 : 0)) / each)
      fail(ErrorCode::parse, "the header tells of ", e.count, " of '", shown(e.name), "', each of ", each,
           ascii_ ? " or more" : "", " bytes, but ", left, " bytes are left; the file is cut or damaged");
  }
  std::string_view next_word() {
    auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
    std::string_view text(reinterpret_cast<const char*>(data_.data()), data_.size());
    while (at_ < text.size() && is_space(text[at_])) ++at_;
    size_t begin = at_;
    while (at_ < text.size() && !is_space(text[at_])) ++at_;
    if (begin == at_) fail(ErrorCode::parse, "the file ends at byte ", at_, ", within the numbers");
    return text.substr(begin, at_ - begin);
  }
  double number(std::string_view word, const Property& property) const {
    double v = 0;
    std::string_view digits = word.starts_with('+') ? word.substr(1) : word;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
    // What is smaller than any number is 0; what is larger than all is not read.
    const bool is_tiny = digits.find("e-") != digits.npos || digits.find("E-") != digits.npos;
    if (error == std::errc::result_out_of_range && is_tiny) return 0;
    if (error != std::errc() || end != digits.data() + digits.size())
      fail(ErrorCode::parse, "'", shown(word), "' in front of byte ", at_, " is no number; it stands for '",
           shown(property.name), "'");
    return v;
  }
  std::span<const std::byte> data_;
  size_t at_;
  bool ascii_;
  const Element* vertex_ = nullptr;
  std::vector<double> row_;
};

/// Where the numbers of a splat stand among the properties of a vertex.
struct Columns {
  std::array<size_t, 3> position{}, scale{}, dc{};
  std::array<size_t, 4> rotation{};
  size_t opacity = 0;
  std::vector<size_t> rest;  ///< all of red, then green, then blue

  explicit Columns(const Element& e) {
    auto find = [&](const std::string& name) -> std::optional<size_t> {
      for (size_t p = 0; p < e.properties.size(); ++p)
        if (e.properties[p].name == name) return p;
      return {};
    };
    auto get = [&](const std::string& name) {
      auto found = find(name);
      if (!found)
        fail(ErrorCode::parse, "a vertex has no property '", name,
             "'; splats have x y z, opacity, scale_0..2, rot_0..3 and f_dc_0..2");
      return *found;
    };
    position = {get("x"), get("y"), get("z")};
    opacity = get("opacity");
    for (size_t i = 0; i < 3; ++i) scale[i] = get(text_of("scale_", i)), dc[i] = get(text_of("f_dc_", i));
    for (size_t i = 0; i < 4; ++i) rotation[i] = get(text_of("rot_", i));
    while (auto found = find(text_of("f_rest_", rest.size()))) rest.push_back(*found);
    size_t n = rest.size();
    if (n != 0 && n != 9 && n != 24 && n != 45)
      fail(ErrorCode::parse, "a vertex has ", n, " properties f_rest_*; whole bands are 0, 9, 24 or 45 of them");
  }
};

}  // namespace

SplatScene parse_splat_ply(std::span<const std::byte> bytes, const std::string& name) {
  return with_context([&] { return "reading '" + name + "'"; },
                      [&] {
                        std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                        Header header = HeaderReader(text).read();
                        Vertices vertices(header, bytes, header.size);
                        const Columns columns(vertices.element());
                        auto n = static_cast<int64_t>(vertices.element().count);
                        auto coefficients = static_cast<int64_t>(1 + columns.rest.size() / 3);
                        auto zeros = [](Shape shape) { return Tensor(f32, std::move(shape)); };
                        SplatScene scene{zeros({n, 3}), zeros({n, 3}), zeros({n, 4}),
                                         zeros({n}),    zeros({n, 3}), zeros({n, coefficients, 3})};
                        auto positions = scene.positions.mutable_values<float>(),
                             scales = scene.log_scales.mutable_values<float>(),
                             rotations = scene.rotations.mutable_values<float>(),
                             opacities = scene.opacities.mutable_values<float>(),
                             colors = scene.colors.mutable_values<float>(), sh = scene.sh.mutable_values<float>();
                        std::fill(colors.begin(), colors.end(), kGray);
                        const auto per_channel = static_cast<size_t>(coefficients - 1);
                        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
                          const std::vector<double>& row = vertices.next();
                          auto get = [&](size_t column) { return static_cast<float>(row[column]); };
                          for (size_t k = 0; k < 3; ++k) {
                            positions[3 * i + k] = get(columns.position[k]), scales[3 * i + k] = get(columns.scale[k]);
                            float* of_channel = &sh[(per_channel + 1) * 3 * i + k];
                            of_channel[0] = get(columns.dc[k]);
                            for (size_t j = 0; j < per_channel; ++j)
                              of_channel[3 * (j + 1)] = get(columns.rest[k * per_channel + j]);
                          }
                          for (size_t k = 0; k < 4; ++k) rotations[4 * i + k] = get(columns.rotation[(k + 1) % 4]);
                          opacities[i] = get(columns.opacity);
                        }
                        return scene;
                      });
}
SplatScene read_splat_ply(const std::string& path) {
  auto file = FileBytes::read(path);
  return parse_splat_ply(file->bytes(), path);
}

namespace {

void require_scene(const SplatScene& s) {
  auto require = [](const Tensor& t, const Shape& shape, std::string_view name) {
    if (t.dtype() != f32 || t.shape() != shape)
      fail(ErrorCode::shape_mismatch, name, " must be ", Type{f32, Dims(shape.begin(), shape.end())}, ", got ",
           t.type());
  };
  if (s.positions.rank() != 2 || s.sh.rank() != 3)
    fail(ErrorCode::shape_mismatch, "positions must be f32[n, 3] and sh f32[n, c, 3], got ", s.positions.type(),
         " and ", s.sh.type());
  int64_t n = s.positions.shape()[0], c = s.sh.shape()[1];
  if (c != 0 && c != 1 && c != 4 && c != 9 && c != kMostCoefficients)
    fail(ErrorCode::shape_mismatch, "sh must be of whole bands, c = 0, 1, 4, 9 or 16, got ", s.sh.type());
  require(s.positions, {n, 3}, "positions"), require(s.log_scales, {n, 3}, "log_scales");
  require(s.rotations, {n, 4}, "rotations"), require(s.opacities, {n}, "opacities");
  require(s.colors, {n, 3}, "colors"), require(s.sh, {n, c, 3}, "sh");
}

}  // namespace

void write_splat_ply(const std::string& path, const SplatScene& scene, PlyFormat format) {
  require_scene(scene);
  const auto n = static_cast<size_t>(scene.count()), coefficients = static_cast<size_t>(scene.sh.shape()[1]);
  const size_t per_channel = coefficients > 0 ? coefficients - 1 : 0;
  std::vector<std::string> names = {"x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"};
  for (size_t k = 0; k < 3 * per_channel; ++k) names.push_back(text_of("f_rest_", k));
  for (const char* name : {"opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"})
    names.emplace_back(name);
  std::string out = text_of("ply\nformat ", format == PlyFormat::ascii ? "ascii" : "binary_little_endian",
                            " 1.0\nelement vertex ", n, "\n");
  for (const std::string& name : names) out += "property float " + name + "\n";
  out += "end_header\n";

  auto positions = scene.positions.values<float>(), scales = scene.log_scales.values<float>(),
       rotations = scene.rotations.values<float>(), opacities = scene.opacities.values<float>(),
       colors = scene.colors.values<float>(), sh = scene.sh.values<float>();
  std::vector<float> row;
  for (size_t i = 0; i < n; ++i) {
    row.assign(&positions[3 * i], &positions[3 * i] + 3);
    row.insert(row.end(), 3, 0.0f);
    const float* harmonics = coefficients > 0 ? &sh[3 * coefficients * i] : nullptr;
    for (size_t k = 0; k < 3; ++k) {
      double more = (static_cast<double>(colors[3 * i + k]) - kGray) / kFirstHarmonic;
      row.push_back(static_cast<float>((harmonics ? static_cast<double>(harmonics[k]) : 0) + more));
    }
    for (size_t k = 0; k < 3; ++k)
      for (size_t j = 1; j <= per_channel; ++j) row.push_back(harmonics[3 * j + k]);
    row.push_back(opacities[i]);
    row.insert(row.end(), &scales[3 * i], &scales[3 * i] + 3);
    for (size_t k = 0; k < 4; ++k) row.push_back(rotations[4 * i + (k + 3) % 4]);
    if (format == PlyFormat::binary) {
      out.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
      continue;
    }
    char digits[32];
    for (size_t k = 0; k < row.size(); ++k) {
      out.append(digits, std::to_chars(digits, digits + sizeof digits, row[k]).ptr);
      out += k + 1 < row.size() ? ' ' : '\n';
    }
  }

  // Beside it, under a name that nobody has, and renamed when it is whole.
  std::random_device draw;
  const std::string beside = text_of(path, ".part-", draw(), draw());
  std::error_code error;
  const auto close = [](std::FILE* file) { return file && std::fclose(file) == 0; };
  std::FILE* file = std::fopen(beside.c_str(), "wbx");
  const bool whole = file && std::fwrite(out.data(), 1, out.size(), file) == out.size();
  const bool written = close(file) && whole;
  if (written) std::filesystem::rename(beside, path, error);
  if (!written || error) {
    std::error_code ignored;
    if (file) std::filesystem::remove(beside, ignored);
    fail(ErrorCode::io, "'", path, "' cannot be written", error ? ": " + error.message() : std::string());
  }
}

}  // namespace rlx
