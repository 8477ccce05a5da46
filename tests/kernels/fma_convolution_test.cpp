// Convolutions by multiply-adds against their definition, element by element: random extents, strides, dilations and
// padding (also negative), kernels also reversed, channels first and last, with epilogues, by several threads. Operands
// are whole numbers, so that sums are exact.
#include "kernels/conv/fma_convolution.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel_test.h"
#include "kernels/memory/cache_sizes.h"
#include "kernels/threads/thread_pool.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Case {
  ConvolutionArgs args;
  int64_t x_size = 0, w_size = 0, y_size = 0;
  int64_t w_first = 0;  ///< where the kernel's first weight is
};

/// Strides of x or y: planes, or channels last; x has gaps.
void lay_out(bool channels_last, int64_t channels, const int64_t* dims, int64_t gap, int64_t& batch_stride,
             int64_t& channel_stride, int64_t* strides) {
  if (channels_last) {
    channel_stride = 1, strides[1] = channels + gap, strides[0] = dims[1] * strides[1] + gap;
    batch_stride = dims[0] * strides[0];
  } else {
    strides[1] = 1, strides[0] = dims[1] + gap, channel_stride = dims[0] * strides[0];
    batch_stride = channels * channel_stride;
  }
}

Case random_case(Random& r) {
  Case c;
  ConvolutionArgs& a = c.args;
  a.spatial = 2, a.batch = 1 + r.below(4), a.groups = 1;
  a.in_channels = 8 + r.below(r.below(4) == 0 ? 400 : 40), a.out_channels = 8 + r.below(80);
  const bool is_pointwise = r.below(4) == 0;
  for (int d = 0; d < 2; ++d) {
    a.kernel[d] = is_pointwise ? 1 : 1 + r.below(r.below(6) == 0 ? 9 : 4), a.rhs_dilation[d] = 1 + (r.below(4) == 0);
    a.stride[d] = 1 + (r.below(3) == 0), a.out_dims[d] = 1 + r.below(14);
    const int64_t reach = (a.out_dims[d] - 1) * a.stride[d] + (a.kernel[d] - 1) * a.rhs_dilation[d] + 1;
    a.low[d] = r.below(2) == 0 ? 0 : r.below(6) - 2;
    a.in_dims[d] = std::max<int64_t>(1, reach - a.low[d] + (r.below(2) == 0 ? 0 : r.below(5) - 2));
  }
  lay_out(r.below(2) == 0, a.in_channels, a.in_dims, r.below(3), a.x_batch_stride, a.x_channel_stride, a.x_strides);
  lay_out(r.below(2) == 0, a.out_channels, a.out_dims, 0, a.y_batch_stride, a.y_channel_stride, a.y_strides);
  a.w_strides[1] = 1, a.w_strides[0] = a.kernel[1], a.w_in_stride = a.kernel[0] * a.kernel[1];
  a.w_out_stride = a.in_channels * a.w_in_stride;
  if (r.below(3) == 0)
    a.w_out_stride = 1, a.w_in_stride *= a.out_channels, a.w_strides[0] *= a.out_channels,
    a.w_strides[1] = a.out_channels;
  if (r.below(3) == 0) {  // as the gradient of an image reads it
    if (r.below(2) == 0 && a.w_out_stride > a.w_in_stride)
      a.w_in_stride = a.kernel[0] * a.kernel[1] * a.out_channels, a.w_out_stride = a.kernel[0] * a.kernel[1];
    for (int d = 0; d < 2; ++d) c.w_first += (a.kernel[d] - 1) * a.w_strides[d], a.w_strides[d] = -a.w_strides[d];
  }
  c.x_size = a.batch * a.x_batch_stride, c.y_size = a.batch * a.y_batch_stride;
  c.w_size = a.out_channels * a.in_channels * a.kernel[0] * a.kernel[1];
  return c;
}

double defined(const ConvolutionArgs& a, const float* x, const float* w, int64_t image, int64_t channel, int64_t row,
               int64_t col) {
  double sum = 0;
  for (int64_t u = 0; u < a.kernel[0]; ++u)
    for (int64_t v = 0; v < a.kernel[1]; ++v) {
      const int64_t i = row * a.stride[0] + u * a.rhs_dilation[0] - a.low[0];
      const int64_t j = col * a.stride[1] + v * a.rhs_dilation[1] - a.low[1];
      if (i < 0 || j < 0 || i >= a.in_dims[0] || j >= a.in_dims[1]) continue;
      const int64_t from = image * a.x_batch_stride + i * a.x_strides[0] + j * a.x_strides[1];
      const int64_t tap = channel * a.w_out_stride + u * a.w_strides[0] + v * a.w_strides[1];
      for (int64_t c = 0; c < a.in_channels; ++c)
        sum += static_cast<double>(x[from + c * a.x_channel_stride]) * static_cast<double>(w[tap + c * a.w_in_stride]);
    }
  return sum;
}

