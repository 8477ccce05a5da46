// See the header. A block of 32 places and 32 output channels is summed over all taps and input channels in tiles, and
// finished on its way out. The weights of a block of channels pass by once for all places of some images that the
// second-level cache holds, those of the next block are asked for meanwhile.
#include "kernels/convolution_tiles.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/rounded_up.h"
#include "kernels/aligned_memory.h"
#include "kernels/convolution_places.h"
#include "kernels/matrix_tiles.h"
#include "kernels/thread_pool.h"

#if RLX_HAS_TILES

namespace rlx::kernels {
namespace {

constexpr int64_t kPlace = ConvolutionPlaces::kPlace, kBlock = ConvolutionPlaces::kBlock;
constexpr int64_t kRight = 2 * ConvolutionPlaces::kParts * kTileBytes;  ///< bytes of 32 channels of a block's weights
constexpr int64_t kCacheLine = 64;

// Registers as in matrix_tiles.cpp: 0 to 3 the sums, 4 and 5 the places, 6 and 7 the weights.
#define RLX_LEFT(at) "tileloadd " #at "(%[upper],%[place],1), %%tmm4\n\t"
#define RLX_LOWER(at) "tileloadd " #at "(%[lower],%[place],1), %%tmm5\n\t"
#define RLX_RIGHT(at, next) \
  "tileloadd " #at "(%[right],%[line],1), %%tmm6\n\ttileloadd " #next "(%[right],%[line],1), %%tmm7\n\t"
#define RLX_DOTS "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
#define RLX_LOWER_DOTS "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
#define RLX_ADD(text)                                                                                   \
  asm volatile(text ::[upper] "r"(upper), [lower] "r"(upper + kTileLines * kPlace), [right] "r"(right), \
               [place] "r"(kPlace), [line] "r"(kCacheLine)                                              \
               : "memory");                                                                             \
  ask(next)

/// What is multiplied later: read from several places at once, for one stream does not fill the memory's width.
struct Ahead {
  static constexpr int64_t kStreams = 4;
  const char* at = nullptr;
  int64_t stream = 0;  ///< bytes of each; what is left of them
  int64_t left = 0;
  int64_t lines = 0;  ///< that are asked for at a time, of each
};
/// Loads, not prefetches: the processor goes on ahead of streams of loads by itself, and waits for none of these.
inline void ask(Ahead& a) {
  for (int64_t i = 0; i < a.lines && a.left > 0; ++i, a.at += kCacheLine, a.left -= kCacheLine)
    for (int64_t s = 0; s < Ahead::kStreams; ++s) {
      int unused = 0;
      asm volatile("movl (%1), %0" : "=r"(unused) : "r"(a.at + s * a.stream));
    }
}

/// One tap of 32 input channels; asks six times for what is next. Without kBoth 16 places.
template <bool kBoth>
inline void add_products(const char* upper, const char* right, Ahead& next) {
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
/// 32 rows of 32.
inline void store_sums(float* to) {
  constexpr int64_t kRow = kBlock * 4;
  asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)" ::"r"(to), "r"(kRow) : "memory");
  to += kTileLines * kBlock;
  asm volatile("tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)" ::"r"(to), "r"(kRow) : "memory");
}

int64_t taps_of(const ConvolutionArgs& a) { return a.kernel[0] * a.kernel[1]; }

/// Block by block, tap by tap, 32 input channels after the other.
class Weights final : public TiledWeights {
 public:
  Weights(const ConvolutionArgs& a, int threads)
      : block_(taps_of(a) * tile_steps(a.in_channels) * kRight),
        bytes_(static_cast<size_t>(divided_up(a.out_channels, kBlock) * block_)), tiles_(aligned_memory(bytes_)) {
    const int64_t steps = tile_steps(a.in_channels), taps = taps_of(a);
    const auto room = static_cast<size_t>(a.in_channels * kTileLines);
    std::vector<float> all_lines(room * static_cast<size_t>(threads));
    std::atomic<bool> is_fit = true;
    ThreadPool::shared().parallel_for(threads, divided_up(a.out_channels, kBlock), [&](int64_t block, int slot) {
      float* const lines = all_lines.data() + room * static_cast<size_t>(slot);
      char* out = tiles_.get() + block * block_;
      for (int64_t tap = 0; tap < taps; ++tap, out += steps * kRight)
        for (int64_t half = 0; half < 2; ++half) {
          const int64_t first = block * kBlock + half * kTileLines;
          const int64_t count = std::clamp<int64_t>(a.out_channels - first, 0, kTileLines);
          const float* w = static_cast<const float*>(a.w) + first * a.w_out_stride +
                           tap / a.kernel[1] * a.w_strides[0] + tap % a.kernel[1] * a.w_strides[1];
          for (int64_t o = 0; o < count; ++o)
            for (int64_t c = 0; c < a.in_channels; ++c)
              lines[o * a.in_channels + c] = w[o * a.w_out_stride + c * a.w_in_stride];
          if (!pack_right_tiles({lines, a.in_channels, 1, f32}, count, a.in_channels, TileForm::three,
                                out + half * kTileBytes))
            is_fit = false;
        }
    });
    is_fit_ = is_fit;
  }
  size_t bytes() const override { return bytes_; }
  bool is_fit() const { return is_fit_; }
  const char* block(int64_t i) const { return tiles_.get() + i * block_; }
  int64_t block_bytes() const { return block_; }

