// See the header. A PNG file is chunks, each with its size, kind and checksum; the rows are compressed by zlib, each
// behind a byte that says by which neighbours it was predicted.
#include "tools/image_input.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rlx/element.h"
#include "rlx/io.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

constexpr uint64_t kMostPixels = uint64_t{1} << 28;
constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);

template <class... Parts>
[[noreturn]] void damaged(const Parts&... parts) {
  fail(ErrorCode::parse, "no PNG file, or a damaged one: ", parts...);
}

uint32_t u32_at(std::span<const std::byte> bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(bytes[at + i]);
  return value;
}

struct Header {
  uint32_t width = 0, height = 0;
  unsigned bits = 0, color = 0;
  /// Of the pixels in the file, with the transparency and as places in the palette.
  unsigned channels() const { return color == 2 ? 3 : color == 4 ? 2 : color == 6 ? 4 : 1; }
  size_t row_bytes() const { return (size_t{width} * channels() * bits + 7) / 8; }
};

Header header_of(std::span<const std::byte> bytes) {
  if (bytes.size() != 13) damaged("its header has ", bytes.size(), " bytes instead of 13");
  Header h{u32_at(bytes, 0), u32_at(bytes, 4), static_cast<unsigned>(bytes[8]), static_cast<unsigned>(bytes[9])};
  if (h.width == 0 || h.height == 0 || uint64_t{h.width} * h.height > kMostPixels)
    damaged("it would have ", h.width, " x ", h.height, " pixels; there are files of 1 to ", kMostPixels, " here");
  const bool known = h.color == 0   ? h.bits == 1 || h.bits == 2 || h.bits == 4 || h.bits == 8 || h.bits == 16
                     : h.color == 3 ? h.bits == 1 || h.bits == 2 || h.bits == 4 || h.bits == 8
                                    : (h.color == 2 || h.color == 4 || h.color == 6) && (h.bits == 8 || h.bits == 16);
  if (!known) damaged("color type ", h.color, " with ", h.bits, " bits is none");
  if (h.bits == 16) fail(ErrorCode::unsupported, "it has 16 bits a channel; save it with 8");
  if (bytes[12] != std::byte{0}) fail(ErrorCode::unsupported, "it is interlaced; save it without");
  if (bytes[10] != std::byte{0} || bytes[11] != std::byte{0}) damaged("its compression or filter method is none");
  return h;
}

std::vector<Bytef> inflated(std::vector<Bytef>& packed, size_t size) {
  std::vector<Bytef> rows(size);
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) fail(ErrorCode::out_of_memory, "zlib cannot begin");
  stream.next_in = packed.data(), stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = rows.data(), stream.avail_out = static_cast<uInt>(rows.size());
  const int code = inflate(&stream, Z_FINISH);
  const size_t got = stream.total_out;
  inflateEnd(&stream);
  if (code != Z_STREAM_END || got != size) damaged("its pixels unpack to ", got, " bytes instead of ", size);
  return rows;
}

/// Undoes the prediction of each row, in place; `step` is how many bytes a pixel has.
void unfilter(std::vector<Bytef>& rows, size_t height, size_t row_bytes, size_t step) {
  for (size_t y = 0; y < height; ++y) {
    Bytef* row = rows.data() + y * (row_bytes + 1) + 1;
    const Bytef* above = y ? row - row_bytes - 1 : nullptr;
    const Bytef kind = row[-1];
    if (kind > 4) damaged("row ", y, " has the filter ", static_cast<int>(kind));
    for (size_t i = 0; i < row_bytes; ++i) {
      const int left = i >= step ? row[i - step] : 0, up = above ? above[i] : 0;
      const int corner = above && i >= step ? above[i - step] : 0;
      int guess = kind == 1 ? left : kind == 2 ? up : kind == 3 ? (left + up) / 2 : 0;
      if (kind == 4) {  // Paeth: the neighbour that is nearest to left + up - corner
        const int to_left = std::abs(up - corner), to_up = std::abs(left - corner),
                  to_corner = std::abs(left + up - 2 * corner);
        guess = to_left <= to_up && to_left <= to_corner ? left : to_up <= to_corner ? up : corner;
      }
      row[i] = static_cast<Bytef>(row[i] + guess);
    }
  }
}

