// Programs built op by op, written, read back and predicted; the numbers beside formulas that are written out here. The
// packages are judged by Apple's loader too (apple_loader_test.py), and their ops are those that coremltools' own
// builder makes (builder_ops_test.py).
#include "packages.h"
#include "rlx/mil_builder.h"

namespace rlx::test {
namespace {

using MilValues = std::vector<MilValue>;

/// What the program gives, read back from a package and without one, which is to be the same to the bit.
std::vector<Tensor> predictions(const Packages& packages, const MilBuilder& b, const std::string& name,
                                const std::vector<NamedTensor>& inputs, const CoremlOptions& options = {}) {
  const std::string path = packages / name;
  b.write(path);
  auto from_file = CoremlModel::load(path, options).predict(inputs), from_memory = b.load(options).predict(inputs);
  REQUIRE(from_file.size() == from_memory.size());
  std::vector<Tensor> all;
  for (size_t i = 0; i < from_file.size(); ++i) {
    CHECK(from_file[i].first == from_memory[i].first);
    CHECK(from_file[i].second == from_memory[i].second);
    all.push_back(from_file[i].second);
  }
  return all;
}

double at(const Tensor& t, const std::vector<int64_t>& place) {
  int64_t flat = 0;
  for (size_t d = 0; d < place.size(); ++d) flat = flat * t.shape()[d] + place[d];
  return load_number(t, static_cast<size_t>(flat));
}

}  // namespace

TEST_CASE("the builder: a chain of element-wise ops") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("x", {f32, {2, 3}});
  MilValue y =
      b.op("tanh", {{"x", b.op("add", {{"x", b.op("mul", {{"x", x}, {"y", 0.5}}, "half")}, {"y", 0.25}})}}, "y");
  CHECK(y.name() == "y");
  CHECK(y.type() == Type{f32, {2, 3}});
  b.output(y);
  b.output(b.op("cast", {{"x", b.op("greater", {{"x", x}, {"y", 0}})}, {"dtype", "int32"}}, "positive"));
  Tensor in = numbers({2, 3});
  auto out = predictions(packages, b, "builder_chain", {{"x", in}});
  for (size_t i = 0; i < 6; ++i) {
    const double v = load_number(in, i);
    CHECK(load_number(out[0], i) == doctest::Approx(std::tanh(v * 0.5 + 0.25)).epsilon(1e-6));
    CHECK(load_number(out[1], i) == (v > 0 ? 1 : 0));
  }
  const MilReport report = b.report();
  CHECK(report.minimum_ios == 15);
  CHECK(report.needed_by == "");
  CHECK(report.weight_bytes == 0);
}

TEST_CASE("the builder: a convolution net whose weights stand in weight.bin") {
  Packages packages;
  MilBuilder b({.description = "a net", .author = "the tests"});
  const Tensor w1 = numbers({4, 3, 3, 3}), bias = numbers({4}), w2 = numbers({5, 4 * 4 * 4}, -0.2, 0.2),
               b2 = numbers({5});
  MilValue x = b.input("image", {f32, {1, 3, 8, 8}});
  MilValue c =
      b.op("conv", {{"x", x}, {"weight", w1}, {"bias", bias}, {"pad_type", "custom"}, {"pad", {1, 1, 1, 1}}}, "c");
  CHECK(c.type() == Type{f32, {1, 4, 8, 8}});
  MilValue r = b.op("relu", {{"x", c}});
  MilValue p = b.op("max_pool", {{"x", r}, {"kernel_sizes", {2, 2}}, {"strides", {2, 2}}, {"pad_type", "valid"}});
  CHECK(p.type() == Type{f32, {1, 4, 4, 4}});
  MilValue flat = b.op("reshape", {{"x", p}, {"shape", {1, -1}}});
  CHECK(flat.type() == Type{f32, {1, 64}});
  b.output(b.op("linear", {{"x", flat}, {"weight", w2}, {"bias", b2}}, "scores"));
  CHECK(b.report().weight_bytes >= (w1.byte_count() + w2.byte_count()));
  Tensor in = numbers({1, 3, 8, 8});
  Tensor out = predictions(packages, b, "builder_conv", {{"image", in}})[0];
  std::vector<double> pooled;
  for (int64_t o = 0; o < 4; ++o)
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        double most = 0;  // of relu
        for (int64_t h = 2 * i; h < 2 * i + 2; ++h)
          for (int64_t v = 2 * j; v < 2 * j + 2; ++v) {
            double sum = at(bias, {o});
            for (int64_t ch = 0; ch < 3; ++ch)
              for (int64_t m = 0; m < 3; ++m)
                for (int64_t n = 0; n < 3; ++n)
                  if (h + m >= 1 && h + m <= 8 && v + n >= 1 && v + n <= 8)
                    sum += at(w1, {o, ch, m, n}) * at(in, {0, ch, h + m - 1, v + n - 1});
            most = std::max(most, sum);
          }
        pooled.push_back(most);
      }
  for (int64_t o = 0; o < 5; ++o) {
    double sum = at(b2, {o});
    for (int64_t k = 0; k < 64; ++k) sum += at(w2, {o, k}) * pooled[static_cast<size_t>(k)];
    CHECK(at(out, {0, o}) == doctest::Approx(sum).epsilon(1e-5));
  }
}