 private:
  int64_t block_;  ///< bytes of 32 output channels
  size_t bytes_;
  AlignedMemory tiles_;
  bool is_fit_ = true;
};

class Convolution final : public TiledConvolution {
 public:
  Convolution(const ConvolutionArgs& a, int threads, std::shared_ptr<const TiledWeights> weights)
      : a_(a), threads_(threads), places_(a), columns_(divided_up(a.out_channels, kBlock)),
        weights_(std::static_pointer_cast<const Weights>(std::move(weights))) {
    constexpr int64_t kCacheBytes = 1 << 20;      // half of the second-level cache, for places
    const int64_t image = places_.image_bytes();  // a larger one is left to all threads
    together_ = std::clamp<int64_t>(kCacheBytes / image * threads, 1, a.batch);
    const int64_t tiles = together_ * places_.tiles(), most = 4 * threads;
    const int64_t weight_bytes = columns_ * weights_->block_bytes();
    const int64_t by_cache = divided_up(together_ * image, kCacheBytes);
    place_parts_ = by_cache, column_parts_ = 1, pack_parts_ = together_ * places_.pieces();
    if (threads > 1) {
      // Threads share the places: what a step before wrote, and one behind reads, is in the cache of the same core,
      // from which another one gets it slower than it would compute it. Of weights that are read from memory it is
      // better to read each once, and with fewer places there is nothing to be shared.
      constexpr int64_t kMostWeights = 5 << 19;
      const bool by_columns = weight_bytes > together_ * image && (tiles < 2 * threads || weight_bytes > kMostWeights);
      if (by_columns) column_parts_ = std::min(columns_, divided_up(most, by_cache));
      // Some more parts than threads, so that one that was interrupted does not hold up the others; but few tiles are
      // as many parts as threads, two tiles of which share their weights.
      constexpr int64_t kFewTiles = 4;
      int64_t parts = divided_up(most, column_parts_);
      if (!by_columns && tiles < kFewTiles * parts) pack_parts_ = parts = threads;
      place_parts_ = std::max(by_cache, parts);
    }
    place_parts_ = std::min(tiles, place_parts_);
    own_ = std::max(2 * kBlock * kBlock * 4, aligned(static_cast<int64_t>(convolution_scratch_bytes(a))));
    fit_bytes_ = aligned(together_ * places_.pieces());
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(together_ * places_.image_bytes() + fit_bytes_ + threads_ * own_);
  }

  void run(const void* x, const void* w, void* y, const ConvolutionFinish& finish, void* scratch,
           ThreadPool& pool) const noexcept override {
    char* const packed = static_cast<char*>(scratch);
    char* const fit = packed + together_ * places_.image_bytes();
    char* const own = fit + fit_bytes_;
    for (int64_t first = 0; first < a_.batch; first += together_) {
      const int64_t images = std::min(together_, a_.batch - first), pieces = places_.pieces();
      std::atomic<bool> is_fit = true;
      const int64_t all = images * pieces;
      pool.parallel_for(threads_, pack_parts_, [&](int64_t part) {
        for (int64_t i = all * part / pack_parts_; i < all * (part + 1) / pack_parts_; ++i) {
          fit[i] = places_.pack(static_cast<const float*>(x) + (first + i / pieces) * a_.x_batch_stride, i % pieces,
                                packed + i / pieces * places_.image_bytes());
          if (fit[i] == 0) is_fit = false;
        }
      });
      pool.parallel_for(threads_, place_parts_ * column_parts_, [&](int64_t part, int slot) {
        const TileScope scope;
        const int64_t tiles = images * places_.tiles();
        const int64_t of_columns = part / place_parts_, of_places = part % place_parts_;
        multiply({packed, reinterpret_cast<float*>(own + slot * own_), static_cast<float*>(y), first, &finish},
                 {tiles * of_places / place_parts_, tiles * (of_places + 1) / place_parts_},
                 {columns_ * of_columns / column_parts_, columns_ * (of_columns + 1) / column_parts_});
      });
      if (is_fit) continue;
      ConvolutionArgs whole = a_;
      whole.x = x, whole.w = w, whole.y = y;
      pool.parallel_for(threads_, images * a_.out_dims[0], [&](int64_t part, int slot) {
        const int64_t image = part / a_.out_dims[0], row = part % a_.out_dims[0];
        if (!places_.is_row_fit(row, fit + image * pieces))
          run_slowly(whole, first + image, row, finish, own + slot * own_);
      });
    }
  }

