// Packages of flexible shapes: symbols of a graph stay open, and the package gives at every size what the graph gives
// with that number for the symbol. Expected values are the reference's.
#include "coreml/open_packages.h"
#include "io/mlpackage.h"
#include "rlx/session.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("layers over a batch and a sequence of any length") {
  Graph g("layers");
  Value x = g.input("x", f32, {kB, kS, 8});
  Value w = g.constant(numbers({8, 12})), b = g.constant(numbers({12})), v = g.constant(numbers({12, 4}));
  Value h = gelu(matmul(x, w) + b);
  g.output(softmax(matmul(h, v)), "scores");
  g.output(mean(h, {1}), "means");
  g.output(layer_norm(h, g.constant(numbers({12})), b), "normed");
  g.output(reduce_max(h, {0, 1, 2}), "most");
  g.output(argmax(matmul(h, v), -1), "best");
  check_open("layers", g, kSizes);
}

TEST_CASE("attention with heads and a causal mask, of any length") {
  Graph g("attention");
  Value x = g.input("x", f32, {kB, kS, 12});
  auto heads = [&](double from) {
    Value y = matmul(x, g.constant(numbers({12, 12}, from, 1)));
    return transpose(reshape(y, {kB, kS, 3, 4}), {0, 2, 1, 3});
  };
  Value q = heads(-1), k = heads(-0.5), v = heads(-0.7);
  Value scores = matmul(q, transpose(k, {0, 1, 3, 2})) * 0.5;
  Value row = iota(g, {i32, {kS, kS}}, 0), column = iota(g, {i32, {kS, kS}}, 1);
  Value seen = broadcast_in_dim(compare(row, column, Comparison::ge), {kB, 3, kS, kS}, {2, 3});
  Value p = softmax(select(seen, scores, full_like(scores, -1e9)));
  g.output(reshape(transpose(matmul(p, v), {0, 2, 1, 3}), {kB, kS, 12}), "y");
  check_open("attention", g, kSizes);
}

TEST_CASE("rows of a table, masks, and sums that are divided by a length") {
  Graph g("embeddings");
  Value ids = g.input("ids", i32, {kB, kS}), mask = g.input("mask", i32, {kB, kS});
  Value rows = take(g.constant(numbers({7, 6})), ids);
  Value weight = convert(compare(mask, scalar(g, 3.0, i32), Comparison::lt), f32);
  Value sum = reduce_sum(rows * reshape(weight, {kB, kS, 1}), {1});
  g.output(sum / convert(extent(g, kS, i32), f32), "mean");
  g.output(convert(extent(g, kB * kS + 1, i32), f32) + 0.5, "count");
  check_open("embeddings", g, kSizes);
}

TEST_CASE("what joins, cuts, pads and turns") {
  Graph g("moved");
  Value x = g.input("x", f32, {kB, kS, 6}), y = g.input("y", f32, {kB, 3, 6});
  Value joined = concatenate({x, y, x}, 1);  // 2S + 3
  g.output(joined, "joined");
  g.output(slice(joined, {0, 1, 2}, {kB, kS * 2 + 2, 6}), "cut");
  g.output(slice(x, {0, 0, 1}, {kB, kS, 6}, {1, 1, 2}), "stepped");
  g.output(pad(x, scalar(g, 0.5, f32), {{0, 1, 0}, {0, 2, 3}, {}}), "padded");
  g.output(reverse(transpose(x, {2, 0, 1}), {2}), "turned");
  g.output(reshape(x, {kB * kS, 2, 3}), "joint");
  g.output(broadcast_in_dim(reduce_sum(x, {2}), {kB, kS, 2}, {0, 1}), "repeated");
  g.output(cumsum(x, 1), "sums");
  g.output(sort({x}, {.axis = 1})[0], "sorted");
  check_open("moved", g, kSizes);
}