TEST_CASE("the builder: attention of an open length") {
  Packages packages;
  MilBuilder b;
  const Dim length = Dim::symbol("S");
  const MilInput sizes{.sizes = {{"S", {.least = 1, .most = 16}}}};
  MilValues in;
  for (const char* name : {"q", "k", "v"}) in.push_back(b.input(name, {f32, {1, 2, length, 4}}, sizes));
  MilValue scores = b.op("matmul", {{"x", in[0]}, {"y", in[1]}, {"transpose_y", true}});
  CHECK(scores.type() == Type{f32, {1, 2, length, length}});
  CHECK(scores.type_text() == "fp32[1, 2, ?, ?]");
  MilValue weights = b.op("softmax", {{"x", b.op("mul", {{"x", scores}, {"y", 0.5}})}, {"axis", -1}});
  b.output(b.op("matmul", {{"x", weights}, {"y", in[2]}}, "attended"));
  for (int64_t n : {3, 5}) {
    CAPTURE(n);
    Tensor q = numbers({1, 2, n, 4}), k = numbers({1, 2, n, 4}, -2, 1), v = numbers({1, 2, n, 4}, 0, 3);
    Tensor out = predictions(packages, b, "builder_attention", {{"q", q}, {"k", k}, {"v", v}})[0];
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < n; ++i) {
        std::vector<double> e;
        double total = 0;
        for (int64_t j = 0; j < n; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < 4; ++d) dot += at(q, {0, h, i, d}) * at(k, {0, h, j, d});
          e.push_back(std::exp(dot / 2));
          total += e.back();
        }
        for (int64_t d = 0; d < 4; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < n; ++j) sum += e[static_cast<size_t>(j)] / total * at(v, {0, h, j, d});
          CHECK(at(out, {0, h, i, d}) == doctest::Approx(sum).epsilon(1e-5));
        }
      }
  }
  CHECK(
      error_of([&] {
        b.load().predict({{"q", numbers({1, 2, 17, 4})}, {"k", numbers({1, 2, 17, 4})}, {"v", numbers({1, 2, 17, 4})}});
      }).what() == doctest::Contains("1 to 16"));
}

TEST_CASE("the builder: a while loop, by functions and by calls") {
  // The least power of 2 that is not below the input, and how often it was doubled.
  auto built = [](bool by_calls) {
    MilBuilder b;
    MilValue x = b.input("x", {f32, {1}});
    MilValue limit = b.op("squeeze", {{"x", x}, {"axes", {0}}});
    MilValues first = {b.constant(Tensor::scalar(1.0f), "one"), b.constant(Tensor::scalar(int32_t{0}), "zero")};
    auto goes_on = [&](const MilValues& v) { return b.op("less", {{"x", v[0]}, {"y", limit}}); };
    auto next = [&](const MilValues& v) {
      return MilValues{b.op("mul", {{"x", v[0]}, {"y", 2}}), b.op("add", {{"x", v[1]}, {"y", 1}})};
    };
    MilValues last;
    if (by_calls) {
      MilValues v = b.begin_body(goes_on(b.begin_while(first, "loop")));
      last = b.end_while(next(v));
    } else {
      last = b.while_loop(first, goes_on, next, "loop");
    }
    CHECK(last[0].name() == "loop_0");
    CHECK(last[0].type() == Type{f32, {}});
    b.output(b.op("expand_dims", {{"x", last[0]}, {"axes", {0}}}, "power"));
    b.output(b.op("expand_dims", {{"x", last[1]}, {"axes", {0}}}, "doublings"));
    return b;
  };
  Packages packages;
  for (bool by_calls : {false, true})
    for (float limit : {0.5f, 1.0f, 100.0f}) {
      auto out = predictions(packages, built(by_calls), by_calls ? "builder_while_calls" : "builder_while",
                             {{"x", Tensor::of<float>({1}, {limit})}});
      const double power = limit <= 1 ? 1 : std::exp2(std::ceil(std::log2(limit)));
      CHECK(load_number(out[0], 0) == power);
      CHECK(load_number(out[1], 0) == std::log2(power));
    }
}

