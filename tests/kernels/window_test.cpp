// reduce_window and convolution against their definitions, index by index.
#include "kernels/reduce/window.h"

#include "kernels/conv/direct.h"
#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Outputs of a window of `window` taps over `extent` elements.
int64_t output_extent(int64_t extent, int64_t window, int64_t stride, int64_t low, int64_t high, int64_t base_dilation,
                      int64_t dilation) {
  const int64_t spread = extent > 0 ? (extent - 1) * base_dilation + 1 : 0, reach = (window - 1) * dilation + 1;
  const int64_t room = low + spread + high - reach;
  return room < 0 ? 0 : room / stride + 1;
}
/// The element that output o sees through tap t, or -1.
int64_t seen(int64_t extent, int64_t o, int64_t t, int64_t stride, int64_t low, int64_t base_dilation,
             int64_t dilation) {
  const int64_t p = o * stride + t * dilation - low;
  return p < 0 || p % base_dilation != 0 || p / base_dilation >= extent ? -1 : p / base_dilation;
}

}  // namespace

TEST_CASE("reduce_window equals its definition in any rank, with strides, padding and both dilations") {
  std::vector<DType> types = integer_dtypes();
  for (DType t : {f32, f16, bf16, f64, f8e4m3fn}) types.push_back(t);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Random r(seed);
    ReduceWindowArgs a;
    a.dtype = types[seed % types.size()];
    a.rank = static_cast<int>(r.below(5));
    int64_t x_size = 1, y_size = 1, taps = 1;
    for (int d = a.rank - 1; d >= 0; --d) {
      a.x_dims[d] = 1 + r.below(d == a.rank - 1 ? 40 : 6), a.window[d] = 1 + r.below(3), a.stride[d] = 1 + r.below(3);
      a.base_dilation[d] = 1 + (r.below(4) == 0), a.window_dilation[d] = 1 + (r.below(3) == 0);
      a.low[d] = r.below(4) - 1;
      a.out_dims[d] = output_extent(a.x_dims[d], a.window[d], a.stride[d], a.low[d], r.below(3), a.base_dilation[d],
                                    a.window_dilation[d]);
      a.x_strides[d] = x_size;
      x_size *= a.x_dims[d] + r.below(2), y_size *= a.out_dims[d], taps *= a.window[d];
    }
    Elements x(a.dtype, x_size), y(a.dtype, y_size), one(a.dtype, 1);
    for (int64_t i = 0; i < x_size; ++i)
      x.set(i, static_cast<double>(r.below(5) - (kind_of(a.dtype) == Kind::unsigned_int ? 0 : 2)));
    a.x = x.data(), a.y = y.data();
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) {
      a.op = op;
      const int64_t middle = r.below(y_size + 1);
      reduce_window(a, 0, middle);
      reduce_window(a, middle, y_size);
      for (int64_t k = 0; k < y_size; ++k) {
        double want = op == ReduceOp::sum ? 0 : op == ReduceOp::prod ? 1 : op == ReduceOp::max ? -kInfinity : kInfinity;
        for (int64_t t = 0; t < taps; ++t) {
          int64_t at = 0, output = k, tap = t;
          bool inside = true;
          for (int d = a.rank - 1; d >= 0; --d) {
            const int64_t i = seen(a.x_dims[d], output % a.out_dims[d], tap % a.window[d], a.stride[d], a.low[d],
                                   a.base_dilation[d], a.window_dilation[d]);
            inside = inside && i >= 0;
            at += i * a.x_strides[d], output /= a.out_dims[d], tap /= a.window[d];
          }
          if (!inside) continue;
          const double v = x[at];
          want = op == ReduceOp::sum    ? want + v
                 : op == ReduceOp::prod ? want * v
                 : op == ReduceOp::max  ? std::max(want, v)
                                        : std::min(want, v);
        }
        CAPTURE(seed);
        if (is_integer(a.dtype)) {
          if (std::isinf(want)) continue;  // a window of padding alone: the lowest or highest integer
          const auto bits = static_cast<uint64_t>(static_cast<int64_t>(want));
          std::memcpy(one.data(), &bits, byte_size(a.dtype));  // wraps
          REQUIRE(y[k] == one[0]);
        } else if (!(a.dtype == f8e4m3fn && std::isinf(want))) {
          one.set(0, want);
          REQUIRE((y[k] == one[0]));
        }
      }
    }
  }
}

