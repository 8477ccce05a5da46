// Convolutions of one and of two spatial dims. A row of the rows' distribution is the channels of a pixel, a column of
// the weights' distribution is one filter. With one-hot rows all pixels are 0 but those of a lattice, as far apart as
// the filter is wide, so that each patch has one number that is not 0 as well.
//
// OpenBLAS multiplies the matrix of patches (im2col), oneDNN convolves itself.
#include <algorithm>

#include "bench/product_accuracy/products.h"
#include "kernels/conv/onednn.h"

#if RLX_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace rlx::accuracy {
namespace {

struct ConvolutionSize {
  int64_t channels = 1, filters = 1, groups = 1;
  int64_t height = 1, width = 1, kernel_height = 1, kernel_width = 1;  ///< heights are 1 of one spatial dim
  int64_t stride = 1, padding = 0, dilation = 1, batch = 1;
  bool is_flat = false;  ///< one spatial dim

  int64_t reach(int64_t kernel) const { return (kernel - 1) * dilation + 1; }
  int64_t made_height() const { return is_flat ? 1 : (height + 2 * padding - reach(kernel_height)) / stride + 1; }
  int64_t made_width() const { return (width + 2 * padding - reach(kernel_width)) / stride + 1; }
  int64_t taps() const { return channels / groups * kernel_height * kernel_width; }
  int64_t places() const { return made_height() * made_width(); }
  int64_t pixels() const { return height * width; }

  std::string text() const {
    std::string image = is_flat ? text_of(width) : text_of(height, 'x', width);
    std::string kernel = is_flat ? text_of(kernel_width) : text_of(kernel_height, 'x', kernel_width);
    return text_of(batch, 'x', channels, 'x', image, " by ", filters, " of ", kernel,
                   groups > 1 ? text_of(" in ", groups, " groups") : "", stride > 1 ? text_of(" stride ", stride) : "",
                   padding > 0 ? text_of(" padding ", padding) : "",
                   dilation > 1 ? text_of(" dilation ", dilation) : "");
  }
};

struct ConvolutionCase final : Case {
  ConvolutionSize size;

  ConvolutionCase(const ConvolutionSize& s, const Filling& filling, Random& random) : size(s) {
    Matrix x(s.batch * s.pixels(), s.channels), w(s.taps(), s.filters);
    filling.rows(x, random), filling.weights(w, random);
    if (filling.one_hot) keep_lattice(x);
    terms = s.taps(), is_exact = filling.one_hot;
    std::vector<float> images;
    for (int64_t b = 0; b < s.batch; ++b) {
      Matrix pixels(s.pixels(), s.channels);
      std::copy_n(x.values.data() + b * s.pixels() * s.channels, pixels.values.size(), pixels.values.data());
      const std::vector<float> image = transposed(pixels);
      images.insert(images.end(), image.begin(), image.end());
    }
    operands = {{"x", {s.batch, s.channels, s.height, s.width}, std::move(images)},
                {"w", {s.filters, s.channels / s.groups, s.kernel_height, s.kernel_width}, transposed(w), true}};
    if (s.is_flat)
      for (Operand& o : operands) o.dims.erase(o.dims.begin() + 2);
    const auto in_f64 = [](auto a, auto b, const ProductSize& p) { return product(a, b, p); };
    const std::vector<double> left = widened(operands[0].values), right = widened(operands[1].values);
    exact = by_patches<double>(left, right, in_f64);
    set_units(unit, by_patches<double>(magnitudes(left), magnitudes(right), in_f64));
  }

  std::vector<Value> build(const std::vector<Value>& v) const override {
    const size_t spatial = size.is_flat ? 1 : 2;
    return {conv(v[0], v[1],
                 {Axes(spatial, size.stride), Axes(spatial, size.padding), Axes(spatial, size.dilation), size.groups})};
  }

  std::vector<float> by_peer(Peer peer) const override {
    if (peer == Peer::onednn) return by_onednn_itself();
    return by_patches<float>(operands[0].values, operands[1].values,
                             [](auto a, auto b, const ProductSize& p) { return product(Peer::openblas, a, b, p); });
  }

