// See the header. A block of 32 pixels and 32 output channels is summed over all taps and input channels in tile
// registers; the epilogue is applied as it is stored. The outer loop goes over blocks of output channels: the weights
// of one are read once for all pixels of the images that the second-level cache holds, while those of the next are
// prefetched.
#include "kernels/conv/amx_convolution.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "base/rounded_up.h"
#include "kernels/conv/packed_image.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/threads/thread_pool.h"

#if RLX_HAS_TILES

namespace rlx::kernels {
namespace {

constexpr int64_t kPixelBytes = PackedImage::kPixelBytes, kBlock = PackedImage::kBlock;
constexpr int64_t kRightBytes =
    2 * PackedImage::kTerms * kTileBytes;  ///< bytes of the weights of a tap, 32 input and 32 output channels
constexpr int64_t kCacheLine = 64;

// As in tiles.cpp, tmm0 to tmm3 hold the sums, tmm4 and tmm5 the pixels, tmm6 and tmm7 the weights.
#define RLX_LEFT(at) "tileloadd " #at "(%[upper],%[pixel],1), %%tmm4\n\t"
#define RLX_LOWER(at) "tileloadd " #at "(%[lower],%[pixel],1), %%tmm5\n\t"
#define RLX_RIGHT(at, next) \
  "tileloadd " #at "(%[right],%[row],1), %%tmm6\n\ttileloadd " #next "(%[right],%[row],1), %%tmm7\n\t"
#define RLX_DOTS "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
#define RLX_LOWER_DOTS "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
#define RLX_ADD(text)                                                                                       \
  asm volatile(text ::[upper] "r"(upper), [lower] "r"(upper + kTileRows * kPixelBytes), [right] "r"(right), \
               [pixel] "r"(kPixelBytes), [row] "r"(kCacheLine)                                              \
               : "memory");                                                                                 \
  prefetch(next)

/// The weights to prefetch, read as several streams side by side: a single one does not use all memory bandwidth.
struct PrefetchCursor {
  static constexpr int64_t kStreams = 4;
  const char* at = nullptr;  ///< in the first stream
  int64_t stream = 0;        ///< bytes of each stream
  int64_t left = 0;          ///< bytes of each stream that are still to be read
  int64_t cache_lines = 0;   ///< of each stream that one call of prefetch() reads
};
/// Uses loads, not prefetch instructions: the hardware prefetcher follows streams of loads, and nothing waits for
/// these.
inline void prefetch(PrefetchCursor& a) {
  for (int64_t i = 0; i < a.cache_lines && a.left > 0; ++i, a.at += kCacheLine, a.left -= kCacheLine)
    for (int64_t s = 0; s < PrefetchCursor::kStreams; ++s) {
      int unused = 0;
      asm volatile("movl (%1), %0" : "=r"(unused) : "r"(a.at + s * a.stream));
    }
}

/// Adds one tap of 32 input channels: the products of six pairs of terms (pixel's, weight's), with a call of prefetch()
/// after each. For 32 pixels, without kBoth for the first 16.
template <bool kBoth>
inline void add_products(const char* upper, const char* right, PrefetchCursor& next) {
  if constexpr (kBoth) {
    RLX_ADD(RLX_LEFT(128) RLX_LOWER(128) RLX_RIGHT(0, 1024) RLX_DOTS RLX_LOWER_DOTS);  // low, high
    RLX_ADD(RLX_LEFT(64) RLX_LOWER(64) RLX_DOTS RLX_LOWER_DOTS);                       // middle, high
    RLX_ADD(RLX_RIGHT(2048, 3072) RLX_DOTS RLX_LOWER_DOTS);                            // middle, middle
    RLX_ADD(RLX_LEFT(0) RLX_LOWER(0) RLX_DOTS RLX_LOWER_DOTS);                         // high, middle
    RLX_ADD(RLX_RIGHT(4096, 5120) RLX_DOTS RLX_LOWER_DOTS);                            // high, low
    RLX_ADD(RLX_RIGHT(0, 1024) RLX_DOTS RLX_LOWER_DOTS);                               // high, high
  } else {
    RLX_ADD(RLX_LEFT(128) RLX_RIGHT(0, 1024) RLX_DOTS);
    RLX_ADD(RLX_LEFT(64) RLX_DOTS);
    RLX_ADD(RLX_RIGHT(2048, 3072) RLX_DOTS);
    RLX_ADD(RLX_LEFT(0) RLX_DOTS);
    RLX_ADD(RLX_RIGHT(4096, 5120) RLX_DOTS);
    RLX_ADD(RLX_RIGHT(0, 1024) RLX_DOTS);
  }
}
inline void clear_sums() {
  asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
}
/// Writes the sums: 32 pixels of 32 channels, f32.
inline void store_sums(float* to) {
  constexpr int64_t kRow = kBlock * 4;
  asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)" ::"r"(to), "r"(kRow) : "memory");
  to += kTileRows * kBlock;
  asm volatile("tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)" ::"r"(to), "r"(kRow) : "memory");
}

int64_t taps_of(const ConvolutionArgs& a) { return a.kernel[0] * a.kernel[1]; }

/// The packed weights, ordered by block of 32 output channels, then by tap, then by step of 32 input channels.
class Weights final : public TiledWeights {
 public:
  Weights(const ConvolutionArgs& a, int threads)
      : block_(taps_of(a) * tile_steps(a.in_channels) * kRightBytes),
        bytes_(static_cast<size_t>(divided_up(a.out_channels, kBlock) * block_)), tiles_(aligned_memory(bytes_)) {
    const int64_t steps = tile_steps(a.in_channels), taps = taps_of(a);
    const auto room = static_cast<size_t>(a.in_channels * kTileRows);
    std::vector<float> all_rows(room * static_cast<size_t>(threads));
    std::vector<float> min_magnitudes(static_cast<size_t>(divided_up(a.out_channels, kBlock)));
    ThreadPool::shared().parallel_for(threads, divided_up(a.out_channels, kBlock), [&](int64_t block, int slot) {
      float* const rows = all_rows.data() + room * static_cast<size_t>(slot);
      char* out = tiles_.get() + block * block_;
      float& min_magnitude = min_magnitudes[static_cast<size_t>(block)] = std::numeric_limits<float>::infinity();
      for (int64_t tap = 0; tap < taps; ++tap, out += steps * kRightBytes)
        for (int64_t half = 0; half < 2; ++half) {
          const int64_t first = block * kBlock + half * kTileRows;
          const int64_t count = std::clamp<int64_t>(a.out_channels - first, 0, kTileRows);
          const float* w = static_cast<const float*>(a.w) + first * a.w_out_stride +
                           tap / a.kernel[1] * a.w_strides[0] + tap % a.kernel[1] * a.w_strides[1];
          for (int64_t o = 0; o < count; ++o)
            for (int64_t c = 0; c < a.in_channels; ++c)
              rows[o * a.in_channels + c] = w[o * a.w_out_stride + c * a.w_in_stride];
          min_magnitude = std::min(min_magnitude, pack_right_tiles({rows, a.in_channels, 1, f32}, count, a.in_channels,
                                                                   TileForm::three, out + half * kTileBytes));
        }
    });
    if (!min_magnitudes.empty()) min_magnitude_ = *std::min_element(min_magnitudes.begin(), min_magnitudes.end());
  }
  size_t bytes() const override { return bytes_; }
  /// The smallest magnitude of a weight, as pack_right_tiles() returns it.
  float min_magnitude() const { return min_magnitude_; }
  const char* block(int64_t i) const { return tiles_.get() + i * block_; }
  int64_t block_bytes() const { return block_; }