Tensor decoded(std::span<const std::byte> bytes) {
  if (bytes.size() < kSignature.size() || std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) != 0)
    damaged("it does not begin as one");
  std::optional<Header> header;
  std::vector<Bytef> packed;
  std::vector<std::byte> palette, alpha;
  bool ended = false;
  for (size_t at = kSignature.size(); !ended;) {
    if (bytes.size() - at < 12) damaged("it ends within a chunk");
    const uint32_t size = u32_at(bytes, at);
    if (size > bytes.size() - at - 12) damaged("a chunk of ", size, " bytes at ", at, " reaches beyond its end");
    const auto named = bytes.subspan(at + 4, 4 + size_t{size}), content = named.subspan(4);
    const std::string kind(reinterpret_cast<const char*>(named.data()), 4);
    if (crc32_z(0, reinterpret_cast<const Bytef*>(named.data()), named.size()) != u32_at(bytes, at + 8 + size))
      damaged("the checksum of the chunk at ", at, " is wrong");
    at += 12 + size_t{size};
    if (!header && kind != "IHDR") damaged("it has no header");
    if (kind == "IHDR") {
      if (header) damaged("it has two headers");
      header = header_of(content);
    } else if (kind == "PLTE") {
      if (size % 3 || size > 768) damaged("its palette has ", size, " bytes");
      palette.assign(content.begin(), content.end());
    } else if (kind == "tRNS") {
      alpha.assign(content.begin(), content.end());
    } else if (kind == "IDAT") {
      const auto* data = reinterpret_cast<const Bytef*>(content.data());
      packed.insert(packed.end(), data, data + content.size());
    } else if (kind == "IEND") {
      ended = true;
    } else if (!(static_cast<unsigned char>(kind[0]) & 32)) {
      fail(ErrorCode::unsupported, "it has a chunk of a kind that has to be understood and is not");
    }
  }
  const Header& h = *header;
  if (h.color == 3 && palette.empty()) damaged("it has no palette");
  const bool is_clear = std::any_of(alpha.begin(), alpha.end(), [](std::byte b) { return b != std::byte{255}; });
  if (!alpha.empty() && (h.color != 3 || is_clear))
    fail(ErrorCode::unsupported, "some of its pixels may be transparent; save it without transparency");
  const size_t row_bytes = h.row_bytes(), size = (row_bytes + 1) * h.height;
  // Deflate packs some 1,030 bytes into one at best: what no content could unpack to needs no memory.
  if (packed.size() > UINT32_MAX || size / 1100 > packed.size())
    damaged(packed.size(), " bytes of pixels do not unpack to ", size);
  std::vector<Bytef> rows = inflated(packed, size);
  unfilter(rows, h.height, row_bytes, std::max<size_t>(1, h.channels() * h.bits / 8));
  const size_t channels = h.color == 0 || h.color == 4 ? 1 : 3;
  Tensor image(u8, {static_cast<int64_t>(h.height), static_cast<int64_t>(h.width), static_cast<int64_t>(channels)});
  auto* to = reinterpret_cast<Bytef*>(image.mutable_data());
  for (size_t y = 0; y < h.height; ++y) {
    const Bytef* row = rows.data() + y * (row_bytes + 1) + 1;
    for (size_t x = 0; x < h.width; ++x) {
      if (h.color == 0 || h.color == 3) {
        const size_t bit = x * h.bits;
        const unsigned value = row[bit / 8] >> (8 - h.bits - bit % 8) & ((1u << h.bits) - 1);
        if (h.color == 0) {
          *to++ = static_cast<Bytef>(value * 255 / ((1u << h.bits) - 1));
          continue;
        }
        if (3 * value + 2 >= palette.size())
          damaged("a pixel is ", value, ", and the palette has ", palette.size() / 3, " colors");
        for (size_t c = 0; c < 3; ++c) *to++ = static_cast<Bytef>(palette[3 * value + c]);
        continue;
      }
      const Bytef* pixel = row + x * h.channels();
      if ((h.color == 4 || h.color == 6) && pixel[channels] != 255)
        fail(ErrorCode::unsupported, "the pixel at ", x, ", ", y, " is transparent; save it without transparency");
      for (size_t c = 0; c < channels; ++c) *to++ = pixel[c];
    }
  }
  return image;
}

/// A way to lay the dims of an image out: 'h', 'w', 'c', or '1'.
bool fits(std::string_view layout, const Shape& hwc, const Type& wanted) {
  if (layout.size() != wanted.rank()) return false;
  for (size_t i = 0; i < layout.size(); ++i) {
    const int64_t extent = layout[i] == 'h' ? hwc[0] : layout[i] == 'w' ? hwc[1] : layout[i] == 'c' ? hwc[2] : 1;
    if (wanted.dims[i].is_static() && wanted.dims[i].value() != extent) return false;
  }
  return true;
}

}  // namespace