 private:
  void keep_lattice(Matrix& x) const {
    for (int64_t row = 0; row < x.rows; ++row) {
      const int64_t pixel = row % size.pixels(), i = pixel / size.width, j = pixel % size.width;
      if (i % size.reach(size.kernel_height) == 0 && j % size.reach(size.kernel_width) == 0) continue;
      for (int64_t c = 0; c < x.cols; ++c) x.at(row, c) = 0;
    }
  }

  /// Of one group of an image: [taps, places].
  template <class T>
  std::vector<T> patches(const T* channels) const {
    const ConvolutionSize& s = size;
    std::vector<T> all(static_cast<size_t>(s.taps() * s.places()));
    size_t at = 0;
    for (int64_t c = 0; c < s.channels / s.groups; ++c)
      for (int64_t tap = 0; tap < s.kernel_height * s.kernel_width; ++tap)
        for (int64_t place = 0; place < s.places(); ++place, ++at) {
          const int64_t top = s.is_flat ? 0 : place / s.made_width() * s.stride - s.padding;
          const int64_t i = top + tap / s.kernel_width * s.dilation;
          const int64_t j = place % s.made_width() * s.stride - s.padding + tap % s.kernel_width * s.dilation;
          if (i >= 0 && i < s.height && j >= 0 && j < s.width) all[at] = channels[(c * s.height + i) * s.width + j];
        }
    return all;
  }

  template <class T, class Multiply>
  std::vector<T> by_patches(const std::vector<T>& x, const std::vector<T>& w, Multiply multiply) const {
    const ConvolutionSize& s = size;
    const int64_t read = s.channels / s.groups, made = s.filters / s.groups;
    std::vector<T> y;
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t g = 0; g < s.groups; ++g) {
        const std::vector<T> right = patches(x.data() + (b * s.channels + g * read) * s.pixels());
        const std::span<const T> left(w.data() + g * made * s.taps(), static_cast<size_t>(made * s.taps()));
        const std::vector<T> part = multiply(left, std::span<const T>(right), ProductSize{made, s.taps(), s.places()});
        y.insert(y.end(), part.begin(), part.end());
      }
    return y;
  }

  /// oneDNN's own sums, which RLX divides (kernels/conv/onednn_convolution.cpp).
  std::vector<float> by_onednn_itself() const {
    const ConvolutionSize& s = size;
    std::vector<float> y(exact.size());
#if RLX_HAS_ONEDNN
    const kernels::SingleThreadedOpenMp guard;
    using dnnl::memory;
    constexpr auto kF32 = memory::data_type::f32;
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const memory::dims x_dims = {s.batch, s.channels, s.height, s.width};
    const memory::dims y_dims = {s.batch, s.filters, s.made_height(), s.made_width()};
    memory::dims w_dims = {s.filters / s.groups, s.channels / s.groups, s.kernel_height, s.kernel_width};
    if (s.groups > 1) w_dims.insert(w_dims.begin(), s.groups);
    const int64_t pad = s.is_flat ? 0 : s.padding;
    const auto any = [&](const memory::dims& dims) { return memory::desc(dims, kF32, memory::format_tag::any); };
    const dnnl::convolution_forward::primitive_desc plan(
        engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, any(x_dims), any(w_dims),
        any(y_dims), {s.is_flat ? 1 : s.stride, s.stride}, {s.is_flat ? 0 : s.dilation - 1, s.dilation - 1},
        {pad, s.padding}, {pad, s.padding});
    const auto dense = s.groups > 1 ? memory::format_tag::goihw : memory::format_tag::oihw;
    const auto moved = [&](memory from, const memory::desc& wanted) {
      memory to(wanted, engine);
      dnnl::reorder(from, to).execute(stream, from, to);
      return to;
    };
    const auto given = [&](const memory::desc& type, const float* values) {
      return memory(type, engine, const_cast<float*>(values));
    };
    memory x = moved(given({x_dims, kF32, memory::format_tag::nchw}, operands[0].values.data()), plan.src_desc());
    memory w = moved(given({w_dims, kF32, dense}, operands[1].values.data()), plan.weights_desc());
    memory made(plan.dst_desc(), engine), result({y_dims, kF32, memory::format_tag::nchw}, engine, y.data());
    dnnl::convolution_forward(plan).execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, { DNNL_ARG_DST, made }});
    dnnl::reorder(made, result).execute(stream, made, result);
    stream.wait();
