// What a package may be besides a graph's program: another precision, packed weights, states, several functions,
// images, labels. Each is written, read back and run; with RLX_COREML_CASES=dir the packages stay, for Apple's loader
// to judge.
#include "coreml/packages.h"
#include "io/mlpackage.h"
#include "reference/interpreter.h"
#include "rlx/autodiff.h"
#include "rlx/coreml.h"
#include "rlx/op_def.h"
#include "rlx/ops.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// A small model with weights: f32[2, 64] to probabilities of ten classes.
struct Small {
  Graph graph{"small"};
  NamedTensors params;
  Small() {
    Value x = graph.input("x", f32, {2, 64});
    Value w = graph.param("w", f32, {64, 96}), v = graph.param("v", f32, {96, 10});
    graph.output(softmax(matmul(gelu(matmul(x, w)), v)), "probabilities");
    params.emplace("w", numbers({64, 96}, -0.2, 0.2));
    params.emplace("v", numbers({96, 10}, -0.2, 0.2));
  }
};

}  // namespace

TEST_CASE("a package of f16 has inputs and outputs of f16, half the weights, and rounds once an op") {
  Packages packages;
  Small small;
  Tensor x = numbers({2, 64});
  std::string wide = packages / "f32", half = packages / "f16", mixed = packages / "mixed";
  auto wide_report = write_coreml(wide, small.graph, small.params);
  auto half_report = write_coreml(half, small.graph, small.params, {.precision = PackagePrecision::half});
  auto mixed_report = write_coreml(mixed, small.graph, small.params, {.precision = PackagePrecision::mixed});
  Tensor exact = run_one(wide, {{"x", x}});
  CHECK(half_report.weight_bytes < wide_report.weight_bytes * 6 / 10);
  CHECK(mixed_report.weight_bytes < wide_report.weight_bytes * 6 / 10);
  CHECK(half_report.minimum_ios == 16);
  CHECK(text_of(half_report).find("computes in f16") != std::string::npos);
  CHECK(text_of(mixed_report).find("computes in mixed precision") != std::string::npos);
  Tensor x16(f16, x.shape());
  for (size_t i = 0; i < x.element_count(); ++i) store<double>(x16, i, load_number(x, i));
  Tensor of_half = run_one(half, {{"x", x16}}), of_mixed = run_one(mixed, {{"x", x}});
  CHECK(of_half.dtype() == f16);
  CHECK(of_mixed.dtype() == f32);
  CHECK(distance(of_half, exact) < 0x1p-9);
  CHECK(distance(of_mixed, exact) < 0x1p-9);
  CHECK(distance(of_half, exact) > 0);
}