TEST_CASE("the builder: a loop whose var grows has an open dim") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("x", {f32, {1}});
  MilValue n = b.input("n", {i32, {1}});
  MilValue last = b.op("squeeze", {{"x", n}, {"axes", {0}}});
  MilValues first = {x, b.constant(Tensor::scalar(int32_t{0}), "i")};
  MilValues out = b.while_loop(
      first,
      [&](const MilValues& v) {
        return b.op("less", {{"x", v[1]}, {"y", last}});
      },
      [&](const MilValues& v) {
        return MilValues{b.op("concat", {{"values", {v[0], b.op("mul", {{"x", x}, {"y", 3}})}}, {"axis", 0}}),
                         b.op("add", {{"x", v[1]}, {"y", 1}})};
      },
      "grow", {{f32, {Dim::symbol("length")}}, {i32, {}}});
  CHECK(out[0].type_text() == "fp32[?]");
  b.output(b.op("identity", {{"x", out[0]}}, "grown"));
  Tensor y = predictions(packages, b, "builder_grow",
                         {{"x", Tensor::of<float>({1}, {2})}, {"n", Tensor::of<int32_t>({1}, {3})}})[0];
  CHECK(y == Tensor::of<float>({4}, {2, 6, 6, 6}));
}

TEST_CASE("the builder: a cond, and one inside of it") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("x", {f32, {2}});
  auto is_over = [&](double limit) {
    MilValue sum = b.op("reduce_sum", {{"x", x}, {"axes", {0}}, {"keep_dims", false}});
    return b.op("greater", {{"x", sum}, {"y", limit}});
  };
  MilValues y = b.cond(
      is_over(0),
      [&] {
        return b.cond(
            is_over(10),
            [&] {
              return MilValues{b.op("mul", {{"x", x}, {"y", 100}})};
            },
            [&] { return MilValues{x}; });
      },
      [&] {
        return MilValues{b.op("mul", {{"x", x}, {"y", -1}})};
      },
      "choice");
  CHECK(y.size() == 1);
  CHECK(y[0].name() == "choice");
  b.output(y[0]);
  for (auto [a, c, factor] : {std::tuple(-1.f, -2.f, -1.f), {1.f, 2.f, 1.f}, {6.f, 7.f, 100.f}})
    CHECK(predictions(packages, b, "builder_cond", {{"x", Tensor::of<float>({2}, {a, c})}})[0] ==
          Tensor::of<float>({2}, {a * factor, c * factor}));
}

