// Ranges: torch.ao's observers and ONNX Runtime's calibrators (tests/golden/generate/quantization.py) are the judges.
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

TEST_CASE("where a percentile leaves nothing, the range is what was seen") {
  // 9 of 10 are 0, and the tails that are cut hold the others.
  Tensor x(f32, {1000});
  for (size_t i = 0; i < 100; ++i) store<double>(x, 10 * i, 1);
  for (double constant : {0.0, 1.0, -3.0}) {
    RangeObserver observer({.method = CalibrationMethod::percentile, .percentile = 60});
    Tensor all = x;
    if (constant != 0)
      for (size_t i = 0; i < 1000; ++i) store<double>(all, i, constant);
    observer.observe(all);
    CHECK(observer.range() == observer.seen());
    CHECK(scale_for(observer.range(), -128, 127, false).scale > 0);
  }
  for (CalibrationMethod method : {CalibrationMethod::percentile, CalibrationMethod::entropy}) {
    RangeObserver observer({.method = method});
    observer.observe(Tensor::of<float>({4}, {100, 100.01F, 100.02F, 100.03F}));
    CHECK(observer.range().low <= observer.range().high);
  }
}

TEST_CASE("histograms of numbers near the ends of f32, and beyond them") {
  for (CalibrationMethod method : {CalibrationMethod::percentile, CalibrationMethod::entropy}) {
    RangeObserver observer({.method = method});
    CHECK_THROWS_WITH_AS(observer.observe(Tensor::of<double>({3}, {1, 1e300, 2})),
                         doctest::Contains("element 1 of f64[3] is 1e+300; the bins"), Error);
    CHECK(observer.count() == 0);
    // What f32 has no number for counts as 0; the range is that of what was seen.
    observer.observe(Tensor::of<double>({3}, {1e-60, -1e-60, 1e-61}));
    CHECK(observer.range() == Range{-1e-60, 1e-60});
    observer.observe(Tensor::of<double>({3}, {3.0e38, -3.4e38, 0}));
    observer.observe(Tensor::of<float>({2}, {3.4028234e38F, 0}));
    CHECK(observer.range().low >= observer.seen().low);
    CHECK(observer.range().high <= observer.seen().high);
    CHECK(observer.range().low < observer.range().high);
    RangeObserver wide({.method = method});
    wide.observe(Tensor::of<float>({2}, {1e-45F, 0}));
    CHECK_THROWS_WITH_AS(wide.observe(Tensor::of<float>({2}, {3e38F, 0})), doctest::Contains("cannot hold both"),
                         Error);
  }
}

TEST_CASE("entropies are compared of 65536 bins at most, for their time grows with the square") {
  RangeObserver observer({.method = CalibrationMethod::entropy});
  observer.observe(Tensor::of<float>({3}, {1, -1, 0.5F}));
  CHECK_THROWS_WITH_AS(
      observer.observe(Tensor::of<float>({2}, {100, 0})),
      doctest::Contains("a batch reaches 100 where those before it reached 1; a histogram with bins of 0.000976562 "
                        "cannot hold both in 65536 bins. Shuffle the batches, or calibrate by percentile or min_max"),
      Error);
  CHECK_THROWS_WITH_AS(RangeObserver({.method = CalibrationMethod::entropy, .bins = 1 << 17}),
                       doctest::Contains("bins is 131072; it must be at most 65536"), Error);
  RangeObserver percentile({.method = CalibrationMethod::percentile});
  percentile.observe(Tensor::of<float>({3}, {1, -1, 0.5F}));
  percentile.observe(Tensor::of<float>({2}, {100, 0}));
  CHECK(percentile.range().high > 99);
}

TEST_CASE("ranges whose scale is not finite are refused, and files that hold no ranges") {
  CHECK_THROWS_WITH_AS(scale_for({-1e308, 1e308}, -128, 127, false),
                       doctest::Contains("a range from -1e+308 to 1e+308 has no finite scale"), Error);
  auto text = [](const std::string& options, const std::string& entry) {
    return R"({"format": "rlx calibration 1", "method": "min_max", "averaging": 0.01, )" + options +
           R"(, "levels": 128, "activations": [{"name": "x", )" + entry + "}]}";
  };
  const std::string good = R"("percentile": 99, "bins": 2048)";
  const std::string range = R"("low": -1, "high": 1, "least": -1, "greatest": 1, "count": )";
  CHECK(Calibration::from_json(text(good, range + "3")).at("x").count == 3);
  CHECK(Calibration::from_json(text(good, R"("low": -1e308, "high": 1e308, "least": 0, "greatest": 0, "count": 1)"))
            .table()
            .find("too wide") != std::string::npos);
  auto refused = [&](const std::string& options, const std::string& entry, const char* words) {
    CHECK_THROWS_WITH_AS(Calibration::from_json(text(options, entry)), doctest::Contains(words), Error);
  };
  refused(R"("percentile": 1, "bins": 2048)", range + "3", "percentile is 1; it must be above 50");
  refused(R"("percentile": 99, "bins": -5)", range + "3", "bins is -5");
  refused(good, range + "-3", "'count' is -3");
  refused(good, range + "18446744073709551615", "'count' is 18446744073709551615");
  refused(good, range + "\"many\"", "entry 0 of 'activations' ('x')");
  refused(good, R"("low": 2, "high": 1, "least": 0, "greatest": 0, "count": 1)", "entry 0 of 'activations' ('x')");
  refused(good, R"("low": 0, "high": 1, "least": 2, "greatest": 0, "count": 1)", "what was seen goes from 2 to 0");
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
