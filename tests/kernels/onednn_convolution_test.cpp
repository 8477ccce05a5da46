// Convolutions by oneDNN against their definition: forward ones, and gradients of inputs, of weights and of a
// transposed convolution's weights, as ConvolutionArgs describes them. Operands are whole numbers, so that sums are
// exact in any order.
#include "kernels/conv/onednn_convolution.h"

#include "kernels/kernel_test.h"
#include "kernels/threads/thread_pool.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

#if RLX_HAS_ONEDNN
namespace {

/// One output by the definition. `w` points to the first tap; its strides may be negative.
float defined(const ConvolutionArgs& a, const float* x, const float* w, int64_t image, int64_t channel,
              const int64_t* output) {
  int64_t taps = 1;
  for (int d = 0; d < a.spatial; ++d) taps *= a.kernel[d];
  const int64_t read = a.in_channels / a.groups, group = channel / (a.out_channels / a.groups);
  double sum = 0;
  for (int64_t t = 0; t < taps; ++t) {
    int64_t from = 0, weight = 0, rest = t;
    bool inside = true;
    for (int d = a.spatial - 1; d >= 0; --d) {
      const int64_t tap = rest % a.kernel[d], at = output[d] * a.stride[d] + tap * a.rhs_dilation[d] - a.low[d];
      rest /= a.kernel[d];
      inside = inside && at >= 0 && at % a.lhs_dilation[d] == 0 && at / a.lhs_dilation[d] < a.in_dims[d];
      from += at / a.lhs_dilation[d] * a.x_strides[d], weight += tap * a.w_strides[d];
    }
    if (!inside) continue;
    for (int64_t c = 0; c < read; ++c)
      sum += static_cast<double>(x[image * a.x_batch_stride + (group * read + c) * a.x_channel_stride + from]) *
             static_cast<double>(w[channel * a.w_out_stride + c * a.w_in_stride + weight]);
  }
  return static_cast<float>(sum);
}

std::vector<float> whole_numbers(Random& r, int64_t count) {
  std::vector<float> v(static_cast<size_t>(count));
  for (float& f : v) f = static_cast<float>(r.below(5) - 2);
  return v;
}

enum class Meaning { forward, input, weights, transposed_weights };

/// The arguments of a random convolution, or of a gradient of one; also sets the number of groups of the batch.
ConvolutionArgs random_args(Random& r, Meaning kind, int64_t& batch_groups) {
  ConvolutionArgs a;
  a.spatial = 1 + static_cast<int>(r.below(3));
  const bool depthwise = r.below(4) == 0;
  const int64_t groups = depthwise ? 3 + r.below(30) : 1 + r.below(2), images = 1 + r.below(3);
  const int64_t many = r.below(3) == 0 ? 90 : 20;  // with many channels sums are divided
  const int64_t in = groups * (depthwise ? 1 : 1 + r.below(many)), out = groups * (depthwise ? 1 : 1 + r.below(20));
  int64_t image[kMaxSpatial], taps[kMaxSpatial], made[kMaxSpatial], stride[kMaxSpatial], dilation[kMaxSpatial],
      low[kMaxSpatial];
  for (int d = 0; d < a.spatial; ++d) {
    taps[d] = 1 + r.below(4), stride[d] = 1 + r.below(3), dilation[d] = 1 + (r.below(3) == 0);
    if (kind == Meaning::transposed_weights) dilation[d] = 1;
    const int64_t reach = (taps[d] - 1) * dilation[d] + 1;
    low[d] = std::min<int64_t>(reach - 1, r.below(3));
    made[d] = 1 + r.below(d == 0 ? 12 : 6);
    image[d] = (made[d] - 1) * stride[d] + reach - low[d] - r.below(std::min(stride[d] + low[d], reach));
    image[d] = std::max<int64_t>(image[d], 1);
  }
  int64_t x_area = 1, w_area = 1, y_area = 1;
  const auto spatial = [&](int64_t* strides, const int64_t* dims, int64_t& area) {
    for (int d = a.spatial - 1; d >= 0; --d) strides[d] = area, area *= dims[d];
  };
  for (int d = 0; d < a.spatial; ++d) {
    switch (kind) {
      case Meaning::forward:
        a.in_dims[d] = image[d], a.kernel[d] = taps[d], a.out_dims[d] = made[d];
        a.stride[d] = stride[d], a.rhs_dilation[d] = dilation[d], a.low[d] = low[d];
        break;
      case Meaning::input:
        a.in_dims[d] = made[d], a.kernel[d] = taps[d], a.out_dims[d] = image[d];
        a.lhs_dilation[d] = stride[d], a.rhs_dilation[d] = dilation[d], a.low[d] = (taps[d] - 1) * dilation[d] - low[d];
        break;
      case Meaning::weights:
        a.in_dims[d] = image[d], a.kernel[d] = made[d], a.out_dims[d] = taps[d];
        a.rhs_dilation[d] = stride[d], a.stride[d] = dilation[d], a.low[d] = low[d];
        break;
      case Meaning::transposed_weights:  // a dilated x, and the larger image as kernel
        a.in_dims[d] = made[d], a.kernel[d] = image[d], a.out_dims[d] = taps[d];
        a.lhs_dilation[d] = stride[d], a.low[d] = taps[d] - 1 - low[d];
        break;
    }
  }
  spatial(a.x_strides, a.in_dims, x_area), spatial(a.w_strides, a.kernel, w_area);
  spatial(a.y_strides, a.out_dims, y_area);
  batch_groups = 1;
  if (kind == Meaning::forward || kind == Meaning::input) {
    a.batch = images, a.groups = groups, a.in_channels = in, a.out_channels = out;
    a.x_batch_stride = in * x_area, a.x_channel_stride = x_area;
    a.w_out_stride = in / groups * w_area, a.w_in_stride = w_area;
    a.y_batch_stride = out * y_area, a.y_channel_stride = y_area;
    if (kind == Meaning::input && r.below(2) == 0)  // channels exchanged
      a.w_out_stride = w_area, a.w_in_stride = out / groups * w_area;
    if (kind == Meaning::input && groups > 1) a.w_out_stride = in / groups * w_area, a.w_in_stride = w_area;
  } else {
    batch_groups = groups, a.batch = in / groups, a.in_channels = images, a.out_channels = out;
    a.x_batch_stride = x_area, a.x_channel_stride = in * x_area;
    a.w_out_stride = w_area, a.w_in_stride = out * w_area;
    a.y_batch_stride = y_area, a.y_channel_stride = a.batch * y_area;
  }
  return a;
}

}  // namespace

