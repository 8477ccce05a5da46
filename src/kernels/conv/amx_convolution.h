// f32 convolutions on matrix tiles (gemm/amx/tiles.h), in split-bf16 arithmetic: each f32 is the sum of three bf16
// terms. An image is packed once, padding included, and every tap reads the same packed pixels at its own offset. A
// tile has 16 successive packed pixels, also across the end of an image row: results that are no outputs are discarded.
// Neighbours: packed_image.h, how images are packed; amx_gemm.h, matrix products; onednn_convolution.h, all other
// convolutions.
#pragma once

#include <memory>

#include "kernels/conv/direct.h"
#include "kernels/conv/epilogue.h"

namespace rlx::kernels {

class ThreadPool;

/// Constant weights, packed as three bf16 terms in tile layout: 6 bytes for each weight.
class TiledWeights {
 public:
  virtual ~TiledWeights() = default;
  virtual size_t bytes() const = 0;
};
/// Packs `args.w`, of which it keeps nothing. Null if a weight is out of split range (pack_right_tiles() in tiles.h).
std::shared_ptr<const TiledWeights> tiled_weights(const ConvolutionArgs& args, int threads);

class TiledConvolution {
 public:
  /// Whether tiles compute it, and faster than other kernels: f32, 2 spatial dims, strides of up to 4, no groups, dense
  /// y, channels or columns of x contiguous, enough pixels and channels, weights that do not fill the caches.
  static bool suits(const ConvolutionArgs& args, int64_t batch_groups);
  virtual ~TiledConvolution() = default;
  virtual size_t scratch_bytes() const = 0;
  /// `scratch` is aligned to 64 bytes. The rows of outputs that read a number out of split range are computed again by
  /// the fp32 fallback, convolution() in direct.h; only this reads `w`.
  virtual void run(const void* x, const void* w, void* y, const ConvolutionEpilogue& epilogue, void* scratch,
                   ThreadPool& pool) const noexcept = 0;
};

/// For `args` that suits() accepts. The pointers of `args` are ignored.
std::unique_ptr<TiledConvolution> tiled_convolution(const ConvolutionArgs& args, int threads,
                                                    std::shared_ptr<const TiledWeights> weights);

}  // namespace rlx::kernels