TEST_CASE("the builder: an LSTM gives all of its results") {
  Packages packages;
  MilBuilder b;
  const int64_t steps = 3, batch = 2, in = 3, hidden = 4;
  const Tensor ih = numbers({4 * hidden, in}), hh = numbers({4 * hidden, hidden}, -0.5, 0.5),
               bias = numbers({4 * hidden});
  MilValue x = b.input("x", {f32, {steps, batch, in}});
  MilValue h0 = b.constant(Tensor(f32, {batch, hidden})), c0 = b.constant(Tensor(f32, {batch, hidden}));
  MilValues y = b.op_many("lstm",
                          {{"x", x},
                           {"initial_h", h0},
                           {"initial_c", c0},
                           {"weight_ih", ih},
                           {"weight_hh", hh},
                           {"bias", bias},
                           {"output_sequence", true}},
                          "lstm");
  REQUIRE(y.size() == 3);
  CHECK(y[0].type() == Type{f32, {steps, batch, hidden}});
  CHECK(y[2].type() == Type{f32, {batch, hidden}});
  CHECK(y[2].name() == "lstm_2");
  for (const MilValue& v : y) b.output(v);
  Tensor fed = numbers({steps, batch, in}, -2, 2);
  auto out = predictions(packages, b, "builder_lstm", {{"x", fed}});
  auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (int64_t n = 0; n < batch; ++n) {
    std::vector<double> h(hidden), c(hidden);
    for (int64_t t = 0; t < steps; ++t) {
      std::vector<double> gates;
      for (int64_t g = 0; g < 4 * hidden; ++g) {
        double sum = at(bias, {g});
        for (int64_t k = 0; k < in; ++k) sum += at(ih, {g, k}) * at(fed, {t, n, k});
        for (int64_t k = 0; k < hidden; ++k) sum += at(hh, {g, k}) * h[static_cast<size_t>(k)];
        gates.push_back(sum);
      }
      for (int64_t k = 0; k < hidden; ++k) {  // in the order input, forget, output, cell
        auto gate = [&](int64_t i) { return gates[static_cast<size_t>(i * hidden + k)]; };
        double& cell = c[static_cast<size_t>(k)];
        cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * std::tanh(gate(3));
        h[static_cast<size_t>(k)] = sigmoid(gate(2)) * std::tanh(cell);
      }
      for (int64_t k = 0; k < hidden; ++k)
        CHECK(at(out[0], {t, n, k}) == doctest::Approx(h[static_cast<size_t>(k)]).epsilon(1e-5));
    }
    for (int64_t k = 0; k < hidden; ++k) {
      CHECK(at(out[1], {n, k}) == doctest::Approx(h[static_cast<size_t>(k)]).epsilon(1e-5));
      CHECK(at(out[2], {n, k}) == doctest::Approx(c[static_cast<size_t>(k)]).epsilon(1e-5));
    }
  }
}

TEST_CASE("the builder: a state is kept between predictions") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("x", {f16, {2}}), total = b.state("total", {f16, {2}});
  CHECK(total.type_text() == "state(fp16[2])");
  MilValue sum = b.op("add", {{"x", b.op("read_state", {{"input", total}})}, {"y", x}}, "sum");
  CHECK(!b.op("write_state", {{"input", total}, {"data", sum}}));
  b.output(b.op("mul", {{"x", b.op("read_state", {{"input", total}})}, {"y", 2}}, "twice"));
  CHECK(b.report().minimum_ios == 18);
  CHECK(b.report().needed_by == "a state");
  b.write(packages / "builder_state");
  auto model = CoremlModel::load(packages / "builder_state");
  CoremlState state = model.make_state();
  Tensor one(f16, {2});
  store<double>(one, 0, 1), store<double>(one, 1, 2.5);
  for (double n : {1.0, 2.0, 3.0}) {
    Tensor y = model.predict({{"x", one}}, &state)[0].second;
    CHECK(load_number(y, 0) == 2 * n);
    CHECK(load_number(y, 1) == 5 * n);
    CHECK(load_number(state.at("total"), 1) == 2.5 * n);
  }
}

TEST_CASE("the builder: weights of 8 bits, by channel and by block") {
  Packages packages;
  Tensor codes(i8, {4, 16}), scale(f32, {4});
  for (size_t i = 0; i < 64; ++i) codes.mutable_values<int8_t>()[i] = static_cast<int8_t>(int(i * 37 % 255) - 127);
  for (size_t i = 0; i < 4; ++i) scale.mutable_values<float>()[i] = 0.01f * float(i + 1);
  Tensor in = numbers({2, 16});
  SUBCASE("affine") {
    for (int ios : {16, 18}) {
      MilBuilder b({.minimum_ios = ios});
      MilValue w = b.op(
          "constexpr_affine_dequantize",
          {{"quantized_data", codes}, {"zero_point", Tensor::scalar(int8_t{3})}, {"scale", scale}, {"axis", 0}}, "w");
      CHECK(w.type() == Type{f32, {4, 16}});
      b.output(b.op("matmul", {{"x", b.input("x", {f32, {2, 16}})}, {"y", w}, {"transpose_y", true}}, "y"));
      Tensor y = predictions(packages, b, text_of("builder_affine", ios), {{"x", in}})[0];
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t o = 0; o < 4; ++o) {
          double sum = 0;
          for (int64_t k = 0; k < 16; ++k) sum += at(in, {i, k}) * at(scale, {o}) * (at(codes, {o, k}) - 3);
          CHECK(at(y, {i, o}) == doctest::Approx(sum).epsilon(1e-5));
        }
    }
  }
  SUBCASE("in blocks of 8") {
    MilBuilder b;
    Tensor scales = numbers({4, 2}, 0.01, 0.02);
    MilValue w = b.op("constexpr_blockwise_shift_scale", {{"data", codes}, {"scale", scales}}, "w");
    b.output(b.op("linear", {{"x", b.input("x", {f32, {2, 16}})}, {"weight", w}, {"bias", Tensor(f32, {4})}}, "y"));
    CHECK(b.report().minimum_ios == 18);
    CHECK(b.report().needed_by == "constexpr_blockwise_shift_scale");
    Tensor y = predictions(packages, b, "builder_blockwise", {{"x", in}})[0];
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t o = 0; o < 4; ++o) {
        double sum = 0;
        for (int64_t k = 0; k < 16; ++k) sum += at(in, {i, k}) * at(scales, {o, k / 8}) * at(codes, {o, k});
        CHECK(at(y, {i, o}) == doctest::Approx(sum).epsilon(1e-5));
      }
  }
}