TEST_CASE("blocks and codes stay packed from iOS 18 on, with the numbers that they have unpacked") {
  Packages packages;
  Tensor x = numbers({2, 256}), dense = numbers({64, 256}, -0.3, 0.3);
  for (DType format : {q4_0, q5_0, q8_0, q4_1, mxfp4}) {
    CAPTURE(format);
    Graph g;
    Value v = g.input("x", f32, {2, 256});
    g.output(dequant_matmul(v, g.param("w", format, {64, 256})));
    NamedTensors params{{"w", quantized(dense, format)}};
    std::string path = packages / text_of(format), unpacked = packages / text_of(format, "_unpacked");
    auto report = write_coreml(path, g, params);
    auto wide = write_coreml(unpacked, g, params, {.minimum_ios = 15});
    CHECK(report.minimum_ios == 18);
    CHECK(wide.minimum_ios == 15);
    // Codes of 4 or 8 bits, and for each run of 32 a scale of f32, and a minimum if the format has one.
    uint64_t elements = 64 * 256, eight = format == q5_0 || format == q8_0;
    uint64_t bytes = elements * (eight ? 8 : 4) / 8 + elements / 32 * (format == q4_1 ? 8 : 4);
    CHECK(report.weight_bytes <= bytes + 1024);
    CHECK(wide.weight_bytes > elements * 4);
    CHECK(distance(run_one(path, {{"x", x}}), run_one(unpacked, {{"x", x}})) == 0);
  }
  // int8 and int4 with a scale for each 32 of a row
  for (DType codes : {i8, i4}) {
    Graph of_codes;
    Value v = of_codes.input("x", f32, {2, 256});
    Value w = of_codes.param("w", codes, {256, 64}), scale = of_codes.param("s", f32, {8, 64});
    of_codes.output(dequant_matmul(v, w, {scale}, 32));
    Tensor q(codes, {256, 64});
    for (size_t i = 0; i < q.element_count(); ++i) store<int64_t>(q, i, static_cast<int64_t>(i % 15) - 7);
    NamedTensors params{{"w", q}, {"s", numbers({8, 64}, 0.01, 0.1)}};
    std::string path = packages / text_of(codes), unpacked = packages / text_of(codes, "_unpacked");
    auto report = write_coreml(path, of_codes, params);
    write_coreml(unpacked, of_codes, params, {.minimum_ios = 15});
    CHECK(report.weight_bytes <= 256 * 64 * static_cast<uint64_t>(info(codes).bits) / 8 + 8 * 64 * 4 + 1024);
    CHECK(distance(run_one(path, {{"x", x}}), run_one(unpacked, {{"x", x}})) == 0);
  }
}

TEST_CASE("what reads codes is known by its lowering, and not by its name") {
  auto infer = [](Types in) { return Type{f32, in[0].dims}; };
  // One that reads codes and is called otherwise, and one that is called so and reads none.
  static const OpDef reads = define<>({.name = "user_unfold",
                                       .doc = "codes times scales",
                                       .operands = {"codes", "scales"},
                                       .infer = infer,
                                       .decompose = [](Values in) { return dequantize(in[0], in[1]); }});
  static const OpDef only_named =
      define<>({.name = "user_dequant_signs",
                .doc = "signs of codes",
                .operands = {"codes", "scales"},
                .infer = infer,
                .decompose = [](Values in) {
                  return convert(sign(in[0]), f32) * broadcast_in_dim(in[1], in[0].type().dims, {});
                }});
  Packages packages;
  for (const OpDef* op : {&reads, &only_named}) {
    CAPTURE(op->name);
    Graph g;
    Value x = g.input("x", f32, {2, 64});
    Value w = emit(*op, {g.param("w", i8, {64, 64}), g.param("s", f32, {})});
    g.output(matmul(x, w), "y");
    std::string path = packages / ("codes_of_" + std::string(op->name));
    PackageReport report =
        write_coreml(path, g, {{"w", numbers({64, 64}, -127, 127, i8)}, {"s", Tensor::scalar(0.5F)}});
    CHECK(report.minimum_ios == (op == &reads ? 16 : 15));
    CHECK(report.needed_by == (op == &reads ? "packed weights" : ""));
    if (op == &reads) CHECK(report.weight_bytes < 64 * 64 * 2);
  }
}

