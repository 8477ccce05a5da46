// Files of splats and of COLMAP that plyfile and pycolmap wrote, and broken ones. tests/golden/generate/splat_files.py
// says how they were made.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "rlx/extras/splat_files.h"
#include "rlx/io.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::string kFolder = "tests/golden/splat/";
Tensor expected(const std::string& name) {
  return SafetensorsFile::open(kFolder + "expected.safetensors").tensor(name);
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string ply_error(const std::string& text) {
  return message_of([&] { parse_splat_ply(bytes_of(text), "a.ply"); });
}
void check_equal(const SplatScene& a, const SplatScene& b) {
  CHECK(a.positions == b.positions);
  CHECK(a.log_scales == b.log_scales);
  CHECK(a.rotations == b.rotations);
  CHECK(a.opacities == b.opacities);
  CHECK(a.colors == b.colors);
  CHECK(a.sh == b.sh);
}

/// The header of a scene without further harmonics.
std::string header(const std::string& format, const std::string& count, const std::string& without = "") {
  std::string text = "ply\nformat " + format + " 1.0\nelement vertex " + count + "\n";
  for (const char* name : {"x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2",
                           "rot_0", "rot_1", "rot_2", "rot_3"})
    if (name != without) text += std::string("property float ") + name + "\n";
  return text + "end_header\n";
}

}  // namespace

