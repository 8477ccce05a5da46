// COLMAP's models: what is known of the cameras, the images and the points that they share. Source:
// https://colmap.github.io/format.html; binary files are little-endian.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "rlx/error.h"
#include "rlx/extras/splat_files.h"
#include "rlx/io.h"

namespace rlx {
namespace {

static_assert(std::endian::native == std::endian::little, "little-endian numbers are read as they stand");

struct CameraModel {
  std::string_view name;
  size_t params;
};
// Their place is their number in binary files.
constexpr CameraModel kModels[] = {
    {"SIMPLE_PINHOLE", 3},
    {"PINHOLE", 4},
    {"SIMPLE_RADIAL", 4},
    {"RADIAL", 5},
    {"OPENCV", 8},
    {"OPENCV_FISHEYE", 8},
    {"FULL_OPENCV", 12},
    {"FOV", 5},
    {"SIMPLE_RADIAL_FISHEYE", 4},
    {"RADIAL_FISHEYE", 5},
    {"THIN_PRISM_FISHEYE", 12},
};
std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 60)) out += c >= ' ' && c < 127 ? c : '?';
  return out;
}

class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T take() {
    require(sizeof(T));
    T v;
    std::memcpy(&v, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return v;
  }
  template <size_t kCount>
  std::array<double, kCount> numbers() {
    std::array<double, kCount> all;
    for (double& v : all) v = take<double>();
    return all;
  }
  /// How many follow, each of at least that many bytes: no more than there is room for.
  uint64_t count(size_t least_bytes, std::string_view of) {
    auto n = take<uint64_t>();
    if (n > left() / least_bytes)
      fail(ErrorCode::parse, "byte ", at_ - 8, " tells of ", n, " ", of, ", each of ", least_bytes,
           " or more bytes, but ", left(), " bytes are left; the file is cut or damaged");
    return n;
  }
  std::string text() {
    const std::byte *begin = bytes_.data() + at_, *end = bytes_.data() + bytes_.size();
    const std::byte* zero = std::find(begin, end, std::byte{0});
    if (zero == end) fail(ErrorCode::parse, "the name at byte ", at_, " does not end");
    at_ += static_cast<size_t>(zero - begin) + 1;
    return {reinterpret_cast<const char*>(begin), static_cast<size_t>(zero - begin)};
  }
  void require_end() const {
    if (left() > 0) fail(ErrorCode::parse, left(), " bytes follow behind byte ", at_, ", where the file should end");
  }
  size_t place() const { return at_; }