namespace {

/// How a format stands in a package (docs/coreml.md): bits of a code, elements of a run, whether a run has a minimum.
struct PackedForm {
  DType format;
  uint64_t bits, run;
  bool has_minimum;
};
const PackedForm kPackedForms[] = {
    {q1_0, 1, 32, false},    {q2_0, 2, 32, false},    {tq1_0, 2, 32, false},  {tq2_0, 2, 32, false},
    {q2_k, 2, 16, true},     {q3_k, 3, 16, false},    {iq4_nl, 4, 32, false}, {iq4_xs, 4, 32, false},
    {mxfp4, 4, 32, false},   {nvfp4, 4, 16, false},   {q4_0, 4, 32, false},   {q4_1, 4, 32, true},
    {q4_k, 4, 32, true},     {q5_1, 8, 32, true},     {q5_k, 8, 32, true},    {q5_0, 8, 32, false},
    {q6_k, 8, 16, false},    {q8_0, 8, 32, false},    {q8_k, 8, 32, false},   {iq1_s, 8, 32, false},
    {iq1_m, 8, 16, false},   {iq2_xxs, 8, 32, false}, {iq2_xs, 8, 16, false}, {iq2_s, 8, 16, false},
    {iq3_xxs, 8, 32, false}, {iq3_s, 8, 32, false},
};

/// Blocks that gguf made and their values by gguf (tests/golden/generate/blocks.py), rows that hold numbers only.
struct GoldenBlocks {
  Tensor blocks, values;
  GoldenBlocks(const SafetensorsFile& file, DType format) {
    Tensor bytes = file.tensor(text_of(format, "/blocks")), all = file.tensor(text_of(format, "/values"));
    auto width = static_cast<size_t>(info(format).block_bytes), elements = static_cast<size_t>(all.shape()[1]);
    std::vector<uint8_t> kept;
    std::vector<float> numbers;
    for (size_t row = 0; row < static_cast<size_t>(all.shape()[0]); ++row) {
      auto values_of_row = all.values<float>().subspan(row * elements, elements);
      if (!std::all_of(values_of_row.begin(), values_of_row.end(), [](float v) { return std::isfinite(v); })) continue;
      auto from = bytes.values<uint8_t>().subspan(row * width, width);
      kept.insert(kept.end(), from.begin(), from.end());
      numbers.insert(numbers.end(), values_of_row.begin(), values_of_row.end());
    }
    auto rows = static_cast<int64_t>(kept.size() / width);
    Tensor held = Tensor::of<uint8_t>({static_cast<int64_t>(kept.size())}, kept);
    blocks = Tensor::borrow(format, {rows, static_cast<int64_t>(elements)}, held.bytes(), held.owner());
    values = Tensor::of<float>({rows, static_cast<int64_t>(elements)}, numbers);
  }
};

}  // namespace

TEST_CASE("every block format stands in a package of iOS 18 in its form, with gguf's numbers") {
  auto golden = SafetensorsFile::open("tests/golden/blocks/blocks.safetensors");
  size_t formats = 0;
  for (size_t i = 0; i < kDTypeCount; ++i) formats += is_block(static_cast<DType>(i));
  CHECK(std::size(kPackedForms) == formats);
  Packages packages;
  for (const PackedForm& form : kPackedForms) {
    GoldenBlocks rows(golden, form.format);
    CAPTURE(form.format);
    REQUIRE(rows.values.element_count() >= 256);
    Graph g;
    Value w = g.param("w", form.format, {rows.values.shape()[0], rows.values.shape()[1]});
    g.output(dequantize_blocks(w, f32) * g.input("x", f32, {1, rows.values.shape()[1]}), "y");
    std::string path = packages / text_of("block_", form.format);
    auto report = write_coreml(path, g, {{"w", rows.blocks}}, {.minimum_ios = 18});
    uint64_t count = rows.values.element_count();
    uint64_t bytes = count * form.bits / 8 + count / form.run * (form.has_minimum ? 8 : 4);
    CHECK(report.weight_bytes >= bytes);
    CHECK(report.weight_bytes <= bytes + 512);  // records of 64 bytes, each at a multiple of that
    Tensor y = run_one(path, {{"x", full(f32, {1, rows.values.shape()[1]}, 1)}});
    CHECK(distance(y, rows.values) == 0);
  }
}