TEST_CASE("splats that plyfile wrote are read: binary and ascii, in any order, with further properties and elements") {
  for (const char* name : {"viewer", "text", "shuffled", "shuffled_text", "none"}) {
    INFO(name);
    SplatScene scene = read_splat_ply(kFolder + name + ".ply");
    CHECK(scene.positions == expected(std::string(name) + "/positions"));
    CHECK(scene.log_scales == expected(std::string(name) + "/log_scales"));
    CHECK(scene.rotations == expected(std::string(name) + "/rotations"));
    CHECK(scene.opacities == expected(std::string(name) + "/opacities"));
    CHECK(scene.sh == expected(std::string(name) + "/sh"));
    CHECK(scene.colors == full(f32, {scene.count(), 3}, 0.5));
  }
}
TEST_CASE("what is written is read again, bit for bit, and as plyfile writes it") {
  TemporaryFolder folder;
  for (const char* name : {"viewer", "text", "shuffled", "none"})
    for (PlyFormat format : {PlyFormat::binary, PlyFormat::ascii}) {
      SplatScene scene = read_splat_ply(kFolder + name + ".ply");
      write_splat_ply(folder / "again.ply", scene, format);
      check_equal(read_splat_ply(folder / "again.ply"), scene);
      CHECK(folder.file_count() == 1);
    }
  write_splat_ply(folder / "again.ply", read_splat_ply(kFolder + "viewer.ply"));
  auto without_comments = [](std::string text) {
    for (size_t at; (at = text.find("comment")) != std::string::npos;) text.erase(at, text.find('\n', at) + 1 - at);
    return text;
  };
  CHECK(file_content(folder / "again.ply") == without_comments(file_content(kFolder + "viewer.ply")));
}
TEST_CASE("colours beside the harmonics are written into the first of them") {
  TemporaryFolder folder;
  SplatScene scene = read_splat_ply(kFolder + "text.ply");
  for (float& c : scene.colors.mutable_values<float>()) c = 0.75f;
  write_splat_ply(folder / "a.ply", scene);
  SplatScene again = read_splat_ply(folder / "a.ply");
  // sqrt(1 / (4 pi)) of the coefficient is what it adds to a colour.
  for (size_t i = 0; i < 9; ++i) {
    size_t at = i / 3 * 12 + i % 3;
    CHECK(again.sh.values<float>()[at] == doctest::Approx(scene.sh.values<float>()[at] + 0.25 / 0.28209479177387814));
  }
  CHECK(again.colors.values<float>()[0] == 0.5f);
}
TEST_CASE("a .ply file that is none, is cut, or lacks what a splat needs is refused with the place") {
  const std::string row(14 * 4, '\0');
  CHECK(parse_splat_ply(bytes_of(header("binary_little_endian", "1") + row)).count() == 1);
  CHECK(ply_error("") == "the header does not end: there is no line 'end_header'\n  while reading 'a.ply'");
  CHECK(ply_error("plx\n").starts_with("the file does not begin with a line 'ply'"));
  CHECK(ply_error("ply\nformat ascii 1.0\n").starts_with("the header does not end"));
  CHECK(ply_error(header("binary_big_endian", "1") + row)
            .starts_with("the format is 'binary_big_endian'; ascii and binary_little_endian are read"));
  CHECK(ply_error("ply\nend_header\n").starts_with("the format is 'not given'"));
  CHECK(ply_error("ply\nformat ascii 1.0\nend_header\n").starts_with("there is no element 'vertex'"));
  CHECK(ply_error("ply\nverses 12\n").starts_with("line 2 'verses 12' is no line of a header"));
  CHECK(ply_error("ply\nelement vertex -1\n").starts_with("line 2 'element vertex -1' has no count"));
  CHECK(ply_error("ply\nelement vertex 99999999999999999999\n").find("has no count") != std::string::npos);
  CHECK(ply_error("ply\nproperty float x\n")
            .starts_with("line 2 'property float x' stands in front of the first element"));
  CHECK(ply_error("ply\nelement vertex 1\nproperty real x\n").starts_with("line 3 'property real x' names no type"));
  CHECK(ply_error("ply\nformat ascii 1.0\nelement vertex 1\nproperty list uchar int x\nend_header\n1 2\n")
            .starts_with("element 'vertex' has a list"));
  CHECK(ply_error("ply\nformat ascii 1.0\nelement vertex 1\nend_header\n")
            .starts_with("element 'vertex' has no properties"));
  CHECK(ply_error(header("binary_little_endian", "2") + row)
            .starts_with("the header tells of 2 of 'vertex', each of 56 bytes, but 56 bytes are left"));
  CHECK(ply_error(header("binary_little_endian", "18446744073709551615") + row).starts_with("the header tells of 184"));
  CHECK(ply_error(header("ascii", "1000000000000") + "1 2 3")
            .starts_with("the header tells of 1000000000000 of 'vertex'"));
  CHECK(ply_error(header("ascii", "1") + "1 2 3 4 5 6 7 8 9 10 11 12 13                     ")
            .find("within the numbers") != std::string::npos);
  CHECK(ply_error(header("ascii", "1") + "1 2 x 4 5 6 7 8 9 10 11 12 13 14\n").starts_with("'x' in front of byte "));
  CHECK(ply_error(header("ascii", "1") + "1 2 1e999 4 5 6 7 8 9 10 11 12 13 14\n")
            .starts_with("'1e999' in front of byte "));
  std::string tiny = header("ascii", "1") + "1 2 -1e-999 4 5 6 7 8 9 10 11 12 13 +14\n";
  CHECK(parse_splat_ply(bytes_of(tiny)).positions == Tensor::of<float>({1, 3}, {1, 2, 0}));
  for (const char* name : {"x", "opacity", "f_dc_1", "scale_2", "rot_3"})
    CHECK(ply_error(header("binary_little_endian", "1", name) + row)
              .starts_with(text_of("a vertex has no property '", name, "'")));
  std::string bands = header("binary_little_endian", "1");
  bands.insert(bands.find("end_header"), "property float f_rest_0\nproperty float f_rest_1\n");
  CHECK(ply_error(bands + row + row).starts_with("a vertex has 2 properties f_rest_*"));
  CHECK(message_of([] { read_splat_ply("no/such.ply"); }).find("no/such.ply") != std::string::npos);
}
TEST_CASE("a file of splats is written beside no file of another's") {
  TemporaryFolder folder;
  const std::string path = folder / "a.ply", own = path + ".part";
  std::ofstream(own) << "mine";
  write_splat_ply(path, read_splat_ply(kFolder + "text.ply"));
  std::string text;
  std::ifstream(own) >> text;
  CHECK(text == "mine");
  CHECK(folder.file_count() == 2);
}
TEST_CASE("what is no scene is not written, and neither is a file where none can be") {
  TemporaryFolder folder;
  SplatScene scene = read_splat_ply(kFolder + "text.ply");
  CHECK(message_of([&] { write_splat_ply(folder / "none/a.ply", scene); }).find("cannot be written") !=
        std::string::npos);
  SplatScene other = scene;
  other.rotations = Tensor(f32, {3, 3});
  CHECK(message_of([&] { write_splat_ply(folder / "a.ply", other); }) == "rotations must be f32[3, 4], got f32[3, 3]");
  other = scene;
  other.sh = Tensor(f32, {3, 5, 3});
  CHECK(message_of([&] { write_splat_ply(folder / "a.ply", other); }) ==
        "sh must be of whole bands, c = 0, 1, 4, 9 or 16, got f32[3, 5, 3]");
  other = scene;
  other.positions = Tensor(f64, {3, 3});
  CHECK(message_of([&] { write_splat_ply(folder / "a.ply", other); }) == "positions must be f32[3, 3], got f64[3, 3]");
  CHECK(folder.file_count() == 0);
}