#else
    y.clear();
#endif
    return y;
  }
};

Problem convolution_problem(const ConvolutionSize& s, unsigned seed) {
  return {s.text(), seed, [s](const Filling& f, Random& r) { return std::make_unique<ConvolutionCase>(s, f, r); }};
}

std::vector<Problem> convolutions() {
  using Size = ConvolutionSize;
  const auto image = [](int64_t channels, int64_t extent, int64_t filters, int64_t kernel) {
    Size s;
    s.channels = channels, s.filters = filters, s.height = s.width = extent;
    s.kernel_height = s.kernel_width = kernel, s.padding = kernel / 2;
    return s;
  };
  const auto flat = [](int64_t channels, int64_t extent, int64_t filters, int64_t kernel) {
    Size s;
    s.is_flat = true, s.channels = channels, s.filters = filters, s.width = extent, s.kernel_width = kernel;
    return s;
  };
  Size few_pixels = image(384, 3, 64, 1), strided = image(24, 15, 40, 3), grouped = image(32, 10, 32, 3);
  Size depthwise = image(24, 14, 24, 3), dilated = image(16, 12, 24, 3), photo = image(3, 24, 24, 7);
  Size padded = flat(40, 60, 48, 5), causal = flat(48, 50, 48, 4), batched = image(8, 6, 20, 3);
  strided.stride = 2, strided.width = 13, grouped.groups = 4, depthwise.groups = 24, dilated.dilation = 2;
  dilated.padding = 2, photo.stride = 2, padded.padding = 2, causal.padding = 3, causal.groups = 48, batched.batch = 3;
  std::vector<Problem> all;
  for (const Size& s :
       {image(64, 10, 96, 1), few_pixels, image(32, 11, 48, 3), image(192, 5, 32, 3), image(512, 4, 16, 3), strided,
        grouped, depthwise, dilated, photo, batched, padded, causal, flat(80, 24, 33, 1)})
    all.push_back(convolution_problem(s, static_cast<unsigned>(all.size()) + 1));
  return all;
}

Problem random_convolution(Random& r) {
  ConvolutionSize s;
  s.is_flat = r() % 3 == 0;
  const int64_t kind = between(r, 0, 3);  // depthwise, grouped, else plain
  s.groups = kind == 0 ? mostly_small(r, 1, 64) : kind == 1 ? between(r, 2, 4) : 1;
  const int64_t most = std::max<int64_t>(1, 96 / s.groups);
  s.channels = s.groups * (kind == 0 ? 1 : mostly_small(r, 1, most));
  s.filters = s.groups * (kind == 0 ? between(r, 1, 2) : mostly_small(r, 1, most));
  s.stride = r() % 3 == 0 ? 2 : 1, s.dilation = r() % 5 == 0 ? 2 : 1, s.batch = r() % 4 == 0 ? 2 : 1;
  s.kernel_width = s.is_flat ? between(r, 1, 9) : between(r, 1, 5);
  s.kernel_height = s.is_flat ? 1 : r() % 4 == 0 ? between(r, 1, 5) : s.kernel_width;
  s.padding = between(r, 0, (s.is_flat ? s.kernel_width : std::min(s.kernel_height, s.kernel_width)) / 2);
  s.width = s.reach(s.kernel_width) + mostly_small(r, 0, s.is_flat ? 60 : 14);
  s.height = s.is_flat ? 1 : s.reach(s.kernel_height) + mostly_small(r, 0, 14);
  return convolution_problem(s, 0);
}

}  // namespace

const Op kConvolution{"conv", convolutions, random_convolution};

}  // namespace rlx::accuracy
