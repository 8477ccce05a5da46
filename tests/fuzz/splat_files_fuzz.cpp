// Any bytes as a .ply file of splats, and behind a first byte that says which, as a file of COLMAP's: refused with an
// rlx::Error, or read; splats that are read have as many of everything.
#include <cstdlib>

#include "rlx/error.h"
#include "rlx/extras/splat_files.h"

using namespace rlx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  try {
    SplatScene scene = parse_splat_ply(bytes);
    int64_t n = scene.count();
    if (scene.opacities.shape() != Shape{n} || scene.sh.shape()[0] != n || scene.rotations.shape() != Shape{n, 4})
      std::abort();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
  if (size == 0) return 0;
  try {
    ColmapModel model;
    auto part = static_cast<ColmapFile>(data[0] % 3);
    parse_colmap(model, part, data[0] / 3 % 2 == 1, bytes.subspan(1));
    for (const ColmapCamera& camera : model.cameras)
      if (camera.model.empty()) std::abort();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
  return 0;
}