 private:
  int64_t block_;  ///< bytes of 32 output channels
  size_t bytes_;
  AlignedMemory tiles_;
  float min_magnitude_ = std::numeric_limits<float>::infinity();
};

class Convolution final : public TiledConvolution {
 public:
  Convolution(const ConvolutionArgs& a, int threads, std::shared_ptr<const TiledWeights> weights)
      : a_(a), threads_(threads), packed_image_(a), channel_blocks_(divided_up(a.out_channels, kBlock)),
        weights_(std::static_pointer_cast<const Weights>(std::move(weights))) {
    constexpr int64_t kCacheBytes = 1 << 20;            // half of the second-level cache, for packed pixels
    const int64_t image = packed_image_.image_bytes();  // if larger than that, all threads share one image
    images_together_ = std::clamp<int64_t>(kCacheBytes / image * threads, 1, a.batch);
    const int64_t tiles = images_together_ * packed_image_.tiles(), max_tasks = 4 * threads;
    const int64_t weight_bytes = channel_blocks_ * weights_->block_bytes();
    const int64_t by_cache = divided_up(images_together_ * image, kCacheBytes);
    pixel_tasks_ = by_cache, channel_tasks_ = 1, pack_tasks_ = images_together_ * packed_image_.pieces();
    if (threads > 1) {
      // Split the pixels over the threads, not the output channels: each core's cache then holds what the step before
      // wrote, and will hold what the step after reads; fetching it from another core takes longer than computing it.
      // But split the channels if the weights come from memory, to read each once, or if there are too few pixels.
      constexpr int64_t kMaxWeights = 5 << 19;
      const bool by_channels =
          weight_bytes > images_together_ * image && (tiles < 2 * threads || weight_bytes > kMaxWeights);
      if (by_channels) channel_tasks_ = std::min(channel_blocks_, divided_up(max_tasks, by_cache));
      // Use a few more tasks than threads, so that a thread that was interrupted does not delay the others. But with
      // few tiles use one task per thread: it then has two tiles or more, and each pair of tiles loads the weights
      // once.
      constexpr int64_t kFewTiles = 4;
      int64_t tasks = divided_up(max_tasks, channel_tasks_);
      if (!by_channels && tiles < kFewTiles * tasks) pack_tasks_ = tasks = threads;
      pixel_tasks_ = std::max(by_cache, tasks);
    }
    pixel_tasks_ = std::min(tiles, pixel_tasks_);
    thread_bytes_ = std::max(2 * kBlock * kBlock * 4, aligned(static_cast<int64_t>(convolution_scratch_bytes(a))));
    magnitude_bytes_ = aligned(images_together_ * packed_image_.pieces() * static_cast<int64_t>(sizeof(float)));
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(images_together_ * packed_image_.image_bytes() + magnitude_bytes_ +
                               threads_ * thread_bytes_);
  }

