// See the header.
#include "io/calibration_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/atomic_file.h"
#include "rlx/error.h"

namespace rlx {

std::string calibration_folder() {
  if (const char* given = std::getenv("RLX_CACHE_DIR"); given && *given) return given;
  if (const char* home = std::getenv("HOME"); home && *home)
    return (std::filesystem::path(home) / ".cache/rlx").string();
  return "";
}

void write_calibration(const std::string& path, std::string_view text) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::io, "the folder cannot be made: ", error.message());
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_calibration(const std::string& path) {
  constexpr std::streamsize kMostBytes = 1 << 16;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorCode::io, "it cannot be read");
  std::string text(static_cast<size_t>(kMostBytes), '\0');
  in.read(text.data(), kMostBytes);
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

}  // namespace rlx
