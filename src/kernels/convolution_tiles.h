// Convolutions of f32 by matrix tiles (matrix_tiles.h): images are packed once, padding included, whether their
// channels or their columns stand side by side, and every tap reads the same packed places, shifted; rows of 16 places
// run on over the edges of the image, whose results are thrown away. Neighbours: convolution_places.h, how images are
// packed; gemm_tiled.h, products; onednn_convolution.h, everything else.
#pragma once

#include <memory>

#include "kernels/convolution.h"
#include "kernels/convolution_finish.h"

namespace rlx::kernels {

class ThreadPool;

/// Weights as tiles want them: 6 bytes for each of 4.
class TiledWeights {
 public:
  virtual ~TiledWeights() = default;
  virtual size_t bytes() const = 0;
};
/// Reads `args.w`; null if numbers in it do not stand well as bf16 parts.
std::shared_ptr<const TiledWeights> tiled_weights(const ConvolutionArgs& args, int threads);

class TiledConvolution {
 public:
  /// Is it one, and are tiles faster? Two spatial dims, steps of up to 4, one tap or several, channels or columns side
  /// by side, enough places and channels, weights that do not fill the caches.
  static bool suits(const ConvolutionArgs& args, int64_t batch_groups);
  virtual ~TiledConvolution() = default;
  virtual size_t scratch_bytes() const = 0;
  /// Scratch memory is aligned to 64 bytes. `w` is read where numbers of the image do not stand well as bf16 parts:
  /// then the rows of outputs that they reach are done again by convolution(), slowly.
  virtual void run(const void* x, const void* w, void* y, const ConvolutionFinish& finish, void* scratch,
                   ThreadPool& pool) const noexcept = 0;
};

std::unique_ptr<TiledConvolution> tiled_convolution(const ConvolutionArgs& args, int threads,
                                                    std::shared_ptr<const TiledWeights> weights);

}  // namespace rlx::kernels