Tensor read_png(const std::string& path) {
  return with_context([&] { return "reading the image '" + path + "'"; },
                      [&] { return decoded(FileBytes::read(path)->bytes()); });
}

bool is_image_for(const Tensor& array, const Type& wanted) {
  // Floats keep their values, and only the order of their dims is the image's.
  const bool floats = is_float(array.dtype()) && is_float(wanted.dtype) && array.rank() == 3;
  if ((array.dtype() != u8 && !floats) || array.rank() < 2 || array.rank() > 3) return false;
  if (array.rank() == 3 && array.shape()[2] != 1 && array.shape()[2] != 3) return false;
  if (array.rank() != wanted.rank() || (!floats && wanted.dtype != u8)) return true;
  for (size_t i = 0; i < wanted.rank(); ++i)
    if (wanted.dims[i].is_static() && wanted.dims[i].value() != array.shape()[i]) return true;
  return false;
}

Tensor fitted_image(const std::string& input, const Tensor& image, const Type& wanted, std::optional<double> white) {
  const Shape hwc = {image.shape()[0], image.shape()[1], image.rank() == 3 ? image.shape()[2] : 1};
  std::vector<std::string_view> ways;
  for (std::string_view layout : {"hwc", "1hwc", "chw", "1chw"})
    if (fits(layout, hwc, wanted)) ways.push_back(layout);
  if (hwc[2] == 1)
    for (std::string_view layout : {"hw", "1hw"})
      if (ways.empty() && fits(layout, hwc, wanted)) ways.push_back(layout);
  const std::string what =
      text_of("an image of ", hwc[1], " x ", hwc[0], " pixels with ", hwc[2], hwc[2] == 1 ? " channel" : " channels");
  if (ways.empty())
    fail(ErrorCode::shape_mismatch, "input '", input, "' is ", wanted, ", and is given ", what,
         "; resize it, or make it ", hwc[2] == 1 ? "RGB" : "gray", ", so that it fits");
  // With one channel, or in a square of three pixels, ways may differ in name alone or in meaning.
  if (ways.size() > 1 && hwc[2] != 1)
    fail(ErrorCode::invalid_argument, "input '", input, "' is ", wanted, ", which ", what,
         " fits with its channels in front and behind; give an array (.npy) of its dims");
  const bool is_float_input = is_float(wanted.dtype), bytes = image.dtype() == u8;
  if (is_float_input && bytes && !white)
    throw UsageError(text_of("input '", input,
                             "' takes floats, and an image has bytes: say what 255 becomes, --white 1 or --white 255"));
  if (!is_float_input && !is_integer(wanted.dtype))
    fail(ErrorCode::shape_mismatch, "input '", input, "' is ", wanted, ", and is given ", what);
  if (wanted.dtype == i8)
    fail(ErrorCode::shape_mismatch, "input '", input, "' is ", wanted, ", which does not hold 255");
  const std::string_view layout = ways.front();
  Shape shape;
  for (char dim : layout) shape.push_back(dim == 'h' ? hwc[0] : dim == 'w' ? hwc[1] : dim == 'c' ? hwc[2] : 1);
  const bool in_front = layout.find("ch") != std::string_view::npos;
  Tensor made(wanted.dtype, shape);
  size_t to = 0;
  const auto height = static_cast<size_t>(hwc[0]), width = static_cast<size_t>(hwc[1]),
             channels = static_cast<size_t>(hwc[2]);
  for (size_t a = 0; a < (in_front ? channels : height * width); ++a)
    for (size_t b = 0; b < (in_front ? height * width : channels); ++b, ++to) {
      const size_t from = in_front ? b * channels + a : a * channels + b;
      if (!bytes) store<double>(made, to, load_number(image, from));
      else if (is_float_input) store<double>(made, to, load_number(image, from) * *white / 255);
      else store<int64_t>(made, to, load_index(image, from));
    }
  return made;
}

Tensor image_as_wanted(const std::string& input, const Tensor& image, const WantedInput& wanted,
                       std::optional<double> white) {
  Tensor in_order = image;
  if (wanted.is_bgr && image.rank() == 3 && image.shape()[2] == 3) {
    in_order = Tensor(u8, image.shape());
    for (size_t i = 0; i < image.element_count(); ++i)
      store<int64_t>(in_order, i, load_index(image, i - i % 3 + 2 - i % 3));
  }
  return fitted_image(input, in_order, wanted.type, wanted.white ? wanted.white : white);
}

}  // namespace rlx::tools
