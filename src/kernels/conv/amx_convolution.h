// f32 convolutions on matrix tiles (gemm/amx/tiles.h), in split-bf16 arithmetic: each f32 is the sum of three bf16
// terms. An image is packed once, padding included, and every tap reads the same packed pixels at an offset of its own.
// A tile holds 16 successive packed pixels. It may run across the end of a row of outputs, into pixels that are no
// outputs; the results for these are discarded. Neighbours: packed_image.h, how images are packed; gemm/amx/amx_gemm.h,
// matrix products; onednn_convolution.h, all other convolutions.
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
/// Packs `args.w`; the result does not refer to that memory. Null if a weight is out of split range (pack_right_tiles()
/// in tiles.h).
std::shared_ptr<const TiledWeights> tiled_weights(const ConvolutionArgs& args, int threads);

class TiledConvolution {
 public:
  /// Whether tiles compute the convolution, and faster than other kernels do. They need f32, 2 spatial dims, strides of
  /// up to 4, one group (of channels and of the batch), a dense y, contiguous channels or columns of x, enough pixels
  /// and channels, and weights that do not fill the caches.
  static bool suits(const ConvolutionArgs& args, int64_t batch_groups);
  virtual ~TiledConvolution() = default;
  virtual size_t scratch_bytes() const = 0;
  /// Computes y. `w` holds the original weights: only the fp32 fallback (convolution() in direct.h) reads them. It
  /// computes those rows of outputs again that read a number out of split range. `scratch` is aligned to 64 bytes.
  virtual void run(const void* x, const void* w, void* y, const ConvolutionEpilogue& epilogue, void* scratch,
                   ThreadPool& pool) const noexcept = 0;
};

/// Makes the kernel for `args`, which suits() must accept, and for `weights`, which were packed from the operand w. The
/// pointers of `args` are ignored.
std::unique_ptr<TiledConvolution> tiled_convolution(const ConvolutionArgs& args, int threads,
                                                    std::shared_ptr<const TiledWeights> weights);

}  // namespace rlx::kernels