TEST_CASE("a window of padding alone gives the lowest integer for max, and the mean divides once") {
  const int8_t x[] = {5, -3};
  int8_t y[4];
  ReduceWindowArgs a;
  a.op = ReduceOp::max, a.dtype = i8, a.x = x, a.y = y, a.rank = 1;
  a.x_dims[0] = 2, a.x_strides[0] = 1, a.out_dims[0] = 4, a.window[0] = a.stride[0] = 1, a.low[0] = 1;
  a.base_dilation[0] = a.window_dilation[0] = 1;
  reduce_window(a, 0, 4);
  CHECK((y[0] == -128 && y[1] == 5 && y[2] == -3 && y[3] == -128));
  const Elements ones = Elements::filled(f16, 4, 1);
  Elements mean(f16, 2);
  a.op = ReduceOp::sum, a.dtype = f16, a.x = ones.data(), a.y = mean.data(), a.x_dims[0] = 4, a.out_dims[0] = 2;
  a.window[0] = 3, a.stride[0] = 1, a.low[0] = 0, a.scale = 1.0 / 3;
  reduce_window(a, 0, 2);
  CHECK((mean[0] == 1 && mean[1] == 1));
}

TEST_CASE("convolution equals its definition for 1 to 4 dims, groups, strides, dilations and layouts") {
  std::vector<std::vector<double>> judged(250);  // by seed: the same for every instruction set
  for_each_target([&] {
    const DType types[] = {f32, f32, f64, f16, bf16, i8, i32, u64};
    for (uint64_t seed = 0; seed < judged.size(); ++seed) {
      Random r(seed);
      ConvolutionArgs a;
      a.dtype = types[seed % 8];
      a.out_dtype = a.dtype == i8 ? i32 : a.dtype == bf16 ? f32 : a.dtype;
      a.spatial = 1 + static_cast<int>(r.below(4));
      a.batch = 1 + r.below(2), a.groups = 1 + r.below(3);
      a.in_channels = a.groups * (1 + r.below(3)), a.out_channels = a.groups * (1 + r.below(6));
      const bool simple = r.below(2) == 0;  // takes the fast path more often
      int64_t x_area = 1, w_area = 1, y_area = 1;
      for (int d = 0; d < a.spatial; ++d) {
        a.in_dims[d] = 1 + r.below(d == a.spatial - 1 ? 90 : 7), a.kernel[d] = 1 + r.below(4);
        a.stride[d] = simple ? 1 : 1 + r.below(3), a.low[d] = r.below(4) - (simple ? 0 : 1);
        a.lhs_dilation[d] = simple ? 1 : 1 + (r.below(4) == 0), a.rhs_dilation[d] = 1 + (r.below(3) == 0);
        a.out_dims[d] = output_extent(a.in_dims[d], a.kernel[d], a.stride[d], a.low[d], r.below(3), a.lhs_dilation[d],
                                      a.rhs_dilation[d]);
        x_area *= a.in_dims[d], w_area *= a.kernel[d], y_area *= a.out_dims[d];
      }
      // Channels before the spatial dims, or behind them.
      const bool channels_last = !simple && r.below(2) == 0;
      const int64_t group_in = a.in_channels / a.groups;
      int64_t xs = channels_last ? a.in_channels : 1, ws = 1, ys = channels_last ? a.out_channels : 1;
      for (int d = a.spatial - 1; d >= 0; --d) {
        a.x_strides[d] = xs, a.w_strides[d] = ws, a.y_strides[d] = ys;
        xs *= a.in_dims[d], ws *= a.kernel[d], ys *= a.out_dims[d];
      }
      a.x_channel_stride = channels_last ? 1 : x_area, a.x_batch_stride = x_area * a.in_channels;
      a.y_channel_stride = channels_last ? 1 : y_area, a.y_batch_stride = y_area * a.out_channels;
      a.w_in_stride = w_area, a.w_out_stride = w_area * group_in;
      Elements x(a.dtype, a.batch * a.x_batch_stride), w(a.dtype, a.out_channels * a.w_out_stride);
      const bool is_unsigned = kind_of(a.dtype) == Kind::unsigned_int;
      for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(r.below(7) - (is_unsigned ? 0 : 3)));
      for (int64_t i = 0; i < w.size(); ++i) w.set(i, static_cast<double>(r.below(5) - (is_unsigned ? 0 : 2)));
      Elements y(a.out_dtype, a.batch * a.y_batch_stride);
      a.x = x.data(), a.w = w.data(), a.y = y.data();
      Scratch scratch(convolution_scratch_bytes(a));
      const int64_t tasks = a.batch * a.out_channels * a.out_dims[0];
      for (int64_t begin = 0; begin < tasks;) {
        const int64_t end = std::min(tasks, begin + 1 + r.below(tasks));
        convolution(a, begin, end, scratch.data());
        begin = end;
      }
      const std::vector<double> x_values = x.values(), w_values = w.values();
      std::vector<double>& wanted = judged[seed];
      const bool judge = wanted.empty();
      for (int64_t k = 0; k < a.batch * a.out_channels * y_area; ++k) {
        const int64_t n = k / y_area / a.out_channels, o = k / y_area % a.out_channels;
        int64_t to = n * a.y_batch_stride + o * a.y_channel_stride;
        for (int64_t d = a.spatial - 1, output = k % y_area; d >= 0; output /= a.out_dims[d--])
          to += output % a.out_dims[d] * a.y_strides[d];
        double want = 0;
        for (int64_t t = 0; judge && t < w_area; ++t) {
          int64_t output = k % y_area, tap = t;
          int64_t from = n * a.x_batch_stride + o / (a.out_channels / a.groups) * group_in * a.x_channel_stride;
          int64_t weight = o * a.w_out_stride;
          bool inside = true;
          for (int d = a.spatial - 1; d >= 0; --d) {
            const int64_t at = output % a.out_dims[d], s = tap % a.kernel[d];
            const int64_t i = seen(a.in_dims[d], at, s, a.stride[d], a.low[d], a.lhs_dilation[d], a.rhs_dilation[d]);
            inside = inside && i >= 0;
            from += i * a.x_strides[d];
            weight += s * a.w_strides[d];
            output /= a.out_dims[d], tap /= a.kernel[d];
          }
          for (int64_t c = 0; inside && c < group_in; ++c)
            want += x_values[static_cast<size_t>(from + c * a.x_channel_stride)] *
                    w_values[static_cast<size_t>(weight + c * a.w_in_stride)];
        }
        if (judge) wanted.push_back(want);
        CAPTURE(seed);
        REQUIRE(is_close(is_float(a.out_dtype) ? a.out_dtype : f64, y[to], wanted[static_cast<size_t>(k)], 0));
      }
    }
  });
}

