// How alike two images are: builders, made of ops, so that they have derivatives and batches. Images are [..., height,
// width, channels], floats; leading dims are batch dims.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

/// The peak signal-to-noise ratio of two images in decibels, [...]: 10 log10(range^2 / mean of (x - y)^2); infinite for
/// equal ones. `range` is that of the numbers.
Value psnr(Value x, Value y, double range = 1);

struct SsimAttrs {
  int64_t window = 11;  ///< pixels a side, odd
  double sigma = 1.5;   ///< of the Gaussian that weights a window
  double range = 1;     ///< of the numbers
};
/// The structural similarity of two images, [...]: the mean over all channels and all windows that lie within the
/// image. Wang, Bovik, Sheikh, Simoncelli, IEEE Trans. Image Process. 13 (2004), with K1 = 0.01, K2 = 0.03. Fails where
/// no window fits.
Value ssim(Value x, Value y, const SsimAttrs& attrs = {});

}  // namespace rlx