TEST_CASE("COLMAP's models, binary and text, are what pycolmap holds") {
  for (const char* form : {"colmap_binary", "colmap_text"}) {
    INFO(form);
    ColmapModel model = read_colmap(kFolder + form);
    REQUIRE(model.cameras.size() == 2);
    std::sort(model.cameras.begin(), model.cameras.end(), [](auto& a, auto& b) { return a.id < b.id; });
    CHECK(model.cameras[0].model == "PINHOLE");
    CHECK(model.cameras[0].width == 640);
    CHECK(model.cameras[0].height == 480);
    CHECK(model.cameras[0].params == std::vector<double>{500, 500, 320, 240});
    CHECK(model.cameras[1].id == 7);
    CHECK(model.cameras[1].model == "SIMPLE_RADIAL");
    CHECK(model.cameras[1].params == std::vector<double>{210.5, 150, 100, 0.01});

    REQUIRE(model.images.size() == 3);
    std::sort(model.images.begin(), model.images.end(), [](auto& a, auto& b) { return a.id < b.id; });
    Array<double> rotations(expected("colmap/rotations")), translations(expected("colmap/translations"));
    Array<double> at(expected("colmap/image_points"));
    Array<int64_t> ids(expected("colmap/image_point_ids"));
    const char* names[] = {"a.png", "folder/b c.png", "last.jpg"};
    size_t seen = 0;
    for (size_t i = 0; i < 3; ++i) {
      const ColmapImage& image = model.images[i];
      CHECK(image.name == names[i]);
      CHECK(image.camera_id == (i < 2 ? 1 : 7));
      CHECK(image.points.size() == 4 * i);
      for (size_t k = 0; k < 4; ++k)
        CHECK(image.rotation[k] == doctest::Approx(rotations.data[4 * i + k]).epsilon(1e-14));
      for (size_t k = 0; k < 3; ++k) CHECK(image.translation[k] == translations.data[3 * i + k]);
      for (const ColmapImage::Point& p : image.points) {
        CHECK(p.x == at.data[2 * seen]);
        CHECK(p.y == at.data[2 * seen + 1]);
        CHECK(p.point == ids.data[seen++]);
      }
    }

    REQUIRE(model.points.size() == 5);
    std::sort(model.points.begin(), model.points.end(), [](auto& a, auto& b) { return a.id < b.id; });
    Array<double> positions(expected("colmap/points"));
    Array<uint64_t> colors(expected("colmap/colors"));
    Array<int64_t> tracks(expected("colmap/tracks"));
    size_t sight = 0;
    for (size_t i = 0; i < 5; ++i) {
      const ColmapPoint& p = model.points[i];
      for (size_t k = 0; k < 3; ++k) {
        CHECK(p.position[k] == positions.data[3 * i + k]);
        CHECK(p.color[k] == colors.data[3 * i + k]);
      }
      for (const ColmapPoint::Sight& s : p.track) {
        CHECK(s.image == tracks.data[2 * sight]);
        CHECK(s.point == tracks.data[2 * sight++ + 1]);
      }
    }
    CHECK(2 * sight == tracks.data.size());

    Array<double> centers(expected("colmap/centers")), axes(expected("colmap/axes")), ups(expected("colmap/ups"));
    for (size_t i = 0; i < 2; ++i) {
      Array<double> camera(splat_camera(model.cameras[0], model.images[i]));
      for (size_t k = 0; k < 3; ++k) {
        CHECK(camera.data[k] == doctest::Approx(centers.data[3 * i + k]).epsilon(1e-6));
        CHECK(camera.data[3 + k] - camera.data[k] == doctest::Approx(axes.data[3 * i + k]).epsilon(1e-6));
        CHECK(camera.data[6 + k] == doctest::Approx(ups.data[3 * i + k]).epsilon(1e-6));
      }
      CHECK(std::tan(camera.data[9] / 2) == doctest::Approx(240.0 / 500).epsilon(1e-6));
    }
    CHECK(message_of([&] { splat_camera(model.cameras[1], model.images[2]); }) ==
          "camera 7 is of model 'SIMPLE_RADIAL' with 4 parameters; undistort the images first: a PINHOLE camera is "
          "needed");
  }
}
TEST_CASE("cameras that the ops have no numbers for are refused with theirs") {
  ColmapImage image;
  image.id = 4, image.rotation = {1, 0, 0, 0};
  ColmapCamera camera{3, "PINHOLE", 100, 80, {50, 60, 50, 40}};
  auto message = [&] { return message_of([&] { splat_camera(camera, image); }); };
  CHECK(message() == "camera 3 has the focal lengths 50 and 60; one positive length for both directions is needed");
  camera.params = {60, 60, 40, 40};
  CHECK(message() ==
        "the axis of camera 3 meets its image at (40, 40); within a pixel of the middle of 100 x 80 is needed");
  camera = {3, "SIMPLE_PINHOLE", 100, 80, {60, 50.5, 40}}, image.rotation = {0, 0, 0, 0};
  CHECK(message() == "image 4 '' has a rotation whose squared length is 0");
}
TEST_CASE("a file of COLMAP that is cut anywhere, or tells of too much, is refused with the place") {
  for (const char* form : {"colmap_binary", "colmap_text"}) {
    bool is_text = std::string_view(form) == "colmap_text";
    struct Part {
      ColmapFile part;
      const char* name;
    };
    for (const Part& p :
         {Part{ColmapFile::cameras, "cameras"}, {ColmapFile::images, "images"}, {ColmapFile::points, "points3D"}}) {
      const ColmapFile part = p.part;
      const std::string name = p.name;
      std::string whole = file_content(kFolder + form + "/" + name + (is_text ? ".txt" : ".bin"));
      ColmapModel model;
      parse_colmap(model, part, is_text, bytes_of(whole));
      if (is_text) continue;
      for (size_t size = 0; size < whole.size(); ++size) {
        std::string cut = whole.substr(0, size);
        CHECK(error_of([&] { parse_colmap(model, part, false, bytes_of(cut), name); }).code() == ErrorCode::parse);
      }
      std::string many = whole;
      for (size_t i = 0; i < 8; ++i) many[i] = '\xff';
      CHECK(message_of([&] {
              parse_colmap(model, part, false, bytes_of(many), name);
            }).starts_with("byte 0 tells of 18446744073709551615 "));
      CHECK(message_of([&] {
              parse_colmap(model, part, false, bytes_of(whole + "x"), name);
            }).starts_with("1 bytes follow behind byte "));
    }
  }
  auto text_error = [](ColmapFile part, const std::string& text) {
    ColmapModel model;
    return message_of([&] { parse_colmap(model, part, true, bytes_of(text), "a.txt"); });
  };
  CHECK(text_error(ColmapFile::cameras, "# ids\n1 PINHOLE 4\n") ==
        "line 2 '1 PINHOLE 4' ends in front of a height\n  while reading 'a.txt'");
  CHECK(text_error(ColmapFile::cameras, "1 PINHOLE 4 4 1 2 3\n").starts_with("line 1 has 3 parameters; PINHOLE has 4"));
  CHECK(
      text_error(ColmapFile::cameras, "1 PINCUSHION 4 4 1\n").starts_with("line 1 names a camera model 'PINCUSHION'"));
  CHECK(
      text_error(ColmapFile::images, "1 1 0 0 0 0 0 zero 1 a\n\n").starts_with("line 1 has 'zero' for a translation"));
  CHECK(text_error(ColmapFile::images, "1 1 0 0 0 0 0 0 1 a\n3 4\n")
            .starts_with("line 2 '3 4' ends in front of a point's id"));
  CHECK(text_error(ColmapFile::points, "1 0 0 0 256 0 0 0\n").starts_with("line 1 has '256' for a colour of 0 to 255"));
  CHECK(text_error(ColmapFile::points, "1 0 0 0 2 0 0 0 5\n").find("a place among the image's points") !=
        std::string::npos);
}
TEST_CASE("an image of a camera that is not there, and a folder without a model, are refused") {
  TemporaryFolder folder;
  CHECK(message_of([&] { read_colmap(folder / "none"); }).find("cameras.txt") != std::string::npos);
  put_file(folder / "cameras.txt", "1 PINHOLE 4 4 1 1 2 2\n");
  put_file(folder / "images.txt", "1 1 0 0 0 0 0 0 2 a.png\n\n");
  put_file(folder / "points3D.txt", "");
  CHECK(message_of([&] { read_colmap(folder / ""); }).find("was taken by camera 2, which is not among the 1 cameras") !=
        std::string::npos);
}