  void run(const void* x, const void* w, void* y, const ConvolutionEpilogue& epilogue, void* scratch,
           ThreadPool& pool) const noexcept override {
    char* const packed = static_cast<char*>(scratch);
    char* const after_images = packed + images_together_ * packed_image_.image_bytes();
    float* const min_magnitudes = reinterpret_cast<float*>(after_images);
    char* const own = after_images + magnitude_bytes_;
    for (int64_t first = 0; first < a_.batch; first += images_together_) {
      const int64_t images = std::min(images_together_, a_.batch - first), pieces = packed_image_.pieces();
      std::atomic<bool> in_split_range = true;
      const int64_t all = images * pieces;
      pool.parallel_for(threads_, pack_tasks_, [&](int64_t task) {
        for (int64_t i = all * task / pack_tasks_; i < all * (task + 1) / pack_tasks_; ++i) {
          min_magnitudes[i] =
              packed_image_.pack(static_cast<const float*>(x) + (first + i / pieces) * a_.x_batch_stride, i % pieces,
                                 packed + i / pieces * packed_image_.image_bytes());
          if (!split_bf16_suffices(min_magnitudes[i], weights_->min_magnitude())) in_split_range = false;
        }
      });
      pool.parallel_for(threads_, pixel_tasks_ * channel_tasks_, [&](int64_t task, int slot) {
        const TileScope scope;
        const int64_t tiles = images * packed_image_.tiles();
        const int64_t channel_task = task / pixel_tasks_, pixel_task = task % pixel_tasks_;
        multiply(
            {packed, reinterpret_cast<float*>(own + slot * thread_bytes_), static_cast<float*>(y), first, &epilogue},
            {tiles * pixel_task / pixel_tasks_, tiles * (pixel_task + 1) / pixel_tasks_},
            {channel_blocks_ * channel_task / channel_tasks_, channel_blocks_ * (channel_task + 1) / channel_tasks_});
      });
      if (in_split_range) continue;
      ConvolutionArgs whole = a_;
      whole.x = x, whole.w = w, whole.y = y;
      pool.parallel_for(threads_, images * a_.out_dims[0], [&](int64_t task, int slot) {
        const int64_t image = task / a_.out_dims[0], row = task % a_.out_dims[0];
        if (!split_bf16_suffices(packed_image_.min_magnitude_of_row(row, min_magnitudes + image * pieces),
                                 weights_->min_magnitude()))
          run_fallback(whole, first + image, row, epilogue, own + slot * thread_bytes_);
      });
    }
  }