TEST_CASE("products over open dims") {
  Graph g("products");
  Value x = g.input("x", f32, {kB, kS, 4, 3}), y = g.input("y", f32, {kB, kS, 5});
  // Contracted over the sequence, and one whose free dims are joined.
  g.output(dot_general(x, y, {{0}, {0}, {1}, {1}}), "over_sequence");
  g.output(dot_general(x, g.constant(numbers({2, 3})), {{}, {}, {3}, {1}}), "free");
  check_open("products", g, kSizes);
}

TEST_CASE("images of any size, in batches") {
  Graph g("fully_convolutional");
  const Dim h = Dim::symbol("H"), w = Dim::symbol("W");
  Value x = g.input("x", f32, {kB, 3, h, w});
  Value y = relu(conv(x, g.constant(numbers({4, 3, 3, 3})), {.padding = {1, 1}}));
  Value z = conv(y, g.constant(numbers({2, 4, 3, 3})));
  g.output(z, "map");
  g.output(pool(y, {.kernel_size = {2, 2}, .stride = {1, 1}, .padding = {1, 0}}), "most");
  g.output(pool(y, {.kind = PoolKind::mean, .kernel_size = {3, 2}, .stride = {1, 1}}), "means");
  g.output(mean(z, {2, 3}), "pooled");
  check_open("convolution", g, {{{"B", 1}, {"H", 4}, {"W", 5}}, {{"B", 2}, {"H", 9}, {"W", 3}}},
             {.shapes = {{"B", {1, 4}}, {"H", {3, 64}}, {"W", {3, 64}}}});
}