TEST_CASE("weights of few different numbers are a table and places in it, from iOS 16 on") {
  Packages packages;
  Tensor x = numbers({2, 96});
  for (int entries : {2, 4, 7, 16, 50, 256, 257}) {
    CAPTURE(entries);
    Tensor centroids = numbers({entries}), w(f32, {96, 64});
    for (size_t i = 0; i < w.element_count(); ++i) copy_element(w, i, centroids, i * 31 % static_cast<size_t>(entries));
    Graph g;
    g.output(matmul(g.input("x", f32, {2, 96}), g.param("w", f32, {96, 64})), "y");
    Tensor wanted = interpret(g, std::array{x}, {{"w", w}}).at(0);
    for (int ios : {15, 16, 17, 18}) {
      CAPTURE(ios);
      std::string path = packages / text_of("palette_", entries, "_", ios);
      PackageReport report = write_coreml(path, g, {{"w", w}}, {.minimum_ios = ios});
      uint64_t bits = entries <= 2    ? 1
                      : entries <= 4  ? 2
                      : entries <= 7  ? 3
                      : entries <= 16 ? 4
                      : entries <= 50 ? 6
                                      : 8;
      if (bits == 3 && ios < 18) bits = 4;
      if (ios == 15 || entries > 256) bits = 32;
      uint64_t bytes = 96 * 64 * bits / 8 + (bits < 32 ? uint64_t{4} << bits : 0);
      CHECK(report.weight_bytes >= bytes - 64);  // a table of less than 10 stands in the model
      CHECK(report.weight_bytes <= bytes + 512);
      CHECK(report.minimum_ios == (bits == 32 && ios < 18 ? 15 : ios));
      CHECK(distance(run_one(path, {{"x", x}}), wanted) <= 1e-5);
    }
  }
  // In f16 the table is of f16.
  Tensor few(f32, {96, 64});
  for (size_t i = 0; i < few.element_count(); ++i) store<double>(few, i, static_cast<double>(i % 5) / 4);
  Graph g;
  g.output(matmul(g.input("x", f32, {2, 96}), g.param("w", f32, {96, 64})), "y");
  PackageReport report =
      write_coreml(packages / "palette_f16", g, {{"w", few}}, {.minimum_ios = 16, .precision = PackagePrecision::half});
  CHECK(report.weight_bytes <= 96 * 64 * 4 / 8 + 512);
}

TEST_CASE("codes of 8 bits by channel stay such from iOS 16 on") {
  Packages packages;
  Tensor x = numbers({2, 96});
  for (DType codes : {i8, u8})
    for (bool by_channel : {false, true})
      for (bool with_zero : {false, true}) {
        CAPTURE(codes);
        CAPTURE(by_channel);
        CAPTURE(with_zero);
        Shape line = by_channel ? Shape{64} : Shape{};
        Graph g;
        Value v = g.input("x", f32, {2, 96}), w = g.param("w", codes, {96, 64});
        Value s = g.param("s", f32, by_channel ? Dims{64} : Dims{});
        std::vector<Value> in{w, s};
        if (with_zero) in.push_back(g.param("z", codes, by_channel ? Dims{64} : Dims{}));
        DequantizeAttrs attrs;
        if (by_channel) attrs.axis = 1;
        g.output(matmul(v, g.emit(op::dequantize, in, attrs)[0]), "y");
        Tensor q(codes, {96, 64});
        for (size_t i = 0; i < q.element_count(); ++i)
          store<int64_t>(q, i, static_cast<int64_t>(i * 37 % 256) - (codes == i8 ? 128 : 0));
        NamedTensors params{{"w", q}, {"s", numbers(line, 0.001, 0.01)}};
        if (with_zero) params["z"] = numbers(line, 0, 9, codes);
        Tensor wanted = interpret(g, std::array{x}, {params.begin(), params.end()}).at(0);
        for (int ios : {0, 15, 17, 18}) {
          CAPTURE(ios);
          std::string path = packages / text_of("channels_", codes, by_channel, with_zero, "_", ios);
          PackageReport report = write_coreml(path, g, params, {.minimum_ios = ios});
          CHECK(report.minimum_ios == (ios ? ios : 16));
          uint64_t bytes = 96 * 64;
          if (ios == 15) {  // integers of 32 bits, which stand in the model there
            CHECK(report.model_bytes > bytes);
          } else {
            CHECK(report.weight_bytes >= bytes);
            CHECK(report.weight_bytes <= bytes + 64 * 5 + 512);
          }
          CHECK(distance(run_one(path, {{"x", x}}), wanted) <= 1e-5);
        }
      }
}