TEST_CASE("oneDNN's convolutions equal their definition as values and as gradients, for any number of threads") {
  int offered = 0, packed = 0, divided = 0;
  constexpr uint64_t kSeeds = 240;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Random r(seed);
    int64_t batch_groups = 1;
    const auto kind = static_cast<Meaning>(seed % 4);
    ConvolutionArgs a = random_args(r, kind, batch_groups);
    int64_t x_size = a.batch * batch_groups * a.in_channels, w_size = a.out_channels * a.in_channels / a.groups,
            y_size = a.batch * a.out_channels, y_area = 1;
    for (int d = 0; d < a.spatial; ++d) x_size *= a.in_dims[d], w_size *= a.kernel[d], y_area *= a.out_dims[d];
    y_size *= y_area;
    const auto x = whole_numbers(r, x_size), w = whole_numbers(r, w_size);
    const float* first_tap = w.data();
    if (seed % 3 == 0 && (kind == Meaning::forward || kind == Meaning::input))  // a reversed kernel
      for (int d = 0; d < a.spatial; ++d)
        first_tap += (a.kernel[d] - 1) * a.w_strides[d], a.w_strides[d] = -a.w_strides[d];
    const int threads = 1 + static_cast<int>(seed % 5);
    CAPTURE(seed);
    // Every other seed packs the weights in advance: the run then gets none.
    const bool packs = seed / 4 % 2 == 1;
    const auto weights = packs ? convolution_weights(first_tap) : nullptr;
    const auto plan = plan_convolution(a, batch_groups, threads, weights);
    if (!plan) continue;
    ++offered;
    divided += plan->name().find("partial sums") != std::string::npos;
    CAPTURE(plan->name());
    std::vector<float> y(static_cast<size_t>(y_size), 99.0f);
    Scratch scratch(plan->scratch_bytes());
    for (int again = 0; again < 2; ++again)
      plan->run(x.data(), plan->reads_weights() ? first_tap : nullptr, y.data(), {}, scratch.data(),
                ThreadPool::shared());
    if (!plan->reads_weights()) {
      ++packed;
      const size_t once = weights->bytes();
      CHECK(once > 0);
      plan_convolution(a, batch_groups, threads, weights);
      CHECK(weights->bytes() == once);  // the second plan finds them
    }
    const int64_t made = a.out_channels / batch_groups;
    for (int64_t i = 0; i < y_size; ++i) {
      const int64_t channel = i / y_area % a.out_channels, image = i / y_area / a.out_channels;
      int64_t output[kMaxSpatial]{}, rest = i % y_area, to = image * a.y_batch_stride + channel * a.y_channel_stride;
      for (int d = a.spatial - 1; d >= 0; --d) {
        output[d] = rest % a.out_dims[d], rest /= a.out_dims[d];
        to += output[d] * a.y_strides[d];
      }
      const float want =
          defined(a, x.data(), first_tap, channel / made * a.batch * (batch_groups > 1) + image, channel, output);
      REQUIRE(y[static_cast<size_t>(to)] == want);
    }
  }
  CHECK(offered > static_cast<int>(kSeeds) * 9 / 10);
  CHECK(packed > static_cast<int>(kSeeds) / 8);
  CHECK(divided > static_cast<int>(kSeeds) / 20);
}
#else
TEST_CASE("without oneDNN no convolution is planned for it") {
  CHECK(plan_convolution(ConvolutionArgs{}, 1, 1) == nullptr);
}
#endif

TEST_CASE("oneDNN is asked for convolutions of f32 alone") {
  ConvolutionArgs a;
  a.dtype = a.out_dtype = f64;
  CHECK(plan_convolution(a, 1, 1) == nullptr);
}