TEST_CASE("the builder: two functions over one set of weights") {
  Packages packages;
  const Tensor w = numbers({8, 8});
  MilBuilder b;
  for (const std::string name : {"plain", "doubled"}) {
    b.function(name);
    const bool is_doubled = name == "doubled";
    MilValue y = b.op("linear", {{"x", b.input("x", {f32, {1, 8}})}, {"weight", w}, {"bias", Tensor(f32, {8})}},
                      is_doubled ? "once" : "y");
    if (is_doubled) y = b.op("mul", {{"x", y}, {"y", 2}}, "y");
    b.output(y);
  }
  const MilReport report = b.report();
  CHECK(report.minimum_ios == 18);
  CHECK(report.weight_bytes < 2 * w.byte_count());
  Tensor in = numbers({1, 8});
  Tensor plain = predictions(packages, b, "builder_functions", {{"x", in}})[0];
  Tensor doubled = predictions(packages, b, "builder_functions", {{"x", in}}, {.function = "doubled"})[0];
  for (int64_t o = 0; o < 8; ++o) {
    double sum = 0;
    for (int64_t k = 0; k < 8; ++k) sum += at(in, {0, k}) * at(w, {o, k});
    CHECK(at(plain, {0, o}) == doctest::Approx(sum).epsilon(1e-5));
    CHECK(at(doubled, {0, o}) == doctest::Approx(2 * sum).epsilon(1e-5));
  }
}

TEST_CASE("the builder: a classifier of an image") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("image", {f32, {1, 3, 4, 4}}, {.image = PackageImage::Color::rgb});
  MilValue means = b.op("reduce_mean", {{"x", x}, {"axes", {2, 3}}, {"keep_dims", false}});
  MilValue p = b.op("softmax", {{"x", b.op("mul", {{"x", means}, {"y", 0.1}})}, {"axis", -1}}, "p");
  MilValues found = b.op_many("classify", {{"probabilities", p}, {"classes", {"red", "green", "blue"}}}, "label");
  REQUIRE(found.size() == 2);
  CHECK(found[0].type_text() == "string[]");
  b.output(found[0]), b.output(found[1]);
  Tensor in(f32, {1, 3, 4, 4});
  for (size_t i = 0; i < 48; ++i) in.mutable_values<float>()[i] = i / 16 == 1 ? 200.f : 100.f;
  b.write(packages / "builder_classifier");
  auto model = CoremlModel::load(packages / "builder_classifier");
  auto out = model.predict({{"image", in}});
  CHECK(model.inputs()[0].kind == "image");
  CHECK(model.labels().at(static_cast<size_t>(load_number(out[0].second, 0))) == "green");
}

TEST_CASE("the builder: a type that data decide is stated") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("x", {f32, {4}});
  const Type places{i32, {Dim::symbol("found"), 1}};
  CHECK(error_of([&] { b.op("non_zero", {{"x", x}}); }).what() == doctest::Contains("`types` may state it"));
  MilValue where = b.op("non_zero", {{"x", x}}, "where", {places});
  CHECK(where.type() == places);
  b.output(b.op("gather_nd", {{"x", x}, {"indices", where}}, "kept"));
  Tensor y = predictions(packages, b, "builder_stated", {{"x", Tensor::of<float>({4}, {0, 2, 0, 5})}})[0];
  CHECK(y == Tensor::of<float>({2}, {2, 5}));
}