TEST_CASE("blocks become the nearest codes where that is asked for, and the report says how far they are") {
  Packages packages;
  Tensor x = full(f32, {1, 256}, 1), dense = numbers({32, 256}, -0.3, 0.3);
  Graph g;
  g.output(dequantize_blocks(g.param("w", q4_0, {32, 256}), f32) * g.input("x", f32, {1, 256}), "y");
  NamedTensors params{{"w", quantized(dense, q4_0)}};
  Tensor exact = dequantized(params["w"], f32);
  auto note_of = [](const PackageReport& report) {
    for (const std::string& note : report.notes)
      if (note.find("greatest change is ") != std::string::npos) return note;
    return std::string();
  };
  // iOS 16 has codes by channel only: without the word the weights are f32.
  std::string plain = packages / "not_nearest", near = packages / "nearest_16", newest = packages / "nearest_18";
  PackageReport report = write_coreml(plain, g, params, {.minimum_ios = 16});
  CHECK(report.weight_bytes > 32 * 256 * 4);
  CHECK(note_of(report).empty());
  CHECK(distance(run_one(plain, {{"x", x}}), exact) == 0);
  report = write_coreml(near, g, params, {.minimum_ios = 16, .nearest = true});
  CHECK(report.minimum_ios == 16);
  CHECK(report.weight_bytes < 32 * 256 + 32 * 4 + 512);
  double change = distance(run_one(near, {{"x", x}}), exact);
  CHECK(change > 0);
  CHECK(change <= 0.3 / 127 / 2 * 1.2);  // half a step of a scale by 127ths of the greatest, about 0.3
  std::string said = note_of(report);
  REQUIRE(!said.empty());
  CHECK(std::stod(said.substr(said.find("change is ") + 10)) == doctest::Approx(change).epsilon(1e-3));
  // What iOS 18 holds exactly is not changed.
  report = write_coreml(newest, g, params, {.minimum_ios = 18, .nearest = true});
  CHECK(note_of(report).empty());
  CHECK(distance(run_one(newest, {{"x", x}}), exact) == 0);
}