 private:
  struct Range {
    int64_t begin, end;
  };
  struct Call {
    const char* packed;
    float* sums;  ///< has room for two blocks
    float* y;
    int64_t first;  ///< the image that `packed` begins with
    const ConvolutionEpilogue* epilogue;
  };

  /// Computes the outputs of a range of tiles of 16 pixels (counted over all images), two tiles at a time, and of a
  /// range of blocks of output channels.
  void multiply(const Call& call, Range tiles, Range channel_blocks) const {
    const int64_t count = tiles.end - tiles.begin, of_image = packed_image_.tiles();
    if (count <= 0) return;
    // Bytes that add_products() prefetches if each call reads one cache line per stream.
    constexpr int64_t kPrefetched = 6 * PrefetchCursor::kStreams * kCacheLine;
    PrefetchCursor next;
    for (int64_t channel_block = channel_blocks.begin; channel_block < channel_blocks.end; ++channel_block) {
      if (channel_block + 1 < channel_blocks.end) {
        next.at = weights_->block(channel_block + 1);
        next.stream = next.left = weights_->block_bytes() / PrefetchCursor::kStreams;
        next.cache_lines = divided_up(kRightBytes, kPrefetched * divided_up(count, 2));
      }
      for (int64_t t = tiles.begin; t < tiles.end;) {
        const int64_t image = t / of_image, tile = t % of_image, pixel = tile * kTileRows;
        const int64_t now = std::min<int64_t>({2, tiles.end - t, of_image - tile});
        const char* planes = call.packed + image * packed_image_.image_bytes() + pixel * kPixelBytes;
        if (now == 2) sum<true>(planes, channel_block, call.sums, next);
        else sum<false>(planes, channel_block, call.sums, next);
        store(call, call.first + image, {pixel, std::min(packed_image_.count(), pixel + now * kTileRows)},
              channel_block * kBlock);
        t += now;
      }
    }
  }
  /// Sums a block over all taps and input channels, in partial sums of kSumTileSteps steps each. Behind the block,
  /// `sums` has room for the partial sum.
  template <bool kBoth>
  void sum(const char* planes, int64_t channel_block, float* sums, PrefetchCursor& next) const {
    const char* right = weights_->block(channel_block);
    int64_t steps = 0;
    for (const int64_t tap : packed_image_.taps()) {
      const char* left = planes + tap;
      for (int64_t s = 0; s < packed_image_.steps(); ++s, left += packed_image_.plane_bytes(), right += kRightBytes) {
        if (steps % kSumTileSteps == 0) {
          if (steps > 0) add_partial(sums, steps == kSumTileSteps);
          clear_sums();
        }
        add_products<kBoth>(left, right, next);
        ++steps;
      }
    }
    add_partial(sums, steps <= kSumTileSteps);
  }
  static void add_partial(float* sums, bool is_first) {
    constexpr int64_t kCount = kBlock * kBlock;
    if (is_first) return store_sums(sums);
    float* const partial = sums + kCount;
    store_sums(partial);
    for (int64_t i = 0; i < kCount; ++i) sums[i] += partial[i];
  }
  void store(const Call& call, int64_t image, Range pixels, int64_t channel) const {
    const bool channels_last = a_.y_channel_stride == 1;
    const int64_t channels = std::min(kBlock, a_.out_channels - channel), pitch = packed_image_.pitch();
    const float* sums = call.sums;
    if (!channels_last) {
      float* const transposed = call.sums + kBlock * kBlock;
      for (int64_t i = 0; i < kBlock; i += kTileRows)
        for (int64_t j = 0; j < kBlock; j += kTileRows)
          transpose_tile(sums + i * kBlock + j, kBlock, transposed + j * kBlock + i, kBlock);
      sums = transposed;
    }
    const ConvolutionEpilogue& epilogue = *call.epilogue;
    EpilogueRows rows;
    rows.bias = epilogue.bias ? epilogue.bias + channel : nullptr, rows.bias_of_row = !channels_last;
    rows.activation = epilogue.activation, rows.from_row = kBlock;
    rows.y_row = rows.residual_row = channels_last ? a_.y_strides[1] : a_.y_channel_stride;
    const bool is_one_row = pitch == a_.out_dims[1];           // no gaps between rows of outputs
    for (int64_t pixel = pixels.begin; pixel < pixels.end;) {  // each run of pixels of one row
      const int64_t i = pixel - pixels.begin, row = pixel / pitch, col = pixel % pitch, left = pixels.end - pixel;
      const int64_t run = std::min(left, is_one_row ? left : pitch - col);
      const int64_t kept = std::min(run, is_one_row ? left : a_.out_dims[1] - col);
      if (kept > 0) {
        const int64_t at =
            image * a_.y_batch_stride + row * a_.y_strides[0] + col * a_.y_strides[1] + channel * a_.y_channel_stride;
        rows.y = call.y + at, rows.residual = epilogue.residual ? epilogue.residual + at : nullptr;
        rows.from = sums + (channels_last ? i * kBlock : i);
        rows.rows = channels_last ? kept : channels, rows.cols = channels_last ? channels : kept;
        apply_epilogue_rows(rows);
      }
      pixel += run;
    }
  }
  /// The fp32 fallback for a row of outputs, all channels.
  static void run_fallback(const ConvolutionArgs& a, int64_t image, int64_t row, const ConvolutionEpilogue& epilogue,
                           void* own) noexcept {
    for (int64_t channel = 0; channel < a.out_channels; ++channel) {
      const int64_t item = (image * a.out_channels + channel) * a.out_dims[0] + row;
      convolution(a, item, item + 1, own);
    }
    if (epilogue.is_nothing()) return;
    const bool channels_last = a.y_channel_stride == 1;
    const int64_t at = image * a.y_batch_stride + row * a.y_strides[0];
    EpilogueRows rows;
    rows.y = static_cast<float*>(a.y) + at, rows.residual = epilogue.residual ? epilogue.residual + at : nullptr;
    rows.bias = epilogue.bias, rows.bias_of_row = !channels_last, rows.activation = epilogue.activation;
    rows.rows = channels_last ? a.out_dims[1] : a.out_channels,
    rows.cols = channels_last ? a.out_channels : a.out_dims[1];
    rows.y_row = rows.residual_row = channels_last ? a.y_strides[1] : a.y_channel_stride;
    apply_epilogue_rows(rows);
  }