TEST_CASE("the builder: numbers are of the dtype of what they stand beside, and the opset is the oldest that will do") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("x", {f16, {2, 4}});
  MilValue y = b.op("layer_norm", {{"x", x}, {"axes", {-1}}, {"epsilon", 1e-3}});
  CHECK(y.type() == Type{f16, {2, 4}});
  MilValue z = b.op("clip", {{"x", y}, {"alpha", -1}, {"beta", 1}}, "z");
  b.output(z);
  CHECK(b.report().minimum_ios == 16);
  CHECK(b.report().needed_by == "an input of fp16");
  Tensor in = numbers({2, 4}, -3, 3, f16);
  Tensor out = predictions(packages, b, "builder_half", {{"x", in}})[0];
  for (int64_t i = 0; i < 2; ++i) {
    double mean = 0, variance = 0;
    for (int64_t k = 0; k < 4; ++k) mean += at(in, {i, k}) / 4;
    for (int64_t k = 0; k < 4; ++k) variance += std::pow(at(in, {i, k}) - mean, 2) / 4;
    for (int64_t k = 0; k < 4; ++k) {
      double wanted = std::clamp((at(in, {i, k}) - mean) / std::sqrt(variance + 1e-3), -1.0, 1.0);
      CHECK(at(out, {i, k}) == doctest::Approx(wanted).epsilon(2e-3));
    }
  }
}

TEST_CASE("the builder: a list is written, and read again") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("x", {f32, {3}});
  MilValue list =
      b.op("make_list", {{"init_length", 2}, {"dynamic_length", false}, {"elem_shape", {3}}, {"dtype", "fp32"}});
  CHECK(list.type_text() == "list(fp32[3], 2)");
  list = b.op("list_write", {{"ls", list}, {"index", 0}, {"value", x}});
  list = b.op("list_write", {{"ls", list}, {"index", 1}, {"value", b.op("mul", {{"x", x}, {"y", 2}})}});
  b.output(b.op("list_gather", {{"ls", list}, {"indices", {1, 0}}}, "both"));
  Tensor y = predictions(packages, b, "builder_list", {{"x", Tensor::of<float>({3}, {1, 2, 3})}})[0];
  CHECK(y == Tensor::of<float>({2, 3}, {2, 4, 6, 1, 2, 3}));
}

// tests/mil/rebuild_test.cpp builds what the packages there have; these are the ops that are left.
TEST_CASE("the builder: element-wise ops and reductions that no package of tests/mil has") {
  Packages packages;
  MilBuilder b;
  MilValue x = b.input("x", {f32, {2, 3}});
  const std::vector<std::pair<const char*, double (*)(double)>> unary = {
      {"acos", std::acos}, {"ceil", std::ceil},   {"cos", std::cos},   {"erf", std::erf},
      {"exp2", std::exp2}, {"floor", std::floor}, {"sinh", std::sinh},
  };
  for (const auto& each : unary) b.output(b.op(each.first, {{"x", x}}), text_of("of_", each.first));
  MilValue eight = b.op("mul", {{"x", x}, {"y", 8}}, "eight");
  b.output(b.op("relu6", {{"x", eight}}, "relu6"));
  b.output(b.op("pow", {{"x", b.op("abs", {{"x", x}})}, {"y", 1.5}}, "pow"));
  for (const char* op : {"reduce_min", "reduce_l2_norm", "reduce_log_sum_exp"})
    b.output(b.op(op, {{"x", x}, {"axes", {1}}, {"keep_dims", false}}), text_of("by_", op));
  MilValue low = b.op("less", {{"x", x}, {"y", 0.5}}), high = b.op("greater", {{"x", x}, {"y", -0.5}});
  for (const char* op : {"logical_and", "logical_or", "logical_xor"})
    b.output(b.op("cast", {{"x", b.op(op, {{"x", low}, {"y", high}})}, {"dtype", "int32"}}), text_of("by_", op));
  b.output(b.op("cast", {{"x", b.op("logical_not", {{"x", low}})}, {"dtype", "int32"}}, "by_not"));
  Tensor in = numbers({2, 3});
  auto out = predictions(packages, b, "builder_others", {{"x", in}});
  REQUIRE(out.size() == 16);
  for (size_t i = 0; i < 6; ++i) {
    const double v = load_number(in, i);
    for (size_t k = 0; k < unary.size(); ++k)
      CHECK(load_number(out[k], i) == doctest::Approx(unary[k].second(v)).epsilon(1e-5));
    CHECK(load_number(out[7], i) == doctest::Approx(std::clamp(8 * v, 0.0, 6.0)));
    CHECK(load_number(out[8], i) == doctest::Approx(std::pow(std::abs(v), 1.5)).epsilon(1e-5));
    const bool is_low = v<0.5, is_high = v> - 0.5;
    CHECK(load_number(out[12], i) == (is_low && is_high));
    CHECK(load_number(out[13], i) == (is_low || is_high));
    CHECK(load_number(out[14], i) == (is_low != is_high));
    CHECK(load_number(out[15], i) == !is_low);
  }
  for (int64_t r = 0; r < 2; ++r) {
    double least = 1e9, squares = 0, exponents = 0;
    for (int64_t c = 0; c < 3; ++c) {
      const double v = at(in, {r, c});
      least = std::min(least, v), squares += v * v, exponents += std::exp(v);
    }
    CHECK(at(out[9], {r}) == doctest::Approx(least));
    CHECK(at(out[10], {r}) == doctest::Approx(std::sqrt(squares)));
    CHECK(at(out[11], {r}) == doctest::Approx(std::log(exponents)));
  }
}