TEST_CASE("what a package cannot be is refused by name") {
  Packages packages;
  std::string path = packages / "refused";
  Graph g;
  Value x = g.input("x", f32, {1, 3, 4, 5}), cache = g.input("cache", f32, {1, 3, 4, 5});
  Value other = g.input("other", f32, {1, 3, 4, 5});
  g.output(x + cache, "next"), g.output(x * other, "more");
  auto refused = [&](const PackageOptions& options, const char* why) {
    CHECK_THROWS_WITH_AS(write_coreml(path, g, {}, options), doctest::Contains(why), Error);
  };
  refused({.states = {{"cache", "next"}, {"cache", "more"}}}, "two states have the input 'cache'");
  refused({.states = {{"cache", "next"}, {"other", "next"}}}, "two states have the output 'next'");
  refused({.states = {{"cache", "next"}}, .images = {{"cache", {}}}}, "the input 'cache' is a state");
  refused({.feature_descriptions = {{"nothing", "a text"}}}, "the description of 'nothing'");
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("the report says in which form complex and wide inputs and outputs stand in the package") {
  Packages packages;
  Graph g;
  Value z = g.input("z", c64, {3}), w = g.input("w", f32, {2, 1, 3, 1, 2, 2});
  g.output(z * z, "squares"), g.output(w + 1.0, "more");
  std::string text = text_of(write_coreml(packages / "parts", g));
  for (const char* said :
       {"the input 'z' is c64[3] in the graph, and 'z_re' and 'z_im' of f32[3] in the package",
        "the input 'w' is f32[2, 1, 3, 1, 2, 2] in the graph, and f32[2, 3, 1, 2, 2] in the package",
        "the output 'squares' is c64[3] in the graph, and 'squares_re' and 'squares_im' of f32[3] in the package",
        "the output 'more' is f32[2, 1, 3, 1, 2, 2] in the graph, and f32[2, 3, 1, 2, 2] in the package"})
    CHECK_MESSAGE(text.find(said) != std::string::npos, said, " is not in\n", text);
}

TEST_CASE("what an output leaves in a state is what the input has in the next prediction") {
  Packages packages;
  Graph g;
  Value x = g.input("x", f32, {1, 4}), cache = g.input("cache", f32, {3, 4});
  Value next = concatenate({slice_axis(cache, 0, 1, 3), x}, 0);
  g.output(reduce_sum(next, {0}), "sum");
  g.output(next, "cache_next");
  std::string path = packages / "state";
  PackageReport report = write_coreml(path, g, {}, {.states = {{"cache", "cache_next"}}});
  CHECK(report.minimum_ios == 18);
  CoremlModel model = CoremlModel::load(path, {.threads = 1});
  REQUIRE(model.states().size() == 1);
  CoremlState state = model.make_state();
  double expected[] = {1, 3, 6, 9};  // of the last three of 1, 2, 3, 4
  for (int step = 0; step < 4; ++step) {
    auto out = model.predict({{"x", full(f32, {1, 4}, step + 1)}}, &state);
    REQUIRE(out.size() == 1);
    CHECK(load_number(out[0].second, 3) == expected[step]);
  }
  CHECK_THROWS_AS(write_coreml(path, g, {}, {.states = {{"cache", "nothing"}}}), Error);
  CHECK_THROWS_AS(write_coreml(path, g, {}, {.minimum_ios = 17, .states = {{"cache", "cache_next"}}}), Error);
}

TEST_CASE("functions of one package share their weights") {
  Packages packages;
  Small small;
  Graph other("logits");
  Value x = other.input("x", f32, {1, 64});
  other.output(matmul(x, other.param("w", f32, {64, 96})), "hidden");
  std::string path = packages / "functions", alone = packages / "function_alone";
  auto report = write_coreml(path, {{"classify", small.graph}, {"hidden", other}}, small.params);
  auto one = write_coreml(alone, small.graph, small.params, {.minimum_ios = 18});
  CHECK(report.weight_bytes == one.weight_bytes);
  Tensor in = numbers({2, 64});
  CHECK(distance(run_one(path, {{"x", in}}), run_one(alone, {{"x", in}})) == 0);
  Tensor row = numbers({1, 64});
  auto hidden = CoremlModel::load(path, {.function = "hidden", .threads = 1}).predict({{"x", row}});
  CHECK(distance(hidden.at(0).second, interpret(other, std::array{row}, {{"w", small.params.at("w")}}).at(0)) < 1e-5);
  CHECK_THROWS_AS(write_coreml(path, {{"a", other}, {"a", other}}, small.params), Error);
}

TEST_CASE("an image comes in as bytes and is scaled, a classifier answers with a label") {
  Packages packages;
  Graph g;
  Value image = g.input("image", f32, {1, 3, 4, 5});
  Value means = reshape(reduce_sum(image, {0, 2, 3}) / 20.0, {1, 3});
  g.output(softmax(means), "scores");
  std::string path = packages / "classifier";
  PackageOptions options{.description = "tells colors",
                         .feature_descriptions = {{"image", "a picture"}},
                         .images = {{"image", {PackageImage::Color::rgb, 1 / 127.5, {-1, -1, -1}}}},
                         .classes = {"red", "green", "blue"}};
  write_coreml(path, g, {}, options);
  CoremlModel model = CoremlModel::load(path, {.threads = 1});
  CHECK(model.inputs()[0].kind == "image");
  Tensor bytes(f32, {1, 3, 4, 5});  // green
  for (size_t i = 0; i < 60; ++i) store<double>(bytes, i, i / 20 == 1 ? 255 : 0);
  auto out = model.predict({{"image", bytes}});
  REQUIRE(out.size() == 2);
  CHECK(model.labels() == std::vector<std::string>{"red", "green", "blue"});
  CHECK(load_number(out[0].second, 0) == 1);
  CHECK(load_number(out[1].second, 1) == doctest::Approx(std::exp(1) / (std::exp(1) + 2 * std::exp(-1))));
  mil::Model described = MlPackage::open(path).model();
  CHECK(described.metadata.description == "tells colors");
  CHECK(described.main.inputs[0].doc == "a picture");
  CHECK(described.main.predicted_feature == "classLabel");
  CHECK_THROWS_AS(write_coreml(path, g, {}, {.classes = {"one", "two"}}), Error);
  CHECK_THROWS_WITH_AS(write_coreml(path, g, {}, {.probabilities = "y"}), doctest::Contains("no labels are given"),
                       Error);
  CHECK_THROWS_AS(write_coreml(path, g, {}, {.images = {{"nothing", {}}}}), Error);
}

TEST_CASE("a step of training is a package: gradients and Adam") {
  Packages packages;
  Graph loss("loss");
  {
    Value x = loss.input("x", f32, {8, 3}), y = loss.input("y", f32, {8, 1}), w = loss.input("w", f32, {3, 1});
    Value d = tanh(matmul(x, w)) - y;
    loss.output(reduce_sum(d * d, {0, 1}) / 8.0, "loss");
  }
  Graph gradient = value_and_grad(loss, {"w"}), step("step");
  std::vector<Value> in{step.input("x", f32, {8, 3}), step.input("y", f32, {8, 1}), step.input("w", f32, {3, 1})};
  Value m = step.input("m", f32, {3, 1}), v = step.input("v", f32, {3, 1}), count = step.input("step", i32, {});
  auto out = splice(step, gradient, in);
  Value rate = scalar(step, 0.1, f32);
  auto next = step.emit(op::adam_update, {in[2], out[1], rate, count, m, v}, AdamAttrs{});
  step.output(out[0], "loss");
  for (size_t i = 0; i < next.size(); ++i) step.output(next[i], std::array{"w_next", "m_next", "v_next"}[i]);
  std::string path = packages / "adam";
  write_coreml(path, step);
  CoremlModel model = CoremlModel::load(path, {.threads = 1});
  std::vector<Tensor> feed{numbers({8, 3}),     numbers({8, 1}),     full(f32, {3, 1}, 0.25),
                           Tensor(f32, {3, 1}), Tensor(f32, {3, 1}), Tensor()};
  std::vector<Tensor> packed = feed;
  for (int s = 1; s <= 5; ++s) {
    feed[5] = Tensor::scalar(s);
    packed[5] = feed[5].reshaped({1});
    auto wanted = interpret(step, feed);
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < packed.size(); ++i) named.emplace_back(model.inputs()[i].name, packed[i]);
    auto got = model.predict(named);
    for (size_t i = 1; i < 4; ++i) feed[i + 1] = wanted[i], packed[i + 1] = got[i].second;
    CHECK(distance(got[0].second, wanted[0]) < 1e-5);
    CHECK(distance(got[1].second, wanted[1]) < 1e-5);
  }
}