 private:
  size_t left() const { return bytes_.size() - at_; }
  void require(size_t n) const {
    if (left() < n) fail(ErrorCode::parse, "the file ends at byte ", bytes_.size(), ", within a number at byte ", at_);
  }
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

void read_cameras(ColmapModel& model, Bytes in) {
  for (uint64_t n = in.count(24 + 3 * 8, "cameras"); n > 0; --n) {
    ColmapCamera c;
    c.id = in.take<uint32_t>();
    auto kind = in.take<int32_t>();
    if (kind < 0 || size_t(kind) >= std::size(kModels))
      fail(ErrorCode::unsupported, "the camera in front of byte ", in.place(), " is of model ", kind, "; 0 to ",
           std::size(kModels) - 1, " are known");
    c.model = kModels[kind].name;
    c.width = in.take<uint64_t>(), c.height = in.take<uint64_t>();
    for (size_t i = 0; i < kModels[kind].params; ++i) c.params.push_back(in.take<double>());
    model.cameras.push_back(std::move(c));
    if (n == 1) in.require_end();
  }
}
void read_images(ColmapModel& model, Bytes in) {
  for (uint64_t n = in.count(4 + 7 * 8 + 4 + 1 + 8, "images"); n > 0; --n) {
    ColmapImage image;
    image.id = in.take<uint32_t>();
    image.rotation = in.numbers<4>(), image.translation = in.numbers<3>();
    image.camera_id = in.take<uint32_t>();
    image.name = in.text();
    for (uint64_t points = in.count(24, "points of an image"); points > 0; --points) {
      auto at = in.numbers<2>();
      image.points.push_back({at[0], at[1], in.take<int64_t>()});
    }
    model.images.push_back(std::move(image));
    if (n == 1) in.require_end();
  }
}
void read_points(ColmapModel& model, Bytes in) {
  for (uint64_t n = in.count(8 + 24 + 3 + 8 + 8, "points"); n > 0; --n) {
    ColmapPoint p;
    p.id = in.take<uint64_t>();
    p.position = in.numbers<3>();
    for (uint8_t& c : p.color) c = in.take<uint8_t>();
    p.error = in.take<double>();
    for (uint64_t sights = in.count(8, "sights of a point"); sights > 0; --sights) {
      auto image = in.take<uint32_t>();
      p.track.push_back({image, in.take<uint32_t>()});
    }
    model.points.push_back(std::move(p));
    if (n == 1) in.require_end();
  }
}

/// The lines of a text file; comments are left out.
class Lines {
 public:
  explicit Lines(std::span<const std::byte> bytes) : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}
  /// False at the end. Empty lines mean something to images only.
  bool next(bool skip_empty) {
    while (at_ < text_.size()) {
      size_t end = std::min(text_.find('\n', at_), text_.size());
      line_ = text_.substr(at_, end - at_);
      at_ = end + 1, ++number_, word_ = 0;
      bool empty = line_.find_first_not_of(" \t\r") == std::string_view::npos;
      if (line_.starts_with('#') || (empty && skip_empty)) continue;
      return true;
    }
    return false;
  }
  bool has_word() {
    word_ = std::min(line_.find_first_not_of(" \t\r", word_), line_.size());
    return word_ < line_.size();
  }
  std::string_view word(std::string_view what) {
    if (!has_word()) fail(ErrorCode::parse, "line ", number_, " '", shown(line_), "' ends in front of ", what);
    size_t begin = word_;
    word_ = std::min(line_.find_first_of(" \t\r", word_), line_.size());
    return line_.substr(begin, word_ - begin);
  }
  /// The rest of the line: names may have spaces.
  std::string rest(std::string_view what) {
    if (!has_word()) fail(ErrorCode::parse, "line ", number_, " '", shown(line_), "' ends in front of ", what);
    std::string_view all = line_.substr(word_);
    word_ = line_.size();
    return std::string(all.substr(0, all.find_last_not_of(" \t\r") + 1));
  }
  template <class T>
  T number(std::string_view what) {
    std::string_view text = word(what);
    T v{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size())
      fail(ErrorCode::parse, "line ", number_, " has '", shown(text), "' for ", what);
    return v;
  }
  size_t line_number() const { return number_; }

 private:
  std::string_view text_, line_;
  size_t at_ = 0, number_ = 0, word_ = 0;
};

void read_cameras(ColmapModel& model, Lines in) {
  while (in.next(true)) {
    ColmapCamera c;
    c.id = in.number<uint32_t>("a camera's id");
    c.model = std::string(in.word("a camera's model"));
    const auto* known =
        std::find_if(std::begin(kModels), std::end(kModels), [&](const CameraModel& m) { return m.name == c.model; });
    if (known == std::end(kModels))
      fail(ErrorCode::unsupported, "line ", in.line_number(), " names a camera model '", shown(c.model),
           "', which is not known");
    c.width = in.number<uint64_t>("a width"), c.height = in.number<uint64_t>("a height");
    while (in.has_word()) c.params.push_back(in.number<double>("a parameter"));
    if (c.params.size() != known->params)
      fail(ErrorCode::parse, "line ", in.line_number(), " has ", c.params.size(), " parameters; ", known->name, " has ",
           known->params);
    model.cameras.push_back(std::move(c));
  }
}
void read_images(ColmapModel& model, Lines in) {
  while (in.next(true)) {
    ColmapImage image;
    image.id = in.number<uint32_t>("an image's id");
    for (double& v : image.rotation) v = in.number<double>("a rotation");
    for (double& v : image.translation) v = in.number<double>("a translation");
    image.camera_id = in.number<uint32_t>("a camera's id");
    image.name = in.rest("an image's name");
    if (in.next(false))
      while (in.has_word()) {
        auto x = in.number<double>("a point's x"), y = in.number<double>("a point's y");
        image.points.push_back({x, y, in.number<int64_t>("a point's id")});
      }
    model.images.push_back(std::move(image));
  }
}
void read_points(ColmapModel& model, Lines in) {
  while (in.next(true)) {
    ColmapPoint p;
    p.id = in.number<uint64_t>("a point's id");
    for (double& v : p.position) v = in.number<double>("a position");
    for (uint8_t& v : p.color) v = in.number<uint8_t>("a colour of 0 to 255");
    p.error = in.number<double>("an error");
    while (in.has_word()) {
      auto image = in.number<uint32_t>("an image's id");
      p.track.push_back({image, in.number<uint32_t>("a place among the image's points")});
    }
    model.points.push_back(std::move(p));
  }
}