TEST_CASE("the builder: ops of images, lists and boxes that no package of tests/mil has") {
  Packages packages;
  MilBuilder b({.minimum_ios = 15});
  MilValue x = b.input("x", {f32, {1, 1, 4, 4}});
  MilValue batched =
      b.op("space_to_batch", {{"x", x}, {"block_shape", {2, 2}}, {"paddings", Tensor(i32, {2, 2})}}, "batched");
  CHECK(batched.type() == Type{f32, {4, 1, 2, 2}});
  b.output(batched);
  b.output(b.op("batch_to_space", {{"x", batched}, {"block_shape", {2, 2}}, {"crops", Tensor(i32, {2, 2})}}, "back"));
  b.output(
      b.op("upsample_nearest_neighbor", {{"x", x}, {"scale_factor_height", 2}, {"scale_factor_width", 1}}, "tall"));
  MilValue places = b.input("places", {i32, {3}});
  b.output(
      b.op("one_hot", {{"indices", places}, {"one_hot_vector_size", 4}, {"on_value", 2.5}, {"off_value", 0.5}}, "hot"));
  MilValue list = b.op("make_list", {{"init_length", 3}, {"dynamic_length", false}, {"elem_shape", {4}}});
  list = b.op("list_scatter",
              {{"ls", list}, {"indices", {2, 0}}, {"value", Tensor::of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}});
  b.output(b.op("list_read", {{"ls", list}, {"index", 2}}, "third"));
  std::vector<MilValue> kept = b.op_many("non_maximum_suppression",
                                         {{"boxes", b.input("boxes", {f32, {1, 3, 4}})},
                                          {"scores", b.input("scores", {f32, {1, 3, 1}})},
                                          {"iou_threshold", 0.5},
                                          {"score_threshold", 0.1},
                                          {"max_boxes", 2}},
                                         "nms");
  REQUIRE(kept.size() == 4);
  b.output(kept[2], "which");
  Tensor in = numbers({1, 1, 4, 4});
  auto out = predictions(packages, b, "builder_images",
                         {{"x", in},
                          {"places", Tensor::of<int32_t>({3}, {1, 0, 3})},
                          // Two of one place, and one far away, which has the least score.
                          {"boxes", Tensor::of<float>({1, 3, 4}, {1, 1, 2, 2, 1, 1, 2, 2.1f, 9, 9, 2, 2})},
                          {"scores", Tensor::of<float>({1, 3, 1}, {0.6f, 0.9f, 0.3f})}});
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      CHECK(at(out[0], {i % 2 * 2 + j % 2, 0, i / 2, j / 2}) == at(in, {0, 0, i, j}));
      CHECK(at(out[2], {0, 0, 2 * i + 1, j}) == at(in, {0, 0, i, j}));
    }
  CHECK(out[1] == in);
  CHECK(out[3] == Tensor::of<float>({3, 4}, {.5f, 2.5f, .5f, .5f, 2.5f, .5f, .5f, .5f, .5f, .5f, .5f, 2.5f}));
  CHECK(out[4] == Tensor::of<float>({4}, {1, 2, 3, 4}));
  CHECK(out[5] == Tensor::of<int32_t>({1, 2}, {1, 2}));
}

}  // namespace rlx::test
