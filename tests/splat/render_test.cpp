// Gaussian splats beyond the golden scenes: what can be said without a second rasterizer, many tiles, hostile numbers.
// The CPU, whose kernels work tile by tile, is compared with the reference, which knows no tiles.
#include <doctest/doctest.h>

#include <cmath>

#include "autodiff/transforms.h"
#include "kernels/kernel_test.h"
#include "reference/interpreter.h"
#include "rlx/extras/splat.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

/// A splat that is round, of that standard deviation.
std::vector<double> splat_at(double x, double y, double deviation, double opacity, std::array<double, 3> color) {
  double a = 1 / (deviation * deviation);
  return {1, x, y, a, 0, a, 0, 0, 0, 0, 0, opacity, color[0], color[1], color[2]};
}
Tensor rows(const std::vector<std::vector<double>>& all, DType dtype = f64) {
  Array<double> t({int64_t(all.size()), splat_field::count});
  for (size_t i = 0; i < all.size(); ++i)
    std::copy(all[i].begin(), all[i].end(), t.data.begin() + int64_t(i) * splat_field::count);
  return t.rounded_to(dtype);
}
Graph raster_graph(const Tensor& splats, const SplatAttrs& a) {
  return trace(std::vector{splats.type(), Type{splats.dtype(), {3}}},
               [&](Values v) { return gaussian_splat_rasterize(v[0], v[1], a); });
}
std::vector<Tensor> on_cpu(const Graph& g, Tensors in, int threads = 2) {
  return Session(Device::cpu(), {threads}).compile(g).run_ordered(in);
}
/// By the reference; the CPU must agree.
Tensor drawn(const Tensor& splats, const SplatAttrs& a, std::array<double, 3> background = {0.1, 0.2, 0.3}) {
  Graph g = raster_graph(splats, a);
  Array<double> behind({3});
  std::copy(background.begin(), background.end(), behind.data.begin());
  std::array in{splats, behind.rounded_to(splats.dtype())};
  Tensor wanted = interpret(g, in)[0];
  for (int threads : {1, 3}) CHECK(difference(on_cpu(g, in, threads)[0], wanted) == "");
  return wanted;
}
double pixel(const Tensor& image, int64_t x, int64_t y, int64_t channel) {
  return load<double>(image, size_t((y * image.shape()[1] + x) * 4 + channel));
}
const SplatAttrs kPlain{.width = 8, .height = 6, .gamma = 1};

/// Splats of all shapes, some much longer than a tile, in an image of several tiles.
Tensor crowd(int64_t n, int64_t width, int64_t height, DType dtype, bool ray) {
  Tensor u = random_tensor(f64, {n, splat_field::count}, 77, 0, 1);
  Array<double> t(u);
  for (size_t i = 0; i < size_t(n); ++i) {
    double* s = &t.data[i * splat_field::count];
    double turn = s[3] * 6.28, wide = std::exp(3 * s[4] - 0.3), narrow = wide * std::exp(-1.5 * s[5]);
    double c = std::cos(turn), d = std::sin(turn), p = 1 / (wide * wide), q = 1 / (narrow * narrow);
    s[1] = s[1] * (double(width) + 20) - 10, s[2] = s[2] * (double(height) + 20) - 10;
    s[3] = c * c * p + d * d * q, s[4] = c * d * (p - q), s[5] = d * d * p + c * c * q;
    for (int k = 6; k < 11; ++k) s[k] = ray ? (s[k] - 0.5) * 2e-3 : 0;
    s[11] = s[11] * 0.8;
  }
  return t.rounded_to(dtype);
}

}  // namespace

