// Images in files: PNG, written only.
#pragma once

#include <string>

#include "rlx/tensor.h"

namespace rlx {

/// Writes a u8 image [height, width] (gray) or [height, width, channels] of 1 (gray), 3 (RGB) or 4 channels (RGBA), the
/// first row on top: PNG (ISO/IEC 15948), 8 bits a channel, not interlaced. The file appears complete; the same image
/// gives the same bytes. Fails for other tensors, for images without a pixel, and where the file cannot be written.
void write_png(const std::string& path, const Tensor& image);

}  // namespace rlx