/// Requires that y is the convolution of whole numbers with its epilogue.
void check_against_definition(const ConvolutionArgs& a, const float* x, const float* w, const float* y,
                              const ConvolutionEpilogue& epilogue) {
  for (int64_t n = 0; n < a.batch; ++n)
    for (int64_t o = 0; o < a.out_channels; ++o)
      for (int64_t i = 0; i < a.out_dims[0]; ++i)
        for (int64_t j = 0; j < a.out_dims[1]; ++j) {
          const int64_t at = n * a.y_batch_stride + o * a.y_channel_stride + i * a.y_strides[0] + j * a.y_strides[1];
          double want = defined(a, x, w, n, o, i, j);
          if (epilogue.bias) want += static_cast<double>(epilogue.bias[o]);
          if (epilogue.residual) want += static_cast<double>(epilogue.residual[at]);
          if (epilogue.activation == Activation::hard_swish) {
            want *= std::clamp(want / 6 + 0.5, 0.0, 1.0);
            require_close(f32, at, static_cast<double>(y[at]), want);
            continue;
          }
          if (epilogue.activation != Activation::none) want = std::max(want, 0.0);
          if (epilogue.activation == Activation::relu6) want = std::min(want, 6.0);
          REQUIRE(static_cast<double>(y[at]) == want);
        }
}

/// Memory whose last byte is the last one of a page, behind which nothing may be read or written. It begins at a
/// multiple of `alignment` bytes, so that up to that many less one may be left at the end.
class PageEnd {
 public:
  explicit PageEnd(size_t bytes, size_t alignment = sizeof(float)) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (bytes + page - 1) / page * page + page;
    void* const all = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    all_ = static_cast<char*>(all);
    REQUIRE(mprotect(all_ + bytes_ - page, page, PROT_NONE) == 0);
    begin_ = all_ + (bytes_ - page - bytes) / alignment * alignment;
  }
  PageEnd(const PageEnd&) = delete;
  PageEnd& operator=(const PageEnd&) = delete;
  ~PageEnd() { munmap(all_, bytes_); }
  void* data() const { return begin_; }
  float* floats() const { return reinterpret_cast<float*>(begin_); }

 private:
  size_t bytes_;
  char *all_, *begin_;
};

std::vector<float> whole_numbers(Random& r, int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  for (float& v : all) v = static_cast<float>(r.below(5) - 2);
  return all;
}

}  // namespace

TEST_CASE("a convolution by multiply-adds equals its definition, with what follows it, by any number of threads") {
  for_each_target([&] {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      CAPTURE(seed);
      Random r(seed);
      const Case c = random_case(r);
      const ConvolutionArgs& a = c.args;
      const int threads = 1 + static_cast<int>(seed % 3);
      REQUIRE(FmaConvolution::supports(a, 1));
      const std::vector<float> x = whole_numbers(r, c.x_size), w = whole_numbers(r, c.w_size);
      const std::vector<float> bias = whole_numbers(r, a.out_channels), residual = whole_numbers(r, c.y_size);
      std::vector<float> y(static_cast<size_t>(c.y_size), 99);
      ConvolutionEpilogue epilogue;
      if (seed % 2 == 0) epilogue.bias = bias.data();
      if (seed % 5 == 0) epilogue.residual = residual.data();
      const Activation activations[] = {Activation::none, Activation::relu, Activation::relu6, Activation::hard_swish};
      epilogue.activation = activations[seed / 2 % 4];
      FmaConvolution convolution(a, threads);
      Scratch packed(convolution.weights_bytes()), scratch(convolution.scratch_bytes());
      convolution.pack(w.data() + c.w_first, packed.data(), ThreadPool::shared());
      convolution.run(x.data(), packed.data(), y.data(), epilogue, scratch.data(), ThreadPool::shared());
      check_against_definition(a, x.data(), w.data() + c.w_first, y.data(), epilogue);
    }
  });
}