TEST_CASE("no splats are the background, whole and transparent") {
  Tensor image = drawn(Tensor(f64, {0, splat_field::count}), kPlain);
  for (int64_t y = 0; y < 6; ++y)
    for (int64_t x = 0; x < 8; ++x) {
      CHECK(pixel(image, x, y, 0) == 0.1);
      CHECK(pixel(image, x, y, 2) == 0.3);
      CHECK(pixel(image, x, y, 3) == 0);
    }
}
TEST_CASE("a splat in the middle of a pixel covers it by its opacity, and its neighbours by the Gaussian") {
  Tensor image = drawn(rows({splat_at(2.5, 3.5, 1.2, 0.7, {1, 0.5, 0})}), kPlain);
  CHECK(pixel(image, 2, 3, 0) == doctest::Approx(0.7 * 1 + 0.3 * 0.1));
  CHECK(pixel(image, 2, 3, 1) == doctest::Approx(0.7 * 0.5 + 0.3 * 0.2));
  CHECK(pixel(image, 2, 3, 3) == doctest::Approx(0.7));
  double aside = 0.7 * std::exp(-0.5 * (4 + 1) / 1.44);
  CHECK(pixel(image, 4, 4, 3) == doctest::Approx(aside));
  CHECK(pixel(image, 4, 4, 2) == doctest::Approx((1 - aside) * 0.3));
  CHECK(pixel(image, 7, 3, 3) == 0);  // 5 pixels are more than 3 deviations of 1.2
}
TEST_CASE("the first splat is in front of the second") {
  auto red = splat_at(2.5, 2.5, 1, 0.6, {1, 0, 0}), green = splat_at(2.5, 2.5, 1, 0.5, {0, 1, 0});
  Tensor image = drawn(rows({red, green}), kPlain, {0, 0, 0});
  CHECK(pixel(image, 2, 2, 0) == doctest::Approx(0.6));
  CHECK(pixel(image, 2, 2, 1) == doctest::Approx(0.4 * 0.5));
  CHECK(pixel(drawn(rows({green, red}), kPlain, {0, 0, 0}), 2, 2, 0) == doctest::Approx(0.5 * 0.6));
}
TEST_CASE("a pixel is done below the threshold, and behind so many splats") {
  auto one = splat_at(2.5, 2.5, 1, 0.5, {1, 1, 1});
  std::vector<std::vector<double>> many(9, one);
  auto opaque = [&](SplatAttrs a) { return pixel(drawn(rows(many), a), 2, 2, 3); };
  SplatAttrs a = kPlain;
  CHECK(opaque(a) == doctest::Approx(1 - std::pow(0.5, 9)));
  a.transmittance_threshold = 0.2;  // 0.25 still passes two, 0.125 does not pass four
  CHECK(opaque(a) == doctest::Approx(1 - 0.125));
  a = kPlain, a.max_splat_steps = 2;
  CHECK(opaque(a) == doctest::Approx(0.75));
}
TEST_CASE("what is fainter than the cutoff or farther than its radius is left out, and gamma bends what is shown") {
  SplatAttrs a = kPlain;
  a.alpha_cutoff = 0.4;
  auto one = splat_at(2.5, 2.5, 1, 0.6, {1, 1, 1});
  CHECK(pixel(drawn(rows({one}), a), 3, 2, 3) == 0);  // 0.6 exp(-1/2) = 0.36
  a = kPlain, a.radius_scale = 0.9;
  CHECK(pixel(drawn(rows({one}), a), 3, 2, 3) == 0);
  CHECK(pixel(drawn(rows({one}), a), 2, 2, 3) == doctest::Approx(0.6));
  a = kPlain, a.gamma = 2.2;
  CHECK(pixel(drawn(rows({one}), a), 2, 2, 0) == doctest::Approx(std::pow(0.6 + 0.4 * 0.1, 1 / 2.2)));
  CHECK(pixel(drawn(rows({}), a, {-0.5, 0, 1}), 2, 2, 0) == 0);
}
TEST_CASE("numbers that are none, and shapes that are no ellipse, count nowhere and spoil nothing") {
  auto good = splat_at(3.5, 2.5, 1, 0.5, {0.2, 0.4, 0.9});
  Tensor wanted = drawn(rows({good}), kPlain);
  std::vector<std::vector<double>> all;
  for (double bad : {kNaN, kInfinity, -kInfinity})
    for (size_t k : {1, 2, 3, 5, 11}) {
      if (k == 11 && bad == kInfinity) continue;  // an infinite opacity counts
      if (bad == -kInfinity && (k == 3 || k == 5)) continue;
      auto s = splat_at(3.5, 2.25, 1, 0.5, {0.2, 0.4, 0.9});
      s[1] = 3.25, s[k] = bad;
      all.push_back(s);
    }
  auto saddle = splat_at(20.5, 20.25, 1, 0.5, {1, 1, 1});  // negative squares where the image is
  saddle[3] = -1, saddle[5] = -1;
  all.push_back(saddle);
  auto inside_out = splat_at(3.25, 2.25, 1, 0.5, {1, 1, 1});
  inside_out[8] = -1e6;
  all.push_back(inside_out);
  all.push_back(good);
  Tensor got = drawn(rows(all), kPlain);
  CHECK(difference(got, wanted) == "");
}
TEST_CASE("a colour that is no number spoils the pixels it is seen at, and no others") {
  auto far = splat_at(6.5, 4.5, 0.6, 0.5, {0.2, 0.4, 0.9}), plain = splat_at(1.5, 1.5, 0.4, 0.5, {1, 1, 1});
  auto spoilt = plain;
  spoilt[12] = kNaN, spoilt[13] = kInfinity;
  Graph d = value_and_vjp(raster_graph(rows({far, far}), kPlain), Mask{true, true}, Mask{true});
  auto run = [&](const Tensor& splats, auto by) {
    return by(std::vector{splats, full(f64, {3}, 0.3), full(f64, {6, 8, 4}, 0.25)});
  };
  auto plainly = [&](const std::vector<Tensor>& in) { return interpret(d, in); };
  auto by_kernels = [&](const std::vector<Tensor>& in) { return on_cpu(d, in); };
  auto composed = [&](const std::vector<Tensor>& in) {
    return Session().compile(d, {.kernel_dispatch = KernelDispatch::common}).run_ordered(in);
  };
  auto check = [&](auto by) {
    auto wanted = run(rows({plain, far}), by), got = run(rows({spoilt, far}), by);
    for (int64_t y = 0; y < 6; ++y)
      for (int64_t x = 0; x < 8; ++x) {
        bool seen = std::abs(x - 1) + std::abs(y - 1) <= 1;  // 3 deviations of 0.4: not the diagonal neighbours
        CHECK(std::isnan(pixel(got[0], x, y, 0)) == seen);
        CHECK(std::isinf(pixel(got[0], x, y, 1)) == seen);
        for (int64_t i = 2; i < 4; ++i) CHECK(pixel(got[0], x, y, i) == pixel(wanted[0], x, y, i));
      }
    for (size_t i = splat_field::count; i < 2 * splat_field::count; ++i)
      CHECK(load<double>(got[1], i) == load<double>(wanted[1], i));
  };
  check(plainly);
  check(by_kernels);
  check(composed);
}
TEST_CASE("on the CPU a crowd over many tiles is the reference's, in values and gradients, on any number of threads") {
  for (bool ray : {true, false})
    for (DType dtype : {f64, f32}) {
      SplatAttrs a{.width = 53, .height = 38, .gamma = ray ? 2.2 : 1};
      Tensor splats = crowd(150, a.width, a.height, dtype, ray);
      Graph g = raster_graph(splats, a), d = value_and_vjp(g, Mask{true, true}, Mask{true});
      std::array in{splats, full(dtype, {3}, 0.3), random_tensor(dtype, {a.height, a.width, 4}, 3, -1, 1)};
      auto wanted = interpret(d, in);
      double most = 1;
      for (size_t i = 0; i < wanted[1].element_count(); ++i)
        most = std::max(most, std::abs(load<double>(wanted[1], i)));
      test::for_each_target([&] {
        for (int threads : {1, 2, 4}) {
          auto got = on_cpu(d, in, threads);
          // f32: up to 2,000 pixels are summed, of numbers as large as the largest.
          CHECK(difference(got[0], wanted[0], dtype == f32 ? 1e-5 : -1) == "");
          CHECK(difference(got[1], wanted[1], (dtype == f32 ? 2e-5 : 1e-11) * most) == "");
          CHECK(difference(got[2], wanted[2], dtype == f32 ? 1e-4 : 1e-11) == "");
          CHECK(on_cpu(d, in, threads) == got);
        }
      });
    }
}
TEST_CASE("the image does not depend on the tiles") {
  Tensor splats = crowd(60, 40, 30, f32, true);
  std::vector<Tensor> images;
  for (int64_t tile : {1, 3, 8, 64}) {
    SplatAttrs a{.width = 40, .height = 30, .tile_size = tile};
    images.push_back(on_cpu(raster_graph(splats, a), std::array{splats, full(f32, {3}, 0.5)})[0]);
    CHECK(images.back() == images[0]);
  }
}
TEST_CASE("the report says that splats are drawn by a kernel, and what they are prepared of is composed") {
  SplatAttrs a{.width = 5, .height = 5};
  std::vector<Type> types = {{f32, {7, 3}}, {f32, {7, 3}},    {f32, {7, 4}}, {f32, {7}},
                             {f32, {7, 3}}, {f32, {7, 4, 3}}, {f32, {10}},   {f32, {3}}};
  Graph g = trace(types, [&](Values v) {
    return gaussian_splat_render({v[0], v[1], v[2], v[3], v[4], v[5]}, v[6], v[7], a);
  });
  DispatchReport report = dispatch_report(g, Device::cpu());
  CHECK(report.count(Verdict::missing) == 0);
  CHECK(report.count(Verdict::interpreted) == 0);
}
TEST_CASE("any number of Gaussians: their count may be a symbol") {
  SplatAttrs a{.width = 6, .height = 5};
  Dim n = Dim::symbol("N");
  std::vector<Type> types = {{f64, {n, 3}}, {f64, {n, 3}},    {f64, {n, 4}}, {f64, {n}},
                             {f64, {n, 3}}, {f64, {n, 1, 3}}, {f64, {10}},   {f64, {3}}};
  Graph g = trace(types, [&](Values v) {
    return gaussian_splat_render({v[0], v[1], v[2], v[3], v[4], v[5]}, v[6], v[7], a);
  });
  Graph d = vjp(g, Mask(8, true), Mask{true});
  CompiledGraph compiled = Session().compile(d);
  for (int64_t count : {3, 8}) {
    std::vector<Tensor> in;
    for (const Type& t : d.input_types()) {
      Dims dims;
      for (const Dim& x : t.dims) dims.push_back(x.bound({{"N", count}}));
      in.push_back(random_tensor(f64, shape_of(dims), 40 + in.size(), -1, 1));
    }
    CHECK(difference(compiled.run_ordered(in), interpret(d, in)) == "");
  }
}