template <class Reader>
void read_part(ColmapModel& model, ColmapFile file, Reader in) {
  switch (file) {
    case ColmapFile::cameras: model.cameras.clear(); return read_cameras(model, in);
    case ColmapFile::images: model.images.clear(); return read_images(model, in);
    case ColmapFile::points: model.points.clear(); return read_points(model, in);
  }
}

}  // namespace

void parse_colmap(ColmapModel& model, ColmapFile file, bool is_text, std::span<const std::byte> bytes,
                  const std::string& name) {
  with_context([&] { return "reading '" + name + "'"; },
               [&] {
                 if (is_text) read_part(model, file, Lines(bytes));
                 else read_part(model, file, Bytes(bytes));
               });
}

ColmapModel read_colmap(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  bool is_text = !fs::exists(fs::path(folder) / "cameras.bin", ignored);
  ColmapModel model;
  constexpr std::pair<ColmapFile, const char*> kParts[] = {
      {ColmapFile::cameras, "cameras"}, {ColmapFile::images, "images"}, {ColmapFile::points, "points3D"}};
  for (auto [part, name] : kParts) {
    std::string path = (fs::path(folder) / (std::string(name) + (is_text ? ".txt" : ".bin"))).string();
    auto file = FileBytes::read(path);
    parse_colmap(model, part, is_text, file->bytes(), path);
  }
  std::set<uint32_t> cameras;
  for (const ColmapCamera& c : model.cameras) cameras.insert(c.id);
  for (const ColmapImage& image : model.images)
    if (!cameras.contains(image.camera_id))
      fail(ErrorCode::parse, "image ", image.id, " '", shown(image.name), "' of '", folder, "' was taken by camera ",
           image.camera_id, ", which is not among the ", cameras.size(), " cameras");
  return model;
}

Tensor splat_camera(const ColmapCamera& camera, const ColmapImage& image) {
  const bool simple = camera.model == "SIMPLE_PINHOLE";
  if ((!simple && camera.model != "PINHOLE") || camera.params.size() != (simple ? 3 : 4))
    fail(ErrorCode::unsupported, "camera ", camera.id, " is of model '", shown(camera.model), "' with ",
         camera.params.size(), " parameters; undistort the images first: a PINHOLE camera is needed");
  const double fx = camera.params[0], fy = camera.params[simple ? 0 : 1], cx = camera.params[simple ? 1 : 2],
               cy = camera.params[simple ? 2 : 3];
  const auto width = static_cast<double>(camera.width), height = static_cast<double>(camera.height);
  if (!(fy > 0) || !(std::abs(fx / fy - 1) < 0.01))
    fail(ErrorCode::unsupported, "camera ", camera.id, " has the focal lengths ", fx, " and ", fy,
         "; one positive length for both directions is needed");
  if (!(std::abs(cx - width / 2) <= 1) || !(std::abs(cy - height / 2) <= 1))
    fail(ErrorCode::unsupported, "the axis of camera ", camera.id, " meets its image at (", cx, ", ", cy,
         "); within a pixel of the middle of ", camera.width, " x ", camera.height, " is needed");
  double norm = 0;
  for (double v : image.rotation) norm += v * v;
  if (!(norm > 0) || !std::isfinite(norm))
    fail(ErrorCode::parse, "image ", image.id, " '", shown(image.name), "' has a rotation whose squared length is ",
         norm);
  norm = std::sqrt(norm);
  const double w = image.rotation[0] / norm, x = image.rotation[1] / norm, y = image.rotation[2] / norm,
               z = image.rotation[3] / norm;
  const double rows[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                             {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                             {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
  Tensor out(f32, {10});
  auto to = out.mutable_values<float>();
  for (size_t i = 0; i < 3; ++i) {
    double position = 0;
    for (size_t k = 0; k < 3; ++k) position -= rows[k][i] * image.translation[k];
    to[i] = static_cast<float>(position), to[3 + i] = static_cast<float>(position + rows[2][i]);
    to[6 + i] = static_cast<float>(-rows[1][i]);
  }
  to[9] = static_cast<float>(2 * std::atan(height / 2 / fy));
  return out;
}

}  // namespace rlx
