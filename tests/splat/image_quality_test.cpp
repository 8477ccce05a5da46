// The likeness of images against scikit-image; tests/golden/generate/splat_files.py.
#include "rlx/extras/image_quality.h"

#include <doctest/doctest.h>

#include "rlx/autodiff.h"
#include "rlx/io.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("PSNR and SSIM are scikit-image's") {
  auto file = SafetensorsFile::open("tests/golden/splat/expected.safetensors");
  for (std::string name : {"gray", "color", "single", "small"}) {
    INFO(name);
    Tensor x = file.tensor(name + "/x"), y = file.tensor(name + "/y");
    double range = load<double>(file.tensor(name + "/range"), 0);
    SsimAttrs attrs{.range = range};
    if (name == "small") attrs.window = 7, attrs.sigma = 0.8;
    Graph g = trace(std::vector{x.type(), y.type()}, [&](Values v) {
      return Many<Value>{psnr(v[0], v[1], range), ssim(v[0], v[1], attrs)};
    });
    auto got = Session().compile(g).run_ordered(std::array{x, y});
    double tolerance = x.dtype() == f32 ? 2e-5 : 1e-11;  // f32: variances are differences of numbers up to 1
    CHECK(std::abs(load<double>(got[0], 0) - load<double>(file.tensor(name + "/psnr"), 0)) < 10 * tolerance);
    CHECK(std::abs(load<double>(got[1], 0) - load<double>(file.tensor(name + "/ssim"), 0)) < tolerance);
  }
}
TEST_CASE("equal images are alike, in every image of a batch, and the gradient there is zero") {
  Tensor x = random_tensor(f64, {2, 12, 13, 3}, 5, 0, 1);
  Graph g = trace(std::vector{x.type(), x.type()}, [](Values v) {
    return Many<Value>{ssim(v[0], v[1]), psnr(v[0], v[1])};
  });
  auto got = Session().compile(g).run_ordered(std::array{x, x});
  CHECK(difference(got[0], full(f64, {2}, 1)) == "");
  CHECK(got[1] == full(f64, {2}, std::numeric_limits<double>::infinity()));
  Graph one =
      trace(std::vector{Type{f64, {12, 13, 3}}, Type{f64, {12, 13, 3}}}, [](Values v) { return ssim(v[0], v[1]); });
  Tensor image = random_tensor(f64, {12, 13, 3}, 5, 0, 1);
  Tensor gradient = Session().compile(grad(one, {"x0"})).run_ordered(std::array{image, image})[0];
  CHECK(difference(gradient, Tensor(f64, {12, 13, 3})) == "");
}
TEST_CASE("images that cannot be compared are refused with their types") {
  auto message = [](const Type& x, const Type& y, const SsimAttrs& attrs) {
    return message_of([&] { trace(std::vector{x, y}, [&](Values v) { return ssim(v[0], v[1], attrs); }); });
  };
  const Type image{f32, {12, 12, 3}};
  CHECK(message(image, {f32, {12, 12, 1}}, {})
            .starts_with("two images of one type [..., height, width, channels] of floats are needed, got f32[12, 12, "
                         "3] and f32[12, 12, 1]"));
  CHECK(message({u8, {12, 12, 3}}, {u8, {12, 12, 3}}, {}).find("of floats are needed, got u8[12, 12, 3]") !=
        std::string::npos);
  CHECK(
      message(image, image, {.window = 13}).starts_with("no window of 13 x 13 pixels fits into images f32[12, 12, 3]"));
  CHECK(message(image, image, {.window = 4}).starts_with("a window must be an odd number of pixels"));
  CHECK(message(image, image, {.range = 0})
            .starts_with("the range of an image's numbers must be above 0 and finite, got 0"));
}
