// What MLX has an operation of its own for, with the numbers of Python's mlx (tests/golden/generate/mlx_native.py), and
// sums that its own would lose digits of.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "mlx/modes.h"
#include "rlx/element.h"
#include "rlx/io.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

SafetensorsFile golden() { return SafetensorsFile::open("tests/golden/mlx/native.safetensors"); }

struct Ran {
  std::vector<Tensor> results;
  DispatchReport report;
};
Ran run_on(const Device& device, const Graph& g, const std::vector<NamedTensor>& inputs,
           const std::map<std::string, Tensor>& params = {}) {
  CompiledGraph compiled = Session(device).compile(g);
  for (const auto& [name, value] : params) compiled.set_param(name, value);
  return {compiled.run(inputs), compiled.report()};
}
/// How the node of that op runs.
Verdict verdict_of(const DispatchReport& report, std::string_view op) {
  for (const DispatchLine& line : report.lines)
    if (line.op == op) return line.verdict;
  FAIL("no line for ", std::string(op));
  return Verdict::missing;
}

}  // namespace

TEST_CASE("rows that choose a matrix each are multiplied by gather_mm, and by none where there is none such") {
  const SafetensorsFile file = golden();
  const Tensor x = file.tensor("floats/x"), w = file.tensor("floats/w"), index = file.tensor("floats/index");
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    Graph g("experts");
    g.output(grouped_matmul(g.input("x", f32, x.type().dims), g.param("w", f32, w.type().dims),
                            g.input("index", i32, index.type().dims)));
    const Ran ran = run_on(device, g, {{"x", x}, {"index", index}}, {{"w", w}});
    CHECK(verdict_of(ran.report, "grouped_matmul") == Verdict::native);
    CHECK(difference(ran.results[0], file.tensor("floats/y"), 5e-6) == "");
    const Tensor odd = Tensor::of<int32_t>({5}, {3, -1, 2, 4, 1});
    const Tensor with_none = run_on(device, g, {{"x", x}, {"index", odd}}, {{"w", w}}).results[0];
    for (int64_t row = 0; row < 5; ++row)
      CHECK(std::isnan(with_none.values<float>()[static_cast<size_t>(row * 6)]) == (row == 1 || row == 3));
  }
}

TEST_CASE("sums of outer products by segment are segmented_mm, without the rows of no segment") {
  const SafetensorsFile file = golden();
  const Tensor x = file.tensor("segments/x"), y = file.tensor("segments/y"), index = file.tensor("segments/index");
  const Tensor sums = file.tensor("segments/sums");
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    Graph g("segments");
    g.output(segment_matmul(g.input("x", f32, x.type().dims), g.input("y", f32, y.type().dims),
                            g.input("index", i32, index.type().dims), 5));
    const Ran ran = run_on(device, g, {{"x", x}, {"y", y}, {"index", index}}, {});
    CHECK(verdict_of(ran.report, "segment_matmul") == Verdict::native);
    CHECK(difference(ran.results[0], sums, 5e-6) == "");
    Tensor odd = x;  // what the rows of no segment hold is not seen
    for (const int64_t row : {2, 9}) odd.mutable_values<float>()[static_cast<size_t>(row * 24)] = NAN;
    CHECK(difference(run_on(device, g, {{"x", odd}, {"y", y}, {"index", index}}, {}).results[0], sums, 5e-6) == "");
  }
}