  ConvolutionArgs a_;
  int threads_;
  PackedImage packed_image_;
  int64_t channel_blocks_;               ///< blocks of 32 output channels
  int64_t images_together_ = 1;          ///< images that are packed at a time, so that the caches hold them
  int64_t pixel_tasks_, channel_tasks_;  ///< into how many tasks pixels and blocks of channels are split
  int64_t pack_tasks_;                   ///< into how many tasks packing is split
  int64_t thread_bytes_;                 ///< bytes of scratch of each thread
  int64_t magnitude_bytes_;              ///< of the magnitudes that packing returns, one for each piece
  std::shared_ptr<const Weights> weights_;
};

bool is_dense(const ConvolutionArgs& a) {
  const int64_t pixels = a.out_dims[0] * a.out_dims[1], channels = a.out_channels;
  const bool last = a.y_channel_stride == 1 && a.y_strides[1] == channels;
  const bool first = a.y_channel_stride == pixels && a.y_strides[1] == 1;
  return (last || first) && a.y_strides[0] == a.out_dims[1] * a.y_strides[1] && a.y_batch_stride == pixels * channels;
}

}  // namespace

bool TiledConvolution::suits(const ConvolutionArgs& a, int64_t batch_groups) {
  constexpr int64_t kMaxWeights = 4 << 20, kMinPixels = 33, kMinChannels = 32, kMaxStride = 4;
  if (a.dtype != f32 || a.out_dtype != f32 || a.spatial != 2 || a.groups != 1 || batch_groups != 1 || a.batch < 1)
    return false;
  int64_t taps = 1;
  for (int d = 0; d < 2; ++d) {
    if (a.stride[d] < 1 || a.stride[d] > kMaxStride || a.lhs_dilation[d] != 1 || a.w_strides[d] < 0 ||
        a.kernel[d] < 1 || a.out_dims[d] < 1 || a.in_dims[d] < 1)
      return false;
    taps *= a.kernel[d];
    // It does not pay to pack padding, or gaps between taps, that are much larger than the image.
    if (a.low[d] < 0 || a.low[d] > a.kernel[d] * a.rhs_dilation[d] || a.rhs_dilation[d] > 4) return false;
    const int64_t seen = (a.out_dims[d] - 1) * a.stride[d] + (a.kernel[d] - 1) * a.rhs_dilation[d] + 1 - a.low[d];
    if (seen - a.in_dims[d] > a.kernel[d] * a.rhs_dilation[d]) return false;
  }
  if (taps > 64 || a.in_channels < kMinChannels || a.out_channels < kMinChannels) return false;
  if (a.out_dims[0] * a.out_dims[1] < kMinPixels || taps * a.in_channels * a.out_channels > kMaxWeights) return false;
  const bool reads_channels = a.x_channel_stride == 1, reads_columns = a.x_strides[1] == 1 && a.stride[1] == 1;
  return is_dense(a) && (reads_channels || reads_columns) && has_matrix_tiles();
}

std::shared_ptr<const TiledWeights> tiled_weights(const ConvolutionArgs& args, int threads) {
  auto made = std::make_shared<Weights>(args, threads);
  if (made->min_magnitude() == 0) return nullptr;
  return made;
}
std::unique_ptr<TiledConvolution> tiled_convolution(const ConvolutionArgs& args, int threads,
                                                    std::shared_ptr<const TiledWeights> weights) {
  return std::make_unique<Convolution>(args, threads, std::move(weights));
}

}  // namespace rlx::kernels

#else

namespace rlx::kernels {

bool TiledConvolution::suits(const ConvolutionArgs&, int64_t) { return false; }
std::shared_ptr<const TiledWeights> tiled_weights(const ConvolutionArgs&, int) { return nullptr; }
std::unique_ptr<TiledConvolution> tiled_convolution(const ConvolutionArgs&, int, std::shared_ptr<const TiledWeights>) {
  return nullptr;
}

}  // namespace rlx::kernels

#endif
