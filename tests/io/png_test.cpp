// A PNG file, read as the standard says (ISO/IEC 15948): signature, chunks with their checksums, rows with their
// filters.
#include "rlx/png.h"

#include <zlib.h>

#include "rlx/element.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

uint32_t u32_at(const std::string& s, size_t at) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) v = v << 8 | static_cast<unsigned char>(s[at + i]);
  return v;
}
struct Decoded {
  uint32_t width = 0, height = 0;
  int bits = 0, color = -1;
  std::vector<unsigned char> pixels;
};
Decoded decoded(const std::string& file, size_t channels) {
  Decoded d;
  REQUIRE(file.substr(0, 8) == std::string("\x89PNG\r\n\x1a\n", 8));
  std::string packed, last;
  for (size_t at = 8; at < file.size();) {
    uint32_t size = u32_at(file, at);
    std::string kind = file.substr(at + 4, 4), content = file.substr(at + 8, size);
    std::string checked = kind + content;
    CHECK(u32_at(file, at + 8 + size) ==
          crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size())));
    if (kind == "IHDR") {
      REQUIRE(size == 13);
      d.width = u32_at(content, 0), d.height = u32_at(content, 4), d.bits = content[8], d.color = content[9];
      CHECK(content.substr(10) == std::string(3, '\0'));
    }
    if (kind == "IDAT") packed += content;
    last = kind, at += 12 + size;
  }
  CHECK(last == "IEND");
  size_t row = d.width * channels;
  std::vector<unsigned char> rows((row + 1) * d.height);
  uLongf size = rows.size();
  REQUIRE(uncompress(rows.data(), &size, reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK);
  REQUIRE(size == rows.size());
  for (size_t y = 0; y < d.height; ++y) {
    REQUIRE(rows[y * (row + 1)] == 2);
    for (size_t x = 0; x < row; ++x) {
      int above = y ? d.pixels[(y - 1) * row + x] : 0;
      d.pixels.push_back(static_cast<unsigned char>(rows[y * (row + 1) + 1 + x] + above));
    }
  }
  return d;
}

}  // namespace

TEST_CASE("an image comes back from its PNG file, in gray, RGB and RGBA") {
  TemporaryFolder folder;
  const std::pair<Shape, int> kinds[] = {{{3, 5}, 0}, {{4, 7, 1}, 0}, {{1, 1, 3}, 2}, {{6, 2, 4}, 6}};
  for (const auto& [shape, color] : kinds) {
    Tensor image = random_tensor(u8, shape, 3, 0, 256);
    std::string path = folder / "image.png";
    write_png(path, image);
    size_t channels = shape.size() == 3 ? size_t(shape[2]) : 1;
    Decoded d = decoded(file_content(path), channels);
    CHECK(d.width == shape[1]);
    CHECK(d.height == shape[0]);
    CHECK(d.bits == 8);
    CHECK(d.color == color);
    REQUIRE(d.pixels.size() == image.element_count());
    for (size_t i = 0; i < d.pixels.size(); ++i)
      if (d.pixels[i] != load<uint64_t>(image, i)) FAIL_CHECK(i);
  }
}

TEST_CASE("what is no image, and a folder that is not there, are said") {
  auto message = [](const Tensor& t) { return message_of([&] { write_png("never.png", t); }); };
  CHECK(message(Tensor(f32, {2, 2}))
            .starts_with("an image is u8[height, width], or with 1, 3 or 4 channels behind, got "
                         "f32[2, 2]\n  while writing the .png file 'never.png'"));
  CHECK(message(Tensor(u8, {2, 2, 2})).starts_with("an image is u8"));
  CHECK(message(Tensor(u8, {0, 2})).starts_with("an image of 2 x 0 pixels: there must be one"));
  CHECK(message_of([] {
          write_png("/nowhere/at/all.png", Tensor(u8, {1, 1}));
        }).find("/nowhere/at/all.png") != std::string::npos);
}