 private:
  struct Range {
    int64_t begin, end;
  };
  struct Call {
    const char* packed;
    float* sums;  ///< room for two blocks
    float* y;
    int64_t first;  ///< image
    const ConvolutionFinish* finish;
  };

  /// Tiles of 16 places of all images, two at a time, and blocks of output channels.
  void multiply(const Call& call, Range tiles, Range columns) const {
    const int64_t count = tiles.end - tiles.begin, of_image = places_.tiles();
    if (count <= 0) return;
    constexpr int64_t kAsked = 6 * Ahead::kStreams * kCacheLine;  // bytes for each tap, for one line at a time
    Ahead next;
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      if (column + 1 < columns.end) {
        next.at = weights_->block(column + 1);
        next.stream = next.left = weights_->block_bytes() / Ahead::kStreams;
        next.lines = divided_up(kRight, kAsked * divided_up(count, 2));
      }
      for (int64_t t = tiles.begin; t < tiles.end;) {
        const int64_t image = t / of_image, tile = t % of_image, place = tile * kTileLines;
        const int64_t now = std::min<int64_t>({2, tiles.end - t, of_image - tile});
        const char* planes = call.packed + image * places_.image_bytes() + place * kPlace;
        if (now == 2) sum<true>(planes, column, next);
        else sum<false>(planes, column, next);
        store_sums(call.sums);
        store(call, call.first + image, {place, std::min(places_.count(), place + now * kTileLines)}, column * kBlock);
        t += now;
      }
    }
  }
  /// All taps and channels of a block, in the tiles of sums.
  template <bool kBoth>
  void sum(const char* planes, int64_t column, Ahead& next) const {
    clear_sums();
    const char* right = weights_->block(column);
    for (const int64_t tap : places_.taps()) {
      const char* left = planes + tap;
      for (int64_t s = 0; s < places_.steps(); ++s, left += places_.plane_bytes(), right += kRight)
        add_products<kBoth>(left, right, next);
    }
  }
  void store(const Call& call, int64_t image, Range places, int64_t channel) const {
    const bool channels_last = a_.y_channel_stride == 1;
    const int64_t channels = std::min(kBlock, a_.out_channels - channel), pitch = places_.pitch();
    const float* sums = call.sums;
    if (!channels_last) {
      float* const turned = call.sums + kBlock * kBlock;
      for (int64_t i = 0; i < kBlock; i += kTileLines)
        for (int64_t j = 0; j < kBlock; j += kTileLines)
          turn_tile(sums + i * kBlock + j, kBlock, turned + j * kBlock + i, kBlock);
      sums = turned;
    }
    const ConvolutionFinish& finish = *call.finish;
    FinishRows rows;
    rows.bias = finish.bias ? finish.bias + channel : nullptr, rows.bias_of_row = !channels_last;
    rows.activation = finish.activation, rows.from_row = kBlock;
    rows.y_row = rows.residual_row = channels_last ? a_.y_strides[1] : a_.y_channel_stride;
    const bool is_one_row = pitch == a_.out_dims[1];           // rows of outputs follow each other without a gap
    for (int64_t place = places.begin; place < places.end;) {  // the part of each row of outputs
      const int64_t i = place - places.begin, row = place / pitch, col = place % pitch, left = places.end - place;
      const int64_t run = std::min(left, is_one_row ? left : pitch - col);
      const int64_t kept = std::min(run, is_one_row ? left : a_.out_dims[1] - col);
      if (kept > 0) {
        const int64_t at =
            image * a_.y_batch_stride + row * a_.y_strides[0] + col * a_.y_strides[1] + channel * a_.y_channel_stride;
        rows.y = call.y + at, rows.residual = finish.residual ? finish.residual + at : nullptr;
        rows.from = sums + (channels_last ? i * kBlock : i);
        rows.rows = channels_last ? kept : channels, rows.cols = channels_last ? channels : kept;
        finish_rows(rows);
      }
      place += run;
    }
  }
  /// A row of outputs, all channels.
  static void run_slowly(const ConvolutionArgs& a, int64_t image, int64_t row, const ConvolutionFinish& finish,
                         void* own) noexcept {
    for (int64_t channel = 0; channel < a.out_channels; ++channel) {
      const int64_t unit = (image * a.out_channels + channel) * a.out_dims[0] + row;
      convolution(a, unit, unit + 1, own);
    }
    if (finish.is_nothing()) return;
    const bool channels_last = a.y_channel_stride == 1;
    const int64_t at = image * a.y_batch_stride + row * a.y_strides[0];
    FinishRows rows;
    rows.y = static_cast<float*>(a.y) + at, rows.residual = finish.residual ? finish.residual + at : nullptr;
    rows.bias = finish.bias, rows.bias_of_row = !channels_last, rows.activation = finish.activation;
    rows.rows = channels_last ? a.out_dims[1] : a.out_channels,
    rows.cols = channels_last ? a.out_channels : a.out_dims[1];
    rows.y_row = rows.residual_row = channels_last ? a.y_strides[1] : a.y_channel_stride;
    finish_rows(rows);
  }