TEST_CASE("packed experts are multiplied by gather_qmm, and stay packed") {
  const SafetensorsFile file = golden();
  struct Case {
    std::string name;
    DType codes, scales;
    int64_t group;
  };
  for (const Case& c :
       {Case{"affine_4_64", u4, f32, 64}, Case{"affine_8_32", u8, f32, 32}, Case{"mxfp4", f4e2m1fn, f8e8m0fnu, 32},
        Case{"mxfp8", f8e4m3fn, f8e8m0fnu, 32}, Case{"nvfp4", f4e2m1fn, f8e4m3fn, 16}}) {
    CAPTURE(c.name);
    const auto named = [&](const char* part) { return file.tensor(c.name + "/" + part); };
    const Tensor x = named("x"), index = named("index"), scales = named("scales");
    const Shape codes = {4, 6, 128};
    std::map<std::string, Tensor> params = {{"w", test::with_bytes_of(named("words"), c.codes, codes)},
                                            {"scale", test::with_bytes_of(scales, c.scales, scales.shape())}};
    if (c.scales == f32) params["bias"] = named("biases");
    Graph g("experts");
    Value in = g.input("x", f32, x.type().dims), which = g.input("index", i32, index.type().dims);
    const Value w = g.param("w", c.codes, params.at("w").type().dims);
    const Value scale = g.param("scale", c.scales, scales.type().dims);
    const Value bias = c.scales == f32 ? g.param("bias", f32, scales.type().dims) : Value{};
    g.output(dequant_grouped_matmul(in, w, which, {.scale = scale, .bias = bias}, c.group));
    for (const Device& device : test::mlx_modes()) {
      CAPTURE(device.name());
      const Ran ran = run_on(device, g, {{"x", x}, {"index", index}}, params);
      CHECK(verdict_of(ran.report, "dequant_grouped_matmul") == Verdict::native);
      CHECK(difference(ran.results[0], named("y"), 1e-6) == "");
    }
  }
}

TEST_CASE("threefry_original draws the bits of mx.random.split, by MLX's own generator") {
  const SafetensorsFile file = golden();
  const Tensor key = file.tensor("bits/key");
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    for (int count : {1, 2, 9}) {
      CAPTURE(count);
      const Tensor wanted = file.tensor(text_of("bits/", count));
      Graph g("bits");
      g.output(rng_bits(g.input("key", u32, {2}), wanted.type().dims, wanted.dtype(), RngAlgorithm::threefry_original));
      const Ran ran = run_on(device, g, {{"key", key}});
      CHECK(verdict_of(ran.report, "rng_bits") == Verdict::native);
      CHECK(ran.results[0] == wanted);
    }
    // A token drawn by MLX's generator is the one that ours draws with that algorithm.
    Graph g("sampling");
    g.output(sample(g.input("key", u32, {2}), g.input("logits", f32, {3, 50}), 5, 0.9, 0.7,
                    RngAlgorithm::threefry_original));
    const Tensor logits = random_tensor(f32, {3, 50}, 4);
    const std::vector<NamedTensor> inputs = {{"key", key}, {"logits", logits}};
    CHECK(run_on(device, g, inputs).results[0] == run_on(Device::cpu(), g, inputs).results[0]);
  }
}

TEST_CASE("sums and means of many numbers far from zero keep their digits") {
  // Numbers near 1e6, as NumPy's pairwise sums have their mean within 1e-7: here the exact one is known.
  const auto near_a_million = [](const Shape& shape) {
    Tensor t(f32, shape);
    int64_t i = 0;
    for (float& v : t.mutable_values<float>()) v = 1e6F + static_cast<float>(i++ * 7919 % 1000);
    return t;
  };
  const auto exact_mean = [](const Tensor& t) {
    const auto values = t.values<float>();
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    for (const Shape& shape : {Shape{12288}, Shape{10007}, Shape{3, 5000}, Shape{300, 40}, Shape{8, 30, 50}}) {
      const Tensor x = near_a_million(shape);
      Axes all(shape.size());
      std::iota(all.begin(), all.end(), 0);
      Graph g("mean");
      g.output(mean(g.input("x", f32, x.type().dims), all));
      const double got = run_on(device, g, {{"x", x}}).results[0].values<float>()[0];
      CHECK(std::abs(got / exact_mean(x) - 1) < 1e-6);
    }
    // Along the first axis, where MLX adds up rows.
    const Tensor x = near_a_million({12288, 3});
    Graph g("columns");
    g.output(mean(g.input("x", f32, {12288, 3}), {0}));
    const Tensor got = run_on(device, g, {{"x", x}}).results[0];
    for (size_t column = 0; column < 3; ++column) {
      double sum = 0;
      for (size_t row = 0; row < 12288; ++row) sum += x.values<float>()[row * 3 + column];
      CHECK(std::abs(got.values<float>()[column] / (sum / 12288) - 1) < 1e-6);
    }
    // A norm of a long row far from zero: of the result the mean is 0 and the variance 1.
    const Tensor row = near_a_million({1, 12288});
    Graph norm("norm");
    norm.output(layer_norm(norm.input("x", f32, {1, 12288})));
    double sum = 0, squares = 0;
    const Tensor normed = run_on(device, norm, {{"x", row}}).results[0];
    for (float v : normed.values<float>()) sum += v, squares += double{v} * v;
    CHECK(std::abs(sum / 12288) < 1e-5);
    CHECK(std::abs(squares / 12288 - 1) < 1e-5);
  }
}

