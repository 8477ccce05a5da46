// Images as the inputs of models: PNG files, and arrays of height x width x channels.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "rlx/tensor.h"

namespace rlx::tools {

/// A PNG file (ISO/IEC 15948) as u8[height, width, channels] with 1 (gray) or 3 channels (RGB): 8 bits or fewer a
/// channel, palettes resolved. Fails for what would have to be guessed or cut: interlaced files, 16 bits, pixels that
/// are not opaque.
Tensor read_png(const std::string& path);

/// An image u8[height, width] or u8[height, width, channels] as an input of type `wanted` takes it: with channels in
/// front or behind, with a first dim of 1 or without. In an input of floats 255 becomes `white`, which has to be given.
/// Fails if it does not fit, or in more than one way; nothing is resized.
Tensor fitted_image(const std::string& input, const Tensor& image, const Type& wanted, std::optional<double> white);

/// What an input of a model is.
struct WantedInput {
  Type type;
  std::optional<double> white;  ///< of an input that is an image: what 255 means to it
  bool is_bgr = false;          ///< of an image: blue is the first channel
};
using WantedInputs = std::map<std::string, WantedInput, std::less<>>;
/// An image in RGB as the input takes it; `white` is for an input of floats that is no image. Fails as fitted_image.
Tensor image_as_wanted(const std::string& input, const Tensor& image, const WantedInput& wanted,
                       std::optional<double> white);

/// Whether an array is an image that an input of this type can only take as one: bytes of rank 2 or 3 or floats of rank
/// 3, of other dims.
bool is_image_for(const Tensor& array, const Type& wanted);

}  // namespace rlx::tools
