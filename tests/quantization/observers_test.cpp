// Ranges: torch.ao's observers and ONNX Runtime's calibrators (scripts/golden/quantization.py) are the judges.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "quantization/net.h"
#include "rlx/element.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

const std::vector<std::string> kNames = {"lopsided", "tail", "relu", "widens", "above", "zeros_first"};

SafetensorsFile golden() { return SafetensorsFile::open("tests/golden/quantization/ranges.safetensors"); }
RangeObserver observed(const SafetensorsFile& file, const std::string& name, const CalibrationOptions& options) {
  RangeObserver observer(options);
  for (int i = 0; i < 4; ++i) observer.observe(file.tensor(text_of(name, "/batch", i)));
  return observer;
}
void check_range(const Range& range, const Tensor& expected, const std::string& what) {
  for (size_t i = 0; i < 2; ++i) {
    const double ours = i == 0 ? range.low : range.high, theirs = load_number(expected, i);
    CHECK_MESSAGE(ours == doctest::Approx(theirs).epsilon(1e-6), what, ": ", ours, " instead of ", theirs);
  }
}

}  // namespace

TEST_CASE("ranges are those of torch's observers and ONNX Runtime's calibrators") {
  auto file = golden();
  for (const std::string& name : kNames) {
    check_range(observed(file, name, {}).range(), file.tensor(name + "/min_max"), name + " min_max");
    check_range(observed(file, name, {.method = CalibrationMethod::moving_average, .averaging = 0.1}).range(),
                file.tensor(name + "/moving_average"), name + " moving_average");
    for (int64_t bins : {512, 2048}) {
      check_range(observed(file, name, {.method = CalibrationMethod::entropy, .bins = bins}).range(),
                  file.tensor(text_of(name, "/entropy_", bins)), text_of(name, " entropy ", bins));
      for (auto [percentile, text] : {std::pair{99.0, "99.0"}, {99.9, "99.9"}})
        check_range(
            observed(file, name, {.method = CalibrationMethod::percentile, .percentile = percentile, .bins = bins})
                .range(),
            file.tensor(text_of(name, "/percentile_", text, "_", bins)),
            text_of(name, " percentile ", text, " ", bins));
    }
  }
}

TEST_CASE("scales and zero points are those of torch's observers") {
  auto file = golden();
  for (const std::string& name : kNames) {
    Range range = observed(file, name, {}).range();
    for (bool symmetric : {false, true}) {
      CodeScale ours = scale_for(range, symmetric ? -127 : -128, 127, symmetric);
      Tensor theirs = file.tensor(name + (symmetric ? "/symmetric" : "/affine"));
      CHECK(ours.scale == doctest::Approx(load_number(theirs, 0)).epsilon(1e-6));
      CHECK(ours.zero_point == static_cast<int64_t>(load_number(theirs, 1)));
    }
  }
  CHECK(scale_for({-1, 3}, 0, 255, false) == CodeScale{4.0 / 255, 64});
}

TEST_CASE("a percentile lies within a bin of the exact one") {
  // Of 0, 1, ..., 9999 over 10000, the middle 98 % goes from 0.01 to 0.99.
  Tensor x(f32, {10000});
  for (size_t i = 0; i < 10000; ++i) store<double>(x, i, static_cast<double>(i) / 10000);
  RangeObserver observer({.method = CalibrationMethod::percentile, .percentile = 98, .bins = 2048});
  observer.observe(x);
  CHECK(std::abs(observer.range().low - 0.01) < 2.0 / 2048);
  CHECK(std::abs(observer.range().high - 0.99) < 2.0 / 2048);
}