  ConvolutionArgs a_;
  int threads_;
  ConvolutionPlaces places_;
  int64_t columns_;                     ///< blocks of output channels
  int64_t together_ = 1;                ///< images that are packed at a time, so that caches hold them
  int64_t place_parts_, column_parts_;  ///< what threads take
  int64_t pack_parts_;                  ///< of the pieces that they pack before
  int64_t own_;                         ///< bytes of each thread
  int64_t fit_bytes_;
  std::shared_ptr<const Weights> weights_;
};

bool is_dense(const ConvolutionArgs& a) {
  const int64_t places = a.out_dims[0] * a.out_dims[1], channels = a.out_channels;
  const bool last = a.y_channel_stride == 1 && a.y_strides[1] == channels;
  const bool first = a.y_channel_stride == places && a.y_strides[1] == 1;
  return (last || first) && a.y_strides[0] == a.out_dims[1] * a.y_strides[1] && a.y_batch_stride == places * channels;
}

}  // namespace

bool TiledConvolution::suits(const ConvolutionArgs& a, int64_t batch_groups) {
  constexpr int64_t kMostWeights = 4 << 20, kFewestPlaces = 33, kFewestChannels = 32, kMostStep = 4;
  if (a.dtype != f32 || a.out_dtype != f32 || a.spatial != 2 || a.groups != 1 || batch_groups != 1 || a.batch < 1)
    return false;
  int64_t taps = 1;
  for (int d = 0; d < 2; ++d) {
    if (a.stride[d] < 1 || a.stride[d] > kMostStep || a.lhs_dilation[d] != 1 || a.w_strides[d] < 0 || a.kernel[d] < 1 ||
        a.out_dims[d] < 1 || a.in_dims[d] < 1)
      return false;
    taps *= a.kernel[d];
    // Padding, or gaps between taps, that dwarf the image are not worth packing.
    if (a.low[d] < 0 || a.low[d] > a.kernel[d] * a.rhs_dilation[d] || a.rhs_dilation[d] > 4) return false;
    const int64_t seen = (a.out_dims[d] - 1) * a.stride[d] + (a.kernel[d] - 1) * a.rhs_dilation[d] + 1 - a.low[d];
    if (seen - a.in_dims[d] > a.kernel[d] * a.rhs_dilation[d]) return false;
  }
  if (taps > 64 || a.in_channels < kFewestChannels || a.out_channels < kFewestChannels) return false;
  if (a.out_dims[0] * a.out_dims[1] < kFewestPlaces || taps * a.in_channels * a.out_channels > kMostWeights)
    return false;
  const bool reads_channels = a.x_channel_stride == 1, reads_columns = a.x_strides[1] == 1 && a.stride[1] == 1;
  return is_dense(a) && (reads_channels || reads_columns) && has_matrix_tiles();
}

std::shared_ptr<const TiledWeights> tiled_weights(const ConvolutionArgs& args, int threads) {
  auto made = std::make_shared<Weights>(args, threads);
  if (!made->is_fit()) return nullptr;
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
