// Scenes of Gaussians in files: .ply as 3-D Gaussian splatting writes it, and the cameras and points of COLMAP, from
// which a scene is fitted. Files are hostile input: counts are checked against the file's size before memory is taken,
// and a damaged file is an rlx::Error that names the file and the place.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlx/tensor.h"

namespace rlx {

/// A scene, all in f32: what gaussian_splat_render takes (rlx/extras/splat.h).
struct SplatScene {
  Tensor positions;   ///< [n, 3]
  Tensor log_scales;  ///< [n, 3]
  Tensor rotations;   ///< [n, 4]: x, y, z, w
  Tensor opacities;   ///< [n]: logits
  Tensor colors;      ///< [n, 3]
  Tensor sh;          ///< [n, c, 3], c = 1, 4, 9 or 16

  int64_t count() const { return positions.shape()[0]; }
};

enum class PlyFormat { binary, ascii };
/// Reads x y z, opacity, scale_0..2, rot_0..3 (w first), f_dc_0..2 and 0, 9, 24 or 45 of f_rest_*, of the element
/// "vertex", whatever else it has; ascii or binary little-endian. `colors` are 0.5 then, for that is what the files'
/// harmonics are added to.
SplatScene read_splat_ply(const std::string& path);
/// The same from memory; `name` stands for the path in messages.
SplatScene parse_splat_ply(std::span<const std::byte> bytes, const std::string& name = "<memory>");
/// Writes what the other programs read: x y z nx ny nz, f_dc_*, f_rest_*, opacity, scale_*, rot_*. Where `colors` are
/// not 0.5 the difference goes into the first coefficient. Fails unless the tensors are those of a scene. The file
/// appears complete.
void write_splat_ply(const std::string& path, const SplatScene& scene, PlyFormat format = PlyFormat::binary);

// ---- COLMAP: https://colmap.github.io/format.html ----
struct ColmapCamera {
  uint32_t id = 0;
  std::string model;  ///< "PINHOLE", "OPENCV" ...
  uint64_t width = 0, height = 0;
  std::vector<double> params;  ///< in the model's order
};
struct ColmapImage {
  uint32_t id = 0, camera_id = 0;
  std::array<double, 4> rotation{};     ///< from the world to the camera: w, x, y, z
  std::array<double, 3> translation{};  ///< the same
  std::string name;
  struct Point {
    double x, y;
    int64_t point;  ///< the id of what is seen there, or -1
  };
  std::vector<Point> points;
};
struct ColmapPoint {
  uint64_t id = 0;
  std::array<double, 3> position{};
  std::array<uint8_t, 3> color{};
  double error = 0;
  struct Sight {
    uint32_t image, point;  ///< an image's id, the place among its points
  };
  std::vector<Sight> track;
};
struct ColmapModel {
  std::vector<ColmapCamera> cameras;
  std::vector<ColmapImage> images;
  std::vector<ColmapPoint> points;
};
/// cameras, images and points3D of a folder: .bin, or .txt where there is no cameras.bin. Fails if an image names a
/// camera that is not there.
ColmapModel read_colmap(const std::string& folder);
/// One of the files, from memory: of `model` the part that it holds is set.
enum class ColmapFile { cameras, images, points };
void parse_colmap(ColmapModel& model, ColmapFile file, bool is_text, std::span<const std::byte> bytes,
                  const std::string& name = "<memory>");

/// camera[10] in f32, as gaussian_splat_prepare takes it, of an image. Fails for cameras with distortion (undistort the
/// images first), with two focal lengths, or whose axis is more than a pixel off the middle of the image.
Tensor splat_camera(const ColmapCamera& camera, const ColmapImage& image);

}  // namespace rlx