TEST_CASE("a camera that sees nothing, and a Gaussian out of sight, have gradients of 0, whatever their numbers are") {
  struct Case {
    std::vector<double> rotation, camera;
  };
  const std::vector<double> turned = {0.5, 0.1, -0.3, 0.8};
  const Case cases[] = {
      {turned, {1, 2, 3, 1, 2, 3, 0, 1, 0, 1}},         // in what it looks at
      {turned, {0, 0, 0, 0, 0, 2, 0, 0, 1, 1}},         // "up" is ahead
      {turned, {0, 0, 0, 0, 0, 2, 0, 1, 0, 0}},         // opens by an angle of 0
      {{0, 0, 0, 0}, {0, 0, 9, 0, 0, 20, 0, 1, 0, 1}},  // the Gaussian is behind, and has no rotation
  };
  for (DType dtype : {f64, f32})
    for (const Case& c : cases) {
      auto tensor = [&](Shape shape, std::vector<double> numbers) {
        Array<double> t(std::move(shape));
        t.data = std::move(numbers);
        return t.rounded_to(dtype);
      };
      const std::vector<Tensor> in = {
          tensor({1, 3}, {0, 0, 5}), tensor({1, 3}, {0.1, 0.4, 0.2}), tensor({1, 4}, c.rotation),
          tensor({1}, {1}),          tensor({1, 3}, {0.5, 0.6, 0.7}), tensor({1, 0, 3}, {}),
          tensor({10}, c.camera),    tensor({3}, {0.1, 0.2, 0.3}),    tensor({2, 2, 4}, std::vector<double>(16, 0.5))};
      std::vector<Type> types;
      for (const Tensor& t : in) types.push_back(t.type());
      const Graph g = trace(types, [](Graph& to, Values v) {
        return to.emit(op::gaussian_splat_render_backward, {v.begin(), v.end()},
                       SplatBackwardAttrs{.width = 2, .height = 2});
      });
      for (const auto& results : {interpret(g, in), on_cpu(g, in)})
        for (size_t r = 0; r < 7; ++r)
          for (size_t i = 0; i < results[r].element_count(); ++i) CHECK(load<double>(results[r], i) == 0);
    }
}