TEST_CASE("factorizations are mlx::linalg's, and have an answer where LAPACK has none") {
  const Tensor x = Tensor::of<float>({3, 2, 2}, {4, 2, 2, 3, 1, 2, 2, 1, NAN, 1, 1, 2});  // the second is indefinite
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    Graph g("factors");
    const Value in = g.input("x", f32, x.type().dims);
    g.output(cholesky(in));
    const Eigenpairs pairs = eigh(in);
    g.output(pairs.values), g.output(pairs.vectors);
    g.output(svd(in).s);
    g.output(qr(in).r);
    g.output(lu(in).permutation);
    const Ran ran = run_on(device, g, {{"x", x}});
    for (const char* op : {"cholesky", "eigh", "svd", "qr", "lu"}) CHECK(verdict_of(ran.report, op) == Verdict::native);
    const auto first = [&](size_t result, std::vector<float> wanted) {
      Shape shape = ran.results[result].shape();
      shape[0] = 1;
      const Tensor got = Tensor::of<float>(shape, std::span(ran.results[result].values<float>()).first(wanted.size()));
      return difference(got, Tensor::of<float>(shape, std::span<const float>(wanted)), 1e-6);
    };
    const double root = std::sqrt(17.0);  // of [[4, 2], [2, 3]], by hand
    CHECK(first(0, {2, 0, 1, std::sqrt(2.0F)}) == "");
    CHECK(first(1, {static_cast<float>((7 - root) / 2), static_cast<float>((7 + root) / 2)}) == "");
    CHECK(first(3, {static_cast<float>((7 + root) / 2), static_cast<float>((7 - root) / 2)}) == "");
    CHECK(first(4, {-std::sqrt(20.0F), -14 / std::sqrt(20.0F), 0, 8 / std::sqrt(20.0F)}) == "");
    const auto all_of = [&](size_t result, size_t matrix, auto holds) {
      const auto values = ran.results[result].values<float>();
      const size_t each = values.size() / 3;
      return std::all_of(values.begin() + matrix * each, values.begin() + (matrix + 1) * each, holds);
    };
    const auto is_nan = [](float v) { return std::isnan(v); };
    const auto is_number = [](float v) { return !std::isnan(v); };
    CHECK((is_nan(ran.results[0].values<float>()[4]) && ran.results[0].values<float>()[5] == 0));
    for (const size_t result : {1, 2, 3}) {
      CHECK(all_of(result, 1, is_number));
      CHECK(all_of(result, 2, is_nan));
    }
  }
}

TEST_CASE("a singular matrix has an inverse of infinities or NaN, which linalg::inv refuses") {
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    Graph g("singular");
    g.output(inverse(g.input("x", f32, {2, 2})));
    const Tensor y = run_on(device, g, {{"x", Tensor::of<float>({2, 2}, {1, 2, 2, 4})}}).results[0];
    const auto values = y.values<float>();
    CHECK(std::none_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
  }
}