TEST_CASE("a grouped convolution of f16 is within half a step of its exact value, and what sums of f32 leave out") {
  // |made - exact| <= step / 2 + n 2^-24 sum |terms|: one rounding to f16, and n roundings of f32 before it. Where
  // terms cancel, the second part is many steps of a small element, so no bound in steps of the element alone holds.
  Packages packages;
  for (int64_t groups : {1, 2, 8}) {
    const int64_t channels = 16, out = 24, each = channels / groups, side = 9;
    Tensor x = numbers({1, channels, side, side}, -2, 2, f16), w = numbers({out, each, 3, 3}, -1, 1, f16);
    Graph g("grouped");
    g.output(
        conv(g.input("x", f16, x.type().dims), g.param("w", f16, w.type().dims), {.padding = {1, 1}, .groups = groups}),
        "y");
    std::string path = packages / text_of("grouped_f16_", groups);
    write_coreml(path, g, {{"w", w}}, {.minimum_ios = 16});  // the first with inputs of f16
    Tensor made = run_one(path, {{"x", x}});
    REQUIRE(made.type() == Type{f16, {1, out, side, side}});
    size_t beyond = 0;
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < side; ++i)
        for (int64_t j = 0; j < side; ++j) {
          double exact = 0, magnitude = 0;
          for (int64_t c = 0; c < each; ++c)
            for (int64_t a = std::max<int64_t>(0, 1 - i); a < std::min<int64_t>(3, side + 1 - i); ++a)
              for (int64_t b = std::max<int64_t>(0, 1 - j); b < std::min<int64_t>(3, side + 1 - j); ++b) {
                const int64_t from = o / (out / groups) * each + c;
                const double term = load_number(x, static_cast<size_t>((from * side + i + a - 1) * side + j + b - 1)) *
                                    load_number(w, static_cast<size_t>(((o * each + c) * 3 + a) * 3 + b));
                exact += term, magnitude += std::abs(term);
              }
          const double got = load_number(made, static_cast<size_t>((o * side + i) * side + j));
          const double step = std::ldexp(1.0, std::max(std::ilogb(std::max(std::abs(got), 1e-30)), -14) - 10);
          const double left_out = static_cast<double>(each * 9) * std::ldexp(magnitude, -24);
          beyond += std::abs(got - exact) > step / 2 + left_out;
        }
    CHECK(beyond == 0);
  }
}

