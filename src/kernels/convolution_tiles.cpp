// See the header. Places are those of the padded image, row by row: output (r, c) is place r * pitch + c, and tap (t,
// u) of it is t * pitch + u places further on. Memory: for each 32 channels a plane, of 3 x 64 bytes a place.
#include "kernels/convolution_tiles.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "kernels/aligned_memory.h"
#include "kernels/matrix_tiles.h"
#include "kernels/thread_pool.h"

#if defined(__x86_64__) && defined(__linux__)

namespace rlx::kernels {
namespace {

constexpr int64_t kParts = 3;
constexpr int64_t kLine = 64;                        ///< bytes of 32 bf16
constexpr int64_t kPlace = kParts * kLine;           ///< bytes of 32 channels of a place
constexpr int64_t kBlock = 2 * kTileLines;           ///< places, and output channels, of one block of sums
constexpr int64_t kRight = 2 * kParts * kTileBytes;  ///< bytes of 32 channels of a block's weights

// Registers as in matrix_tiles.cpp: 0 to 3 the sums, 4 and 5 the places, 6 and 7 the weights.
#define RLX_LEFT(at) \
  "tileloadd " #at "(%[upper],%[place],1), %%tmm4\n\ttileloadd " #at "(%[lower],%[place],1), %%tmm5\n\t"
#define RLX_RIGHT(at, next) \
  "tileloadd " #at "(%[right],%[line],1), %%tmm6\n\ttileloadd " #next "(%[right],%[line],1), %%tmm7\n\t"
#define RLX_DOTS                                                             \
  "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t" \
  "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"

inline void add_products(const char* upper, const char* lower, const char* right) {
  asm volatile(RLX_LEFT(128) RLX_RIGHT(0, 1024) RLX_DOTS        // low, high
                   RLX_LEFT(64) RLX_DOTS                        // middle, high
                       RLX_RIGHT(2048, 3072) RLX_DOTS           // middle, middle
                           RLX_LEFT(0) RLX_DOTS                 // high, middle
                               RLX_RIGHT(4096, 5120) RLX_DOTS   // high, low
                                   RLX_RIGHT(0, 1024) RLX_DOTS  // high, high
               ::[upper] "r"(upper),
               [lower] "r"(lower), [right] "r"(right), [place] "r"(kPlace), [line] "r"(kLine)
               : "memory");
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
int64_t column_blocks_of(const ConvolutionArgs& a) { return (a.out_channels + kBlock - 1) / kBlock; }

/// Block by block, tap by tap, 32 input channels after the other.
class Weights final : public TiledWeights {
 public:
  Weights(const ConvolutionArgs& a, int threads)
      : bytes_(static_cast<size_t>(column_blocks_of(a) * taps_of(a) * tile_steps(a.in_channels) * kRight)),
        tiles_(aligned_memory(bytes_)) {
    const int64_t steps = tile_steps(a.in_channels), taps = taps_of(a);
    const auto room = static_cast<size_t>(a.in_channels * kTileLines);
    std::vector<float> all_lines(room * static_cast<size_t>(threads));
    std::atomic<bool> is_fit = true;
    ThreadPool::shared().parallel_for(threads, column_blocks_of(a), [&](int64_t block, int slot) {
      float* const lines = all_lines.data() + room * static_cast<size_t>(slot);
      char* out = tiles_.get() + block * taps * steps * kRight;
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
  const char* tiles() const { return tiles_.get(); }

 private:
  size_t bytes_;
  AlignedMemory tiles_;
  bool is_fit_ = true;
};

class Convolution final : public TiledConvolution {
 public:
  Convolution(const ConvolutionArgs& a, int threads, std::shared_ptr<const TiledWeights> weights)
      : a_(a), threads_(threads), steps_(tile_steps(a.in_channels)), taps_(taps_of(a)),
        column_blocks_(column_blocks_of(a)), together_(std::clamp<int64_t>(a.batch, 1, threads)),
        weights_(std::static_pointer_cast<const Weights>(std::move(weights))) {
    rows_ = a.out_dims[0] + (a.kernel[0] - 1) * a.rhs_dilation[0];
    pitch_ = a.out_dims[1] + (a.kernel[1] - 1) * a.rhs_dilation[1];
    place_blocks_ = ((a.out_dims[0] - 1) * pitch_ + a.out_dims[1] + kBlock - 1) / kBlock;
    // What the last block reads behind the image.
    const int64_t reach = (a.kernel[0] - 1) * a.rhs_dilation[0] * pitch_ + (a.kernel[1] - 1) * a.rhs_dilation[1];
    places_ = std::max(rows_ * pitch_, place_blocks_ * kBlock + reach);
    plane_ = places_ * kPlace;
    own_ = kBlock * kBlock * 4 + steps_ * kParts * kTileBytes;
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(together_ * steps_ * plane_ + threads_ * own_) + convolution_scratch_bytes(a_);
  }

  void run(const void* x, const void* w, void* y, const ConvolutionFinish& finish, void* scratch,
           ThreadPool& pool) const noexcept override {
    char* const packed = static_cast<char*>(scratch);
    char* const own = packed + together_ * steps_ * plane_;
    for (int64_t first = 0; first < a_.batch; first += together_) {
      const int64_t images = std::min(together_, a_.batch - first);
      if (!pack(static_cast<const float*>(x), first, images, packed, own, pool))
        return run_slowly(x, w, y, finish, own + threads_ * own_);
      const int64_t parts = std::min<int64_t>(place_blocks_, threads_ == 1 ? 1 : 4 * threads_);
      pool.parallel_for(threads_, images * parts, [&](int64_t part, int slot) {
        const TileScope scope;
        const int64_t image = part / parts, piece = part % parts;
        const char* from = packed + image * steps_ * plane_;
        for (int64_t column = 0; column < column_blocks_; ++column)
          for (int64_t b = place_blocks_ * piece / parts; b < place_blocks_ * (piece + 1) / parts; ++b)
            multiply(from, b * kBlock, column, reinterpret_cast<float*>(own + slot * own_), static_cast<float*>(y),
                     first + image, finish);
      });
    }
  }

 private:
  bool pack(const float* x, int64_t first, int64_t images, char* packed, char* own, ThreadPool& pool) const noexcept {
    std::atomic<bool> is_fit = true;
    pool.parallel_for(threads_, images * (rows_ + 1), [&](int64_t part, int slot) {
      const int64_t image = part / (rows_ + 1), row = part % (rows_ + 1);
      char* const to = packed + image * steps_ * plane_;
      if (row == rows_) return clear(to, rows_ * pitch_, places_);
      if (!pack_row(x + (first + image) * a_.x_batch_stride, row, to, own + slot * own_ + kBlock * kBlock * 4))
        is_fit = false;
    });
    return is_fit;
  }
  void clear(char* planes, int64_t begin, int64_t end) const {
    for (int64_t s = 0; s < steps_; ++s)
      std::memset(planes + s * plane_ + begin * kPlace, 0, static_cast<size_t>((end - begin) * kPlace));
  }
  /// A row of the padded image.
  bool pack_row(const float* x, int64_t row, char* planes, char* tiles) const {
    const int64_t first = row * pitch_, from = row - a_.low[0];
    if (from < 0 || from >= a_.in_dims[0]) return clear(planes, first, first + pitch_), true;
    // Columns of x that stand within the padded row.
    const int64_t begin = std::clamp<int64_t>(a_.low[1], 0, pitch_);
    const int64_t skipped = std::max<int64_t>(0, -a_.low[1]);
    const int64_t count = std::clamp<int64_t>(a_.in_dims[1] - skipped, 0, pitch_ - begin);
    clear(planes, first, first + begin);
    clear(planes, first + begin + count, first + pitch_);
    bool is_fit = true;
    for (int64_t i = 0; i < count; i += kTileLines) {
      const int64_t lines = std::min(kTileLines, count - i);
      const float* at = x + from * a_.x_strides[0] + (skipped + i) * a_.x_strides[1];
      is_fit = pack_left_tiles({at, a_.x_strides[1], 1, f32}, lines, a_.in_channels, TileForm::three, tiles) && is_fit;
      const char* tile = tiles;
      for (int64_t s = 0; s < steps_; ++s)
        for (int64_t p = 0; p < kParts; ++p, tile += kTileBytes) {
          char* to = planes + s * plane_ + (first + begin + i) * kPlace + p * kLine;
          for (int64_t l = 0; l < lines; ++l) std::memcpy(to + l * kPlace, tile + l * kLine, kLine);
        }
    }
    return is_fit;
  }
  void multiply(const char* planes, int64_t place, int64_t column, float* sums, float* y, int64_t image,
                const ConvolutionFinish& finish) const {
    clear_sums();
    const char* right = weights_->tiles() + column * taps_ * steps_ * kRight;
    for (int64_t t = 0; t < a_.kernel[0]; ++t)
      for (int64_t u = 0; u < a_.kernel[1]; ++u) {
        const char* left = planes + (place + t * a_.rhs_dilation[0] * pitch_ + u * a_.rhs_dilation[1]) * kPlace;
        for (int64_t s = 0; s < steps_; ++s, left += plane_, right += kRight)
          add_products(left, left + kTileLines * kPlace, right);
      }
    store_sums(sums);
    const int64_t first = column * kBlock, count = std::min(kBlock, a_.out_channels - first);
    for (int64_t i = 0; i < kBlock;) {
      const int64_t row = (place + i) / pitch_, col = (place + i) % pitch_;
      if (row >= a_.out_dims[0]) return;
      const int64_t run = std::min(kBlock - i, pitch_ - col), kept = std::min(run, a_.out_dims[1] - col);
      if (kept > 0) store(sums + i * kBlock, kept, y, image, row, col, first, count, finish);
      i += run;
    }
  }
  void store(const float* sums, int64_t places, float* y, int64_t image, int64_t row, int64_t col, int64_t channel,
             int64_t channels, const ConvolutionFinish& finish) const {
    const int64_t at = image * a_.y_batch_stride + row * a_.y_strides[0] + col * a_.y_strides[1] + channel;
    for (int64_t i = 0; i < places; ++i)
      std::memcpy(y + at + i * a_.y_strides[1], sums + i * kBlock, static_cast<size_t>(channels) * sizeof(float));
    if (finish.is_nothing()) return;
    finish_rows({y + at, finish.residual ? finish.residual + at : nullptr,
                 finish.bias ? finish.bias + channel : nullptr, false, finish.activation, places, channels,
                 a_.y_strides[1], a_.y_strides[1]});
  }
  void run_slowly(const void* x, const void* w, void* y, const ConvolutionFinish& finish,
                  void* scratch) const noexcept {
    ConvolutionArgs call = a_;
    call.x = x, call.w = w, call.y = y;
    convolution(call, 0, call.batch * call.out_channels * call.out_dims[0], scratch);
    const int64_t places = a_.batch * a_.out_dims[0] * a_.out_dims[1];
    if (!finish.is_nothing())
      finish_rows({static_cast<float*>(y), finish.residual, finish.bias, false, finish.activation, places,
                   a_.out_channels, a_.out_channels, a_.out_channels});
  }

  ConvolutionArgs a_;
  int threads_;
  int64_t steps_, taps_, column_blocks_;
  int64_t together_;              ///< images that are packed at a time: one for each thread, so that caches hold them
  int64_t rows_ = 0, pitch_ = 0;  ///< of the padded image
  int64_t place_blocks_ = 0, places_ = 0, plane_ = 0;
  int64_t own_ = 0;  ///< bytes of each thread: sums, and tiles on their way
  std::shared_ptr<const Weights> weights_;
};

}  // namespace

bool TiledConvolution::suits(const ConvolutionArgs& a, int64_t batch_groups) {
  constexpr int64_t kMostWeights = 4 << 20, kFewestPlaces = 128, kFewestChannels = 32;
  if (a.dtype != f32 || a.out_dtype != f32 || a.spatial != 2 || a.groups != 1 || batch_groups != 1) return false;
  int64_t taps = 1;
  for (int d = 0; d < 2; ++d) {
    if (a.stride[d] != 1 || a.lhs_dilation[d] != 1 || a.w_strides[d] < 0 || a.kernel[d] < 1 || a.out_dims[d] < 1)
      return false;
    taps *= a.kernel[d];
    // Padding, or gaps between taps, that dwarf the image are not worth packing.
    if (a.low[d] < 0 || a.low[d] > a.kernel[d] * a.rhs_dilation[d] || a.rhs_dilation[d] > 4) return false;
  }
  if (taps < 2 || taps > 64 || a.in_channels < kFewestChannels || a.out_channels < kFewestChannels) return false;
  if (a.out_dims[0] * a.out_dims[1] < kFewestPlaces || taps * a.in_channels * a.out_channels > kMostWeights)
    return false;
  const bool is_dense = a.y_strides[1] == a.out_channels && a.y_strides[0] == a.out_channels * a.out_dims[1] &&
                        a.y_batch_stride == a.y_strides[0] * a.out_dims[0];
  return is_dense && a.x_channel_stride == 1 && a.y_channel_stride == 1 && has_matrix_tiles();
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
