// The small files in which `rlx calibrate` keeps what it has measured, in the user's cache folder.
#pragma once

#include <string>
#include <string_view>

namespace rlx {

/// RLX_CACHE_DIR, else ~/.cache/rlx; empty if there is neither.
std::string calibration_folder();
/// Writes the file whole or not at all, and makes its folder.
void write_calibration(const std::string& path, std::string_view text);
/// The file's text, of at most 64 KiB. Fails if it cannot be read.
std::string read_calibration(const std::string& path);

}  // namespace rlx