TEST_CASE("random numbers are those of the key, or of Core ML's own stream where that is asked for") {
  Packages packages;
  Graph g("drawn");
  Value key = g.input("key", u32, {2}), x = g.input("x", f32, {1});
  g.output(rng_uniform(key, {64, 64}, f32, -1, 3) + broadcast_in_dim(x, {64, 64}, {1}), "uniform");
  g.output(rng_normal(key, {64, 64}, f32, 5, 0.5), "normal");
  const std::vector<NamedTensor> in{{"key", Tensor(i32, {2})}, {"x", Tensor(f32, {1})}};
  std::string own = packages / "random_own", keyed = packages / "random_keyed";
  PackageReport report = write_coreml(own, g, {}, {.narrow = true, .native_random = true});
  CHECK(std::any_of(report.notes.begin(), report.notes.end(), [](const std::string& note) {
    return note.find("drawn anew in each prediction") != std::string::npos;
  }));
  write_coreml(keyed, g, {}, {.narrow = true});
  auto operations = [](const std::string& path) {
    std::set<std::string> all;
    const MlPackage package = MlPackage::open(path);
    for (const mil::Operation& op : package.model().program.functions.at("main").body().operations) all.insert(op.type);
    return all;
  };
  CHECK(operations(own).contains("random_uniform"));
  CHECK(operations(own).contains("random_normal"));
  CHECK(!operations(keyed).contains("random_uniform"));
  CoremlModel model = CoremlModel::load(own, {.threads = 1});
  auto first = model.predict(in), second = model.predict(in);
  CHECK(distance(first[0].second, second[0].second) > 0.1);
  CHECK(distance(run_one(keyed, in), run_one(keyed, in)) == 0);
  // Of 4096 draws: the mean within 5 of its standard deviations, and nothing beyond the ends.
  double sum = 0, normal = 0, square = 0;
  for (size_t i = 0; i < 4096; ++i) {
    double u = load_number(first[0].second, i), n = load_number(first[1].second, i) - 5;
    CHECK((u >= -1 && u < 3));
    sum += u, normal += n, square += n * n;
  }
  CHECK(std::abs(sum / 4096 - 1) < 5 * 4 / std::sqrt(12.0 * 4096));
  CHECK(std::abs(normal / 4096) < 5 * 0.5 / 64);
  CHECK(std::abs(square / 4096 - 0.25) < 5 * 0.25 * std::sqrt(2.0 / 4096));
}