TEST_CASE("the description has ranges or lists, and the least or the first is the default") {
  Packages packages;
  Graph g("two");
  Value x = g.input("x", f32, {kB, kS, 2});
  g.output(x * 2.0, "y");
  g.output(reduce_sum(x, {0, 1}), "sum");
  std::string path = packages / "shapes_ranges";
  PackageReport report = write_coreml(path, g, {}, {.shapes = package_shapes("B=1..8 S=4..")});
  CHECK(report.minimum_ios == 15);
  mil::Feature in = MlPackage::open(path).model().main.inputs.at(0);
  CHECK(in.shape == Shape{1, 4, 2});
  REQUIRE(in.flexibility.ranges.size() == 3);
  CHECK(in.flexibility.ranges[0].lower == 1);
  CHECK(in.flexibility.ranges[0].upper == 8);
  CHECK(in.flexibility.ranges[1].lower == 4);
  CHECK(!in.flexibility.ranges[1].upper);
  CHECK(in.flexibility.ranges[2].lower == 2);
  CHECK(in.flexibility.ranges[2].upper == 2);
  std::string listed = packages / "shapes_listed";
  report = write_coreml(listed, g, {}, {.shapes = package_shapes("B=1,2,2 S=16,16,64")});
  CHECK(report.minimum_ios == 15);
  in = MlPackage::open(listed).model().main.inputs.at(0);
  CHECK(in.flexibility.shapes == std::vector<Shape>{{1, 16, 2}, {2, 16, 2}, {2, 64, 2}});
  CHECK(in.shape == Shape{1, 16, 2});
  check_at(listed, g, {{"B", 2}, {"S", 64}});
  // At a prediction no other sizes are taken, as Core ML takes none.
  auto refused_at = [](const std::string& package, const Shape& shape) {
    try {
      CoremlModel::load(package).predict({{"x", numbers(shape)}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused_at(listed, {2, 16, 2}).empty());
  CHECK(refused_at(listed, {1, 64, 2}).find("the package allows f32[1, 16, 2], f32[2, 16, 2], f32[2, 64, 2]") !=
        std::string::npos);
  CHECK(refused_at(path, {9, 4, 2}).find("the package allows 1 to 8 elements along dim 0") != std::string::npos);
  CHECK(refused_at(path, {8, 3, 2}).find("the package allows 4 to any number of elements along dim 1") !=
        std::string::npos);
  // A number for one symbol, sizes for the other.
  write_coreml(path, g, {}, {.dims = {{"B", 3}}, .shapes = package_shapes("S=2..5")});
  CHECK(MlPackage::open(path).model().main.inputs.at(0).shape == Shape{3, 2, 2});
  check_at(path, g, {{"B", 3}, {"S", 5}});
  // Lists for several inputs are for iOS 18.
  Graph two("two");
  Value a = two.input("a", f32, {kS}), b = two.input("b", f32, {kS});
  two.output(a + b, "y");
  std::string both = packages / "shapes_two";
  report = write_coreml(both, two, {}, {.shapes = package_shapes("S=2,3")});
  CHECK(report.minimum_ios == 18);
  CHECK(report.needed_by == "several inputs with lists of shapes");
  CHECK_THROWS_WITH_AS(write_coreml(both, two, {}, {.minimum_ios = 17, .shapes = package_shapes("S=2,3")}),
                       doctest::Contains("need iOS 18"), Error);
}

TEST_CASE("images have ranges or lists of sizes") {
  Packages packages;
  const Dim h = Dim::symbol("H"), w = Dim::symbol("W");
  Graph g("pictures");
  Value x = g.input("x", f32, {1, 3, h, w});
  g.output(mean(relu(conv(x, g.constant(numbers({4, 3, 3, 3})), {.padding = {1, 1}})), {2, 3}), "y");
  PackageOptions options{.shapes = package_shapes("H=4..32 W=6.."), .images = {{"x", {.scale = 1 / 255.0}}}};
  std::string ranges = packages / "image_ranges", lists = packages / "image_lists";
  write_coreml(ranges, g, {}, options);
  mil::Feature in = MlPackage::open(ranges).model().main.inputs.at(0);
  CHECK(in.kind == mil::Feature::Kind::image);
  CHECK(in.shape == Shape{4, 6});
  REQUIRE(in.flexibility.ranges.size() == 2);  // width first
  CHECK(in.flexibility.ranges[0].lower == 6);
  CHECK(!in.flexibility.ranges[0].upper);
  CHECK(in.flexibility.ranges[1].upper == 32);
  options.shapes = package_shapes("H=4,16 W=6,8");
  write_coreml(lists, g, {}, options);
  CHECK(MlPackage::open(lists).model().main.inputs.at(0).flexibility.shapes == std::vector<Shape>{{4, 6}, {16, 8}});
  const std::map<std::string, std::vector<Shape>> taken{{ranges, {{4, 6}, {9, 31}}}, {lists, {{16, 8}, {4, 6}}}};
  for (const auto& entry : taken)
    for (const Shape& size : entry.second) {
      Tensor bytes = numbers({1, 3, size[0], size[1]}, 0, 255), scaled(f32, bytes.shape());
      for (size_t i = 0; i < scaled.element_count(); ++i) store<double>(scaled, i, load_number(bytes, i) / 255);
      Graph fixed = substitute(g, {{"H", size[0]}, {"W", size[1]}});
      CHECK(distance(run_one(entry.first, {{"x", bytes}}), interpret(fixed, std::array{scaled})[0]) < 1e-5);
    }
  CHECK_THROWS_WITH_AS(run_one(ranges, {{"x", numbers({1, 3, 33, 6})}}),
                       doctest::Contains("allows 4 to 32 elements along dim 2"), Error);
  CHECK_THROWS_WITH_AS(run_one(lists, {{"x", numbers({1, 3, 4, 8})}}),
                       doctest::Contains("the package allows f32[1, 3, 4, 6]"), Error);
}

TEST_CASE("what cannot stay open is refused by name") {
  Packages packages;
  std::string path = packages / "shapes_refused";
  auto refused = [&](const Graph& g, const char* shapes, const char* why) {
    CHECK_THROWS_WITH_AS(write_coreml(path, g, {}, {.shapes = package_shapes(shapes)}), doctest::Contains(why), Error);
  };
  Graph g("one");
  Value x = g.input("x", f32, {kB, kS});
  g.output(x + 1.0, "y");
  refused(g, "B=1..2", "the symbol S has neither a number nor sizes");
  refused(g, "B=1..2 S=1..2 T=1..2", "sizes are given for T");
  refused(g, "B=1..2 S=3,4", "ranges, or lists that are equally long");
  refused(g, "B=1,2,3 S=3,4", "ranges, or lists that are equally long");
  refused(g, "B=2..1 S=1..2", "are no numbers from 1 on");
  refused(g, "B=0..1 S=1..2", "are no numbers from 1 on");
  for (const char* text : {"B", "B=", "B=..", "=1..2", "B=1..x", "B=1,,2", "B=1..2 B=3..4"})
    CHECK_THROWS_AS(package_shapes(text), Error);
  // Sizes that the graph does not take.
  Graph cut("cut");
  Value line = cut.input("x", f32, {kS});
  cut.output(slice(line, {3}, {5}), "y");
  refused(cut, "S=4..8", "taking the sizes at one end");
  // A dim that a prediction could not be held to.
  Graph twice("twice");
  twice.output(twice.input("x", f32, {kS}), "y"), twice.output(twice.input("z", f32, {kS * 2}), "w");
  refused(twice, "S=1..8", "'z' is f32[2*S]");
  // What ML Programs want as numbers.
  Graph joint("joint");
  joint.output(conv(joint.input("x", f32, {1, kS, 5, 5}), joint.input("w", f32, {2, kS, 3, 3})), "y");
  refused(joint, "S=1..8", "the features of a convolution must be numbers");
  Graph weights("weights");
  weights.output(conv(weights.input("x", f32, {1, 3, 5, 5}), weights.input("w", f32, {kS, 3, 3, 3})), "y");
  refused(weights, "S=1..8", "the dims of a convolution's weights must be numbers");
  Graph padded("padded");
  Value short_one = padded.input("x", f32, {kS});
  padded.output(pad(short_one, scalar(padded, 0.0, f32), {{0}, {kS}, {}}), "y");
  refused(padded, "S=1..8", "the extents of padding must be numbers");
  Graph values("values");
  values.output(eigh(values.input("x", f32, {kS, kS})).values, "y");
  refused(values, "S=1..8", "is for a given size");
  // States and images have one shape.
  Graph state("state");
  Value held = state.input("held", f32, {kS});
  state.output(held + 1.0, "next");
  CHECK_THROWS_WITH_AS(
      write_coreml(path, state, {}, {.shapes = package_shapes("S=1..8"), .states = {{"held", "next"}}}),
      doctest::Contains("it has one shape"), Error);
}

TEST_CASE("Device::coreml runs a graph with symbols at every size") {
  Graph g("open");
  Value x = g.input("x", f32, {kB, kS});
  g.output(softmax(x) + convert(extent(g, kB, i32), f32), "y");
  CompiledGraph coreml = Session(Device::coreml()).compile(g), cpu = Session().compile(g);
  for (const Shape& shape : {Shape{1, 2}, Shape{4, 7}, Shape{1, 2}}) {
    Tensor in = numbers(shape);
    Tensor got = coreml.run({{"x", in}}).at(0), wanted = cpu.run({{"x", in}}).at(0);
    CHECK(got.type() == wanted.type());
    CHECK(distance(got, wanted) < 1e-5);
  }
  Graph both("both");
  both.output(both.input("x", f32, {kB, 2}) + both.input("z", f32, {kB, 2}), "y");
  CompiledGraph held = Session(Device::coreml()).compile(both);
  CHECK_THROWS_WITH_AS(held.run({{"x", numbers({3, 2})}, {"z", numbers({1, 2})}}), doctest::Contains("the dim B"),
                       Error);
  Graph twice("twice");
  Value a = twice.input("a", f32, {kS}), b = twice.input("b", f32, {kS * 2});
  twice.output(concatenate({a, a}, 0) + b, "y");
  CHECK_THROWS_WITH_AS(Session(Device::coreml()).compile(twice), doctest::Contains("'b' is f32[2*S]"), Error);
}