TEST_CASE("integer convolution wraps in its output dtype") {
  const int8_t x[] = {100, 100}, w[] = {2, 2};
  int8_t narrow[1];
  int32_t wide[1];
  ConvolutionArgs a;
  a.dtype = i8, a.out_dtype = i8, a.x = x, a.w = w, a.y = narrow, a.spatial = 1;
  a.in_dims[0] = a.kernel[0] = 2, a.x_strides[0] = a.w_strides[0] = a.y_strides[0] = 1;
  Scratch scratch(convolution_scratch_bytes(a));
  convolution(a, 0, 1, scratch.data());
  CHECK(narrow[0] == static_cast<int8_t>(400 - 256 - 256));
  a.out_dtype = i32, a.y = wide;
  convolution(a, 0, 1, scratch.data());
  CHECK(wide[0] == 400);
}

TEST_CASE("of zeros of 16 bits pools of channels find the same one in every channel, however they are divided") {
  for (const DType dtype : {bf16, f16})
    for (const bool is_max : {true, false}) {
      constexpr int64_t kChannels = 75;
      ReduceWindowArgs a;
      a.op = is_max ? ReduceOp::max : ReduceOp::min, a.dtype = dtype, a.rank = 2;
      a.x_dims[0] = a.window[0] = 3, a.out_dims[0] = 1, a.x_strides[0] = kChannels;
      a.x_dims[1] = a.out_dims[1] = kChannels, a.x_strides[1] = a.window[1] = 1;
      for (int d = 0; d < 2; ++d) a.stride[d] = a.base_dilation[d] = a.window_dilation[d] = 1, a.low[d] = 0;
      Elements x = Elements::filled(dtype, 3 * kChannels, -0.0), y(dtype, kChannels);
      for (int64_t c = 0; c < kChannels; ++c) x.set((is_max ? 0 : 1) * kChannels + c, 0.0);
      a.x = x.data(), a.y = y.data();
      for_each_target([&] {
        for (int64_t at = 0; at < kChannels; at += 16) reduce_window(a, at, std::min(kChannels, at + 16));
        for (int64_t c = 0; c < kChannels; ++c) {
          CHECK(y[c] == 0);
          CHECK(std::signbit(y[c]) == !is_max);
        }
      });
    }
}

