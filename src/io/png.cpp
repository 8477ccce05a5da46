// Writes PNG files: a header, the rows compressed by zlib, an end. Each row has the filter "up" (what it differs from
// the row above), which suits both drawings and spectrograms.
#include "rlx/png.h"

#include <zlib.h>

#include <vector>

#include "io/atomic_file.h"

namespace rlx {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 31;

void put_u32(std::string& to, uint32_t v) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<char>(v >> shift & 255));
}
/// Length, kind, content, and the checksum of kind and content.
std::string chunk(std::string_view kind, std::string_view content) {
  std::string body(kind);
  body += content;
  std::string all;
  put_u32(all, static_cast<uint32_t>(content.size()));
  all += body;
  put_u32(all, static_cast<uint32_t>(
                   crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<z_size_t>(body.size()))));
  return all;
}
std::string compressed(const std::vector<Bytef>& rows) {
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string out(size, '\0');
  int code = compress2(reinterpret_cast<Bytef*>(out.data()), &size, rows.data(), static_cast<uLong>(rows.size()),
                       Z_DEFAULT_COMPRESSION);
  if (code != Z_OK) fail(ErrorCode::io, "zlib cannot compress ", rows.size(), " bytes of an image: ", zError(code));
  out.resize(size);
  return out;
}
/// The kind of pixels, by their channels.
char color_type(int64_t channels) { return channels == 1 ? 0 : channels == 3 ? 2 : 6; }

}  // namespace

void write_png(const std::string& path, const Tensor& image) {
  with_context([&] { return "writing the .png file '" + path + "'"; },
               [&] {
                 const Shape& shape = image.shape();
                 int64_t channels = shape.size() == 3 ? shape[2] : 1;
                 if (image.dtype() != u8 || (shape.size() != 2 && shape.size() != 3) ||
                     (channels != 1 && channels != 3 && channels != 4))
                   fail(ErrorCode::invalid_argument,
                        "an image is u8[height, width], or with 1, 3 or 4 channels behind, got ", image.type());
                 int64_t height = shape[0], width = shape[1];
                 if (height < 1 || width < 1 || height > kMostPixels / (width * channels))
                   fail(ErrorCode::invalid_argument, "an image of ", width, " x ", height,
                        " pixels: there must be one, and at most 2^31 bytes");
                 auto row = static_cast<size_t>(width * channels);
                 std::vector<Bytef> rows;
                 rows.reserve((row + 1) * static_cast<size_t>(height));
                 const auto* data = reinterpret_cast<const unsigned char*>(image.data());
                 for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
                   rows.push_back(2);  // the filter "up"
                   for (size_t x = 0; x < row; ++x) {
                     int above = y ? data[(y - 1) * row + x] : 0;
                     rows.push_back(static_cast<Bytef>(data[y * row + x] - above));
                   }
                 }
                 std::string header;
                 put_u32(header, static_cast<uint32_t>(width)), put_u32(header, static_cast<uint32_t>(height));
                 header += {8, color_type(channels), 0, 0, 0};
                 AtomicFile file(path);
                 file.write(std::string_view("\x89PNG\r\n\x1a\n", 8));
                 file.write(chunk("IHDR", header));
                 file.write(chunk("IDAT", compressed(rows)));
                 file.write(chunk("IEND", ""));
                 file.commit();
               });
}

}  // namespace rlx