TEST_CASE("a colour of 0, which what is darker would be too, has a gradient of 0 on the CPU as in the reference") {
  auto tensor = [](Shape shape, std::vector<double> numbers) {
    Array<double> t(std::move(shape));
    t.data = std::move(numbers);
    return t.rounded_to(f64);
  };
  const std::vector<Tensor> in = {tensor({1, 3}, {0, 0, 5}),
                                  tensor({1, 3}, {0.1, 0.4, 0.2}),
                                  tensor({1, 4}, {0.5, 0.1, -0.3, 0.8}),
                                  tensor({1}, {1}),
                                  tensor({1, 3}, {0, 0.6, -0.1}),
                                  tensor({1, 0, 3}, {}),
                                  tensor({10}, {0, 0, 0, 0, 0, 2, 0, 1, 0, 1}),
                                  tensor({3}, {0.1, 0.2, 0.3}),
                                  tensor({2, 2, 4}, std::vector<double>(16, 0.5))};
  std::vector<Type> types;
  for (const Tensor& t : in) types.push_back(t.type());
  const Graph g = trace(types, [](Graph& to, Values v) {
    return to.emit(op::gaussian_splat_render_backward, {v.begin(), v.end()},
                   SplatBackwardAttrs{.width = 2, .height = 2});
  });
  for (const auto& results : {interpret(g, in), on_cpu(g, in)}) {
    CHECK(load<double>(results[4], 0) == 0);
    CHECK(load<double>(results[4], 1) != 0);
    CHECK(load<double>(results[4], 2) == 0);
  }
}
