// Graphs on Device::coreml that programs hold only in another form, and weights beside the program. Expected values are
// the reference's.
#include <doctest/doctest.h>

#include <complex>

#include "backends/coreml_framework/framework.h"
#include "reference/interpreter.h"
#include "rlx/rlx.h"
#include "support/counted.h"
#include "support/io_files.h"

using namespace rlx;
using test::counted;

namespace {

void check_near(const Tensor& got, const Tensor& wanted) {
  REQUIRE(got.type() == wanted.type());
  for (size_t i = 0; i < wanted.element_count(); ++i) {
    auto number = [&](const Tensor& t) {
      return is_complex(t.dtype()) ? load<std::complex<double>>(t, i) : std::complex<double>(load_number(t, i));
    };
    std::complex<double> x = number(got), y = number(wanted);
    CHECK_MESSAGE(std::abs(x - y) <= 1e-5 * std::max(1.0, std::abs(y)), "[", i, "] of ", text_of(got.type()));
  }
}

size_t remarks(const DispatchReport& report, std::string_view text) {
  size_t count = 0;
  for (const DispatchLine& line : report.lines) count += line.reason.find(text) != std::string::npos;
  return count;
}

}  // namespace

TEST_CASE("a constant of many elements is read when the program is first run") {
  Graph g("table");
  Tensor table = counted({16, 8});  // 128 elements, which stand in weight.bin
  g.output(g.input("x", f32, {16, 8}) + g.constant(table), "y");
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  Tensor x = counted({16, 8});
  Tensor y = compiled.run({{"x", x}}).at(0);
  for (size_t i = 0; i < y.element_count(); ++i) CHECK(load_number(y, i) == 2 * load_number(x, i));
  CHECK(compiled.run({{"x", x}}).at(0) == y);
}

TEST_CASE("without CoreML.framework nothing of a model is written to files") {
  if (coreml_framework::is_present()) return;  // it reads packages: tests/io/private_folder_test.cpp
  test::TemporaryFolder folder;
  const std::string before = std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "";
  setenv("TMPDIR", (folder / "nowhere").c_str(), 1);
  Graph g("table");
  g.output(g.input("x", f32, {16, 8}) + g.constant(counted({16, 8})), "y");
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  Tensor x = counted({16, 8});
  CHECK(load_number(compiled.run({{"x", x}}).at(0), 100) == 2 * load_number(x, 100));
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
  CHECK(folder.file_count() == 0);
}

TEST_CASE("complex numbers go in and come out as such, and the report says how they are computed") {
  Graph g("waves");
  Value x = g.input("x", c64, {4, 3}), y = g.input("y", c64, {3, 2}), z = g.input("z", f32, {4, 2});
  g.output(matmul(x, y), "product");
  g.output(real(matmul(x, y)) + z, "real");
  g.output(reduce_sum(x * x, {0, 1}), "sum");  // a scalar
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  CHECK(compiled.report().count(Verdict::missing) == 0);
  CHECK(remarks(compiled.report(), "pairs of real ones") > 0);
  CHECK(supports(g, Device::coreml()));
  std::vector<Tensor> in{counted({4, 3}, c64), counted({3, 2}, c64), counted({4, 2})};
  auto got = compiled.run({{"x", in[0]}, {"y", in[1]}, {"z", in[2]}}), wanted = interpret(g, in);
  REQUIRE(got.size() == 3);
  for (size_t o = 0; o < 3; ++o) check_near(got[o], wanted[o]);
}

TEST_CASE("seven dims are given and taken as they are, with params too") {
  Graph g("wide");
  Dims dims{2, 3, 1, 2, 2, 3, 2};
  Value x = g.input("x", f32, dims), w = g.param("w", f32, dims);
  g.output(transpose(x * w, {6, 4, 2, 5, 3, 1, 0}), "y");
  g.output(reduce_sum(x, {1, 3, 6}), "sums");
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  CHECK(remarks(compiled.report(), "dims") > 0);
  Tensor in = counted(shape_of(dims)), weights = full(f32, shape_of(dims), 0.5);
  compiled.set_param("w", weights);
  auto got = compiled.run({{"x", in}}), wanted = interpret(g, std::array{in}, {{"w", weights}});
  REQUIRE(got.size() == 2);
  for (size_t o = 0; o < 2; ++o) check_near(got[o], wanted[o]);
  CHECK(got[0].shape() == Shape{2, 2, 1, 3, 2, 3, 2});
}

TEST_CASE("what has no rule is missing when it is compiled, and not when it is run") {
  Graph g("none");
  Value x = g.input("x", f32, {2, 2, 2, 2, 2, 2});
  g.output(sort({x}, {.axis = 5})[0], "y");
  CHECK_THROWS_WITH_AS(Session(Device::coreml()).compile(g), doctest::Contains("no rule joins dims around it"), Error);
}

TEST_CASE("sizes at which a window fits nowhere, or nothing is given, run as on the CPU") {
  Graph g("windows");
  Dim h = Dim::symbol("H");
  Value x = g.input("x", f32, {1, 2, h, 6});
  PoolAttrs dilated{PoolKind::max, {2, 2}, {1, 1}};
  dilated.dilation = {2, 2};
  Value wide = pool(x, dilated), kernel = g.constant(counted({4, 2, 3, 3}));
  g.output(wide, "dilated");
  g.output(conv(x, kernel), "conv");
  g.output(reduce_sum(wide, {0, 1, 2, 3}), "sum");
  g.output(concatenate({wide, slice_axis(x, 3, 0, 4)}, 2), "joined");
  g.output(exp(x * 0.01), "same");
  CompiledGraph by_cpu = Session(Device::cpu()).compile(g), by_coreml = Session(Device::coreml()).compile(g);
  for (int64_t size : {5, 0, 1, 2, 3}) {
    CAPTURE(size);
    Tensor in = counted({1, 2, size, 6});
    auto wanted = by_cpu.run({{"x", in}}), got = by_coreml.run({{"x", in}}),
         later = by_coreml.run_async({{"x", in}}).get();
    REQUIRE(got.size() == wanted.size());
    for (size_t o = 0; o < got.size(); ++o) check_near(got[o], wanted[o]), check_near(later[o], wanted[o]);
  }
  CHECK_THROWS_WITH_AS(by_coreml.run({{"x", counted({1, 2, 0})}}), doctest::Contains("input 'x'"), Error);
}