TEST_CASE("outputs that read the same padding are computed together, and nothing behind an array is touched") {
  struct Shape {
    int64_t batch, in_channels, out_channels, in_dims[2], kernel[2], low[2], high[2], stride, dilation;
  };
  const Shape shapes[] = {
      {1, 64, 64, {7, 7}, {3, 3}, {1, 1}, {1, 1}, 1, 1},    {3, 33, 72, {7, 7}, {3, 3}, {1, 1}, {1, 1}, 1, 1},
      {2, 16, 130, {14, 14}, {3, 3}, {1, 1}, {1, 1}, 1, 1}, {1, 90, 48, {14, 13}, {5, 5}, {2, 2}, {2, 2}, 1, 1},
      {2, 24, 33, {13, 15}, {3, 3}, {1, 1}, {1, 1}, 2, 1},  {1, 17, 16, {12, 12}, {3, 3}, {2, 2}, {2, 2}, 1, 2},
      {2, 300, 20, {4, 4}, {3, 3}, {1, 1}, {1, 1}, 1, 1},   {1, 520, 65, {7, 7}, {3, 3}, {1, 1}, {1, 1}, 1, 1},
      {1, 260, 70, {2, 5}, {3, 3}, {2, 1}, {2, 1}, 1, 1},   {1, 260, 40, {1, 7}, {3, 3}, {1, 1}, {1, 1}, 1, 1},
      {1, 8, 96, {1, 1}, {3, 3}, {1, 1}, {1, 1}, 1, 1},     {1, 9, 40, {3, 30}, {1, 40}, {0, 20}, {0, 20}, 1, 1},
      {1, 8, 65, {10, 9}, {9, 9}, {4, 4}, {4, 4}, 1, 1},    {1, 12, 64, {5, 6}, {3, 3}, {4, 5}, {3, 6}, 1, 1},
      {2, 9, 80, {28, 28}, {3, 3}, {1, 1}, {1, 1}, 1, 1},   {4, 40, 64, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1, 1},
      {1, 9, 64, {56, 56}, {3, 3}, {0, 1}, {1, 0}, 2, 1},   {1, 257, 9, {9, 9}, {2, 2}, {1, 1}, {0, 0}, 1, 1},
      {1, 64, 100, {5, 7}, {1, 1}, {0, 0}, {0, 0}, 1, 1},   {1, 48, 64, {20, 20}, {3, 3}, {-1, -2}, {1, 1}, 1, 1},
      {2, 32, 96, {3, 19}, {3, 1}, {1, 0}, {1, 0}, 1, 1},   {1, 8, 80, {2, 9}, {1, 1}, {0, 0}, {0, 0}, 1, 1}};
  for_each_target([&] {
    for (const Shape& shape : shapes)
      for (const bool channels_last : {true, false})
        for (const int threads : {1, 2}) {
          ConvolutionArgs a;
          a.batch = shape.batch, a.in_channels = shape.in_channels, a.out_channels = shape.out_channels;
          for (int d = 0; d < 2; ++d) {
            a.in_dims[d] = shape.in_dims[d], a.kernel[d] = shape.kernel[d], a.low[d] = shape.low[d];
            a.stride[d] = shape.stride, a.rhs_dilation[d] = shape.dilation;
            const int64_t reach = (a.kernel[d] - 1) * a.rhs_dilation[d] + 1;
            a.out_dims[d] = (a.in_dims[d] + shape.low[d] + shape.high[d] - reach) / a.stride[d] + 1;
          }
          CAPTURE(a.in_channels);
          CAPTURE(a.out_channels);
          CAPTURE(a.kernel[1]);
          CAPTURE(a.in_dims[1]);
          CAPTURE(channels_last);
          lay_out(channels_last, a.in_channels, a.in_dims, 0, a.x_batch_stride, a.x_channel_stride, a.x_strides);
          lay_out(channels_last, a.out_channels, a.out_dims, 0, a.y_batch_stride, a.y_channel_stride, a.y_strides);
          a.w_strides[1] = 1, a.w_strides[0] = a.kernel[1], a.w_in_stride = a.kernel[0] * a.kernel[1];
          a.w_out_stride = a.in_channels * a.w_in_stride;
          REQUIRE(FmaConvolution::supports(a, 1));
          const int64_t x_size = a.batch * a.x_batch_stride, y_size = a.batch * a.y_batch_stride;
          const auto bytes = [](int64_t count) { return static_cast<size_t>(count) * sizeof(float); };
          const PageEnd x(bytes(x_size)), y(bytes(y_size)), w(bytes(a.out_channels * a.w_out_stride));
          const PageEnd bias(bytes(a.out_channels)), residual(bytes(y_size));
          Random r(static_cast<uint64_t>(&shape - shapes));
          const auto fill = [&](const PageEnd& to, int64_t count) {
            std::ranges::copy(whole_numbers(r, count), to.floats());
          };
          fill(x, x_size), fill(w, a.out_channels * a.w_out_stride), fill(bias, a.out_channels), fill(residual, y_size);
          std::fill_n(y.floats(), y_size, 99.0F);
          FmaConvolution convolution(a, threads);
          const PageEnd packed(convolution.weights_bytes(), 64), scratch(convolution.scratch_bytes(), 64);
          convolution.pack(w.floats(), packed.data(), ThreadPool::shared());
          ConvolutionEpilogue epilogue;
          epilogue.bias = bias.floats(), epilogue.residual = residual.floats(), epilogue.activation = Activation::relu;
          convolution.run(x.floats(), packed.data(), y.floats(), epilogue, scratch.data(), ThreadPool::shared());
          check_against_definition(a, x.floats(), w.floats(), y.floats(), epilogue);
          // The sums may be written over the residual.
          std::ranges::copy_n(residual.floats(), y_size, y.floats());
          epilogue.residual = y.floats();
          convolution.run(x.floats(), packed.data(), y.floats(), epilogue, scratch.data(), ThreadPool::shared());
          epilogue.residual = residual.floats();
          check_against_definition(a, x.floats(), w.floats(), y.floats(), epilogue);
        }
  });
}