TEST_CASE("pools of pixels with contiguous channels find the largest and the smallest, NaN before all") {
  for (const DType dtype : {f32, bf16, f16})
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min})
      for (const int64_t channels : {1, 5, 16, 37}) {
        ReduceWindowArgs a;
        a.op = op, a.dtype = dtype, a.rank = 4;
        const int64_t dims[] = {2, 7, 6, channels}, out[] = {2, 4, 4, channels};
        const int64_t window[] = {1, 3, 2, 1}, stride[] = {1, 2, 2, 1}, low[] = {0, 1, 1, 0};
        int64_t step = 1;
        for (int d = 3; d >= 0; --d) {
          a.x_dims[d] = dims[d], a.out_dims[d] = out[d], a.x_strides[d] = step, a.window[d] = window[d];
          a.stride[d] = stride[d], a.low[d] = low[d], a.base_dilation[d] = a.window_dilation[d] = 1;
          step *= dims[d];
        }
        Elements x = Elements::random(dtype, step, 3), y(dtype, 2 * 4 * 4 * channels);
        x.set(step / 3, NAN), x.set(step / 2, op == ReduceOp::max ? INFINITY : -INFINITY);
        a.x = x.data(), a.y = y.data();
        for_each_target([&] {
          const int64_t middle = y.size() / 2 - 3;  // within a pixel
          reduce_window(a, 0, middle), reduce_window(a, middle, y.size());
          for (int64_t i = 0; i < y.size(); ++i) {
            const int64_t c = i % channels, col = i / channels % 4, row = i / channels / 4 % 4, n = i / channels / 16;
            double wanted = op == ReduceOp::max ? -INFINITY : INFINITY;
            for (int64_t r = 2 * row - 1; r < 2 * row + 2; ++r)
              for (int64_t k = 2 * col - 1; k < 2 * col + 1; ++k) {
                if (r < 0 || r > 6 || k < 0 || k > 5) continue;
                const double v = x[((n * 7 + r) * 6 + k) * channels + c];
                const bool is_kept = std::isnan(wanted) || (op == ReduceOp::max ? wanted > v : wanted < v);
                wanted = is_kept ? wanted : v;
              }
            if (std::isnan(wanted)) CHECK(std::isnan(y[i]));
            else CHECK(y[i] == wanted);
          }
        });
      }
}
