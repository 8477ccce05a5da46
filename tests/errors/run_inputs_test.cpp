// Inputs that are missing, unknown, given twice, or of another type.
#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

CompiledGraph compiled() {
  Graph g("sum");
  Value x = g.input("x", f32, {2, 3}), y = g.input("y", f32, {Dim::symbol("N"), 3});
  g.output(x * 2.0);
  g.output(y * 2.0);
  return Session(Device::cpu(), {1}).compile(g);
}
const Tensor x(f32, {2, 3}), y(f32, {5, 3});

}  // namespace

TEST_CASE("an input that was not given is named with its type") {
  Error error = error_of([] { compiled().run({{"x", x}}); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(std::string(error.what()) == "input 'y' (f32[N, 3]) of 'sum' was not given");
  CHECK(message_of([] { compiled().run({{"x", x}, {"z", y}}); }) == "graph 'sum' has no input 'z'; it has x, y");
}

TEST_CASE("an input that there is not, or one given twice, is named") {
  Error error = error_of([] { compiled().run({{"x", x}, {"y", y}, {"z", y}}); });
  CHECK(error.code() == ErrorCode::not_found);
  CHECK(std::string(error.what()) == "graph 'sum' has no input 'z'; it has x, y");
  CHECK(message_of([] { compiled().run({{"x", x}, {"y", y}, {"x", x}}); }) == "input 'x' was given twice");
}

TEST_CASE("an input of the wrong length is refused with its name, its type and what was given") {
  Error error = error_of([] { compiled().run({{"x", Tensor(f32, {2, 4})}, {"y", y}}); });
  CHECK(error.code() == ErrorCode::shape_mismatch);
  CHECK(std::string(error.what()) ==
        "an extent of 4 does not fit the dim 3\n  while feeding input 'x', which is f32[2, 3], with f32[2, 4]");
  CHECK(message_of([] {
          compiled().run({{"x", x}, {"y", Tensor(f32, {5, 4})}});
        }) == "an extent of 4 does not fit the dim 3\n  while feeding input 'y', which is f32[N, 3], with f32[5, 4]");
}

TEST_CASE("an input of the wrong rank or dtype is refused with its name") {
  CHECK(message_of([] {
          compiled().run({{"x", Tensor(f32, {6})}, {"y", y}});
        }) == "input 'x' is f32[2, 3], got f32[6]");
  CHECK(message_of([] {
          compiled().run({{"x", Tensor(f64, {2, 3})}, {"y", y}});
        }) == "input 'x' is f32[2, 3], got f64[2, 3]");
}

TEST_CASE("inputs without names are counted") {
  CHECK(message_of([] { compiled().run_ordered(std::vector{x}); }) == "graph 'sum' has 2 inputs, got 1");
  CHECK(message_of([] { compiled().run_ordered(std::vector{x, y, y}); }) == "graph 'sum' has 2 inputs, got 3");
}