TEST_CASE("results that are larger than caches, at any address, equal their definition") {
  for_each_target([&] {
    ConvolutionArgs a;
    a.batch = 1, a.in_channels = 8, a.out_channels = 80;  // panels of four vectors and of one, or of three and of two
    a.in_dims[1] = a.out_dims[1] = 97, a.kernel[0] = a.kernel[1] = 1;
    a.in_dims[0] = a.out_dims[0] = cache_sizes().l3_bytes / 4 / (97 * 80 * 4) + 1;
    lay_out(true, a.in_channels, a.in_dims, 0, a.x_batch_stride, a.x_channel_stride, a.x_strides);
    lay_out(true, a.out_channels, a.out_dims, 0, a.y_batch_stride, a.y_channel_stride, a.y_strides);
    a.w_strides[0] = a.w_strides[1] = 1, a.w_in_stride = 1, a.w_out_stride = a.in_channels;
    Random r(3);
    const std::vector<float> x = whole_numbers(r, a.x_batch_stride);
    const std::vector<float> w = whole_numbers(r, a.out_channels * a.w_out_stride);
    const std::vector<float> residual = whole_numbers(r, a.y_batch_stride);
    std::vector<float> want(residual);
    for (int64_t p = 0; p < a.out_dims[0] * a.out_dims[1]; ++p)
      for (int64_t o = 0; o < a.out_channels; ++o)
        for (int64_t c = 0; c < a.in_channels; ++c)  // whole numbers: exact in any order
          want[static_cast<size_t>(p * a.out_channels + o)] +=
              x[static_cast<size_t>(p * a.in_channels + c)] * w[static_cast<size_t>(o * a.w_out_stride + c)];
    std::vector<float> memory(want.size() + 32);
    const auto address = reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % 16;
    for (const size_t offset : {size_t{0}, size_t{4}})  // of y from the beginning of a cache line, in floats
      for (const int threads : {1, 2}) {
        CAPTURE(offset);
        CAPTURE(threads);
        float* const y = memory.data() + (16 - address) % 16 + offset;
        FmaConvolution convolution(a, threads);
        Scratch packed(convolution.weights_bytes()), scratch(convolution.scratch_bytes());
        convolution.pack(w.data(), packed.data(), ThreadPool::shared());
        ConvolutionEpilogue epilogue;
        epilogue.residual = residual.data();
        std::fill(memory.begin(), memory.end(), 99.0F);
        convolution.run(x.data(), packed.data(), y, epilogue, scratch.data(), ThreadPool::shared());
        CHECK(std::equal(want.begin(), want.end(), y));
        CHECK(y[want.size()] == 99.0F);
      }
  });
}