TEST_CASE("what has no range is refused with its numbers") {
  CHECK_THROWS_WITH_AS(RangeObserver().range(), doctest::Contains("no calibration data"), Error);
  RangeObserver observer;
  Tensor x = Tensor::of<float>({3}, {1, NAN, 2});
  CHECK_THROWS_WITH_AS(observer.observe(x), doctest::Contains("element 1 of f32[3] is nan"), Error);
  CHECK_THROWS_WITH_AS(observer.observe(Tensor::of<float>({2}, {0, -INFINITY})),
                       doctest::Contains("element 1 of f32[2] is -inf"), Error);
  CHECK_THROWS_WITH_AS(observer.observe(Tensor::of<int32_t>({1}, {3})), doctest::Contains("not of i32[1]"), Error);
  CHECK(observer.count() == 0);
  observer.observe(Tensor(f32, {4}));
  CHECK_THROWS_WITH_AS(scale_for(observer.range(), -128, 127, false), doctest::Contains("the range is only 0"), Error);
  CHECK_THROWS_WITH_AS(scale_for({2, 1}, -128, 127, false), doctest::Contains("from 2 to 1"), Error);
  CHECK_THROWS_WITH_AS(scale_for({0, NAN}, -128, 127, false), doctest::Contains("from 0 to nan"), Error);
  CHECK_THROWS_WITH_AS(RangeObserver({.method = CalibrationMethod::percentile, .percentile = 30}),
                       doctest::Contains("percentile is 30; it must be above 50"), Error);
  CHECK_THROWS_WITH_AS(RangeObserver({.bins = 1}), doctest::Contains("bins is 1"), Error);
  CHECK_THROWS_WITH_AS(RangeObserver({.averaging = 0}), doctest::Contains("averaging is 0"), Error);
  CHECK_THROWS_WITH_AS(RangeObserver({.bins = 64}), doctest::Contains("levels is 128"), Error);
}

TEST_CASE("a graph's ranges are collected by name, print as a table, and are stored") {
  auto file = SafetensorsFile::open("tests/golden/quantization/codes.safetensors");
  const NamedTensors params = test::net_params(file, "");
  std::vector<std::vector<NamedTensor>> batches = {{{"x", file.tensor("calibration")}}};
  Calibration ranges = calibrate(test::net(), params, batches);
  REQUIRE(ranges.activations.size() == 3);
  Tensor scales = file.tensor("scales");
  size_t row = 0;
  for (const char* name : {"x", "conv.output", "out.output"}) {
    CodeScale ours = scale_for(ranges.at(name).range, -128, 127, false);
    CHECK(ours.scale == doctest::Approx(load_number(scales, 2 * row)).epsilon(1e-6));
    CHECK(ours.zero_point == static_cast<int64_t>(load_number(scales, 2 * row + 1)));
    ++row;
  }
  CHECK(ranges.at("x").count == 16 * 64);
  CHECK(ranges.at("conv.output").range.low == 0);  // behind the relu
  CHECK(ranges.table().find("conv.output") != std::string::npos);
  CHECK(ranges.table().find("zero point") != std::string::npos);
  test::TemporaryFolder folder;
  ranges.options.percentile = 99.5;
  ranges.save(folder / "ranges.json");
  Calibration loaded = Calibration::load(folder / "ranges.json");
  CHECK(loaded.activations == ranges.activations);
  CHECK(loaded.options.percentile == 99.5);

  CHECK_THROWS_WITH_AS(ranges.at("y"), doctest::Contains("no range of 'y' was observed; there are"), Error);
  CHECK_THROWS_WITH_AS(calibrate(test::net(), params, {}), doctest::Contains("there are no calibration data"), Error);
  Tensor broken = file.tensor("calibration");
  store<double>(broken, 7, std::numeric_limits<double>::quiet_NaN());
  batches.push_back({{"x", broken}});
  CHECK_THROWS_WITH_AS(calibrate(test::net(), params, batches), doctest::Contains("in batch 1"), Error);
  test::put_file(folder / "cut.json", test::file_content(folder / "ranges.json").substr(0, 100));
  CHECK_THROWS_WITH_AS(Calibration::load(folder / "cut.json"), doctest::Contains("they are no ranges"), Error);
}