TEST_CASE("a weight that is not finite gives NaN beside padding, by any number of threads and in any batch") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for_each_target([&] {
    // Of 300 channels each tap is summed for the outputs that need it, if they are few.
    for (const auto& [width, channels] : {std::pair<int64_t, int64_t>{5, 9}, {14, 9}, {5, 300}, {9, 300}})
      for (const float weight : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        CAPTURE(weight);
        ConvolutionArgs a;
        a.batch = 3, a.in_channels = channels, a.out_channels = 72;
        for (int d = 0; d < 2; ++d) a.in_dims[d] = a.out_dims[d] = width, a.kernel[d] = 3, a.low[d] = 1;
        lay_out(true, a.in_channels, a.in_dims, 0, a.x_batch_stride, a.x_channel_stride, a.x_strides);
        lay_out(true, a.out_channels, a.out_dims, 0, a.y_batch_stride, a.y_channel_stride, a.y_strides);
        a.w_strides[1] = 1, a.w_strides[0] = 3, a.w_in_stride = 9, a.w_out_stride = 9 * a.in_channels;
        Random r(7);
        const std::vector<float> x = whole_numbers(r, a.batch * a.x_batch_stride);
        std::vector<float> w = whole_numbers(r, a.out_channels * a.w_out_stride);
        constexpr int64_t kChannel = 70;  // of the last panel, the tap in the kernel's first row and second column
        w[static_cast<size_t>(kChannel * a.w_out_stride + 1)] = weight;
        for (const int threads : {1, 2, 7})
          for (const int64_t images : {int64_t{1}, a.batch}) {
            ConvolutionArgs some = a;
            some.batch = images;
            std::vector<float> y(static_cast<size_t>(images * a.y_batch_stride));
            FmaConvolution convolution(some, threads);
            Scratch packed(convolution.weights_bytes()), scratch(convolution.scratch_bytes());
            convolution.pack(w.data(), packed.data(), ThreadPool::shared());
            convolution.run(x.data(), packed.data(), y.data(), {}, scratch.data(), ThreadPool::shared());
            // IEEE 754: 0 * inf is NaN, so the first row, whose tap reads a zero of the padding, is NaN.
            for (int64_t n = 0; n < images; ++n)
              for (int64_t i = 0; i < width; ++i)
                for (int64_t j = 0; j < width; ++j)
                  for (int64_t o = 0; o < a.out_channels; ++o) {
                    const float got =
                        y[static_cast<size_t>(n * a.y_batch_stride + (i * width + j) * a.out_channels + o)];
                    const double want = defined(a, x.data(), w.data(), n, o, i, j);
                    if (o == kChannel && (i == 0 || std::isnan(want))) REQUIRE(std::isnan(got));
                    else REQUIRE(static_cast<double>(got) == want);
                  }
          }
      }
  });
}

TEST_CASE("what multiply-adds have no kernel for is refused") {
  Random r(1);
  ConvolutionArgs a = random_case(r).args;
  a.kernel[0] = a.kernel[1] = 3;
  CHECK(FmaConvolution::supports(a, 1));
  CHECK(!FmaConvolution::supports(a, 2));
  const auto refused = [&](auto change) {
    ConvolutionArgs b = a;
    change(b);
    return !FmaConvolution::supports(b, 1);
  };
  CHECK(refused([](ConvolutionArgs& b) { b.dtype = bf16; }));
  CHECK(refused([](ConvolutionArgs& b) { b.spatial = 3; }));
  CHECK(refused([](ConvolutionArgs& b) { b.groups = 2; }));
  CHECK(refused([](ConvolutionArgs& b) { b.batch = 0; }));
  CHECK(refused([](ConvolutionArgs& b) { b.in_channels = 3; }));
  CHECK(refused([](ConvolutionArgs& b) { b.out_channels = 7; }));
  CHECK(refused([](ConvolutionArgs& b) { b.out_dims[1] = 0; }));
  CHECK(refused([](ConvolutionArgs& b) { b.lhs_dilation[0] = 2; }));
  CHECK(refused([](ConvolutionArgs& b) { b.low[0] = int64_t{1} << 40; }));
  CHECK(refused([](ConvolutionArgs& b) { b.rhs_dilation[1] = int64_t{1} << 40; }));
  CHECK(refused([](ConvolutionArgs& b) { b.stride[0] = int64_t{1} << 40; }));
  CHECK(refused([](ConvolutionArgs& b) { b.x_channel_stride = 2, b.x_strides[1] = 5; }));
  CHECK(refused([](ConvolutionArgs& b) { b.y_channel_stride = 2, b.y_strides[1] = 5; }));
}
