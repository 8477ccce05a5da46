// Params that are not bound, are not there, or are of another type.
#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

CompiledGraph compiled(CompileMode mode = CompileMode::eager) {
  Graph g("mlp");
  Value x = g.input("x", f32, {1, 4}), w = g.param("w", f32, {4, 2}), b = g.param("b", f32, {2});
  g.output(matmul(x, w) + b);
  CompileOptions options;
  options.mode = mode;
  return Session(Device::cpu(), {1}).compile(g, options);
}

}  // namespace

TEST_CASE("a param that is not bound is named with its type and what to do") {
  for (CompileMode mode : {CompileMode::eager, CompileMode::lazy, CompileMode::aot}) {
    CompiledGraph c = compiled(mode);
    c.set_param("b", Tensor(f32, {2}));
    Error error = error_of([&] { c.run({{"x", Tensor(f32, {1, 4})}}); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()) ==
          "param 'w' (f32[4, 2]) of 'mlp' is not bound; bind it with set_param before the first run");
    CHECK_THROWS_AS(c.profile({{"x", Tensor(f32, {1, 4})}}), Error);
    c.set_param("w", Tensor(f32, {4, 2}));
    CHECK(c.run({{"x", Tensor(f32, {1, 4})}})[0] == Tensor(f32, {1, 2}));
  }
}

TEST_CASE("a param that there is not is named with those that there are") {
  for (CompileMode mode : {CompileMode::eager, CompileMode::lazy}) {
    CompiledGraph c = compiled(mode);
    Error error = error_of([&] { c.set_param("weight", Tensor(f32, {4, 2})); });
    CHECK(error.code() == ErrorCode::not_found);
    CHECK(std::string(error.what()) == "graph 'mlp' has no param 'weight'; it has w, b");
    CHECK(message_of([&] { c.set_param("x", Tensor(f32, {1, 4})); }) == "graph 'mlp' has no param 'x'; it has w, b");
  }
  Graph none("none");
  none.output(none.input("x", f32, {1}));
  CHECK(message_of([&] { Session().compile(none).set_param("w", Tensor()); }) ==
        "graph 'none' has no param 'w'; it has none");
}

TEST_CASE("a param of another shape or dtype is refused with both types, also before a lazy compile") {
  for (CompileMode mode : {CompileMode::eager, CompileMode::lazy}) {
    CompiledGraph c = compiled(mode);
    Error error = error_of([&] { c.set_param("w", Tensor(f32, {2, 4})); });
    CHECK(error.code() == ErrorCode::shape_mismatch);
    CHECK(std::string(error.what()) == "param 'w' is f32[4, 2], got f32[2, 4]");
    CHECK(message_of([&] { c.set_param("w", Tensor(f16, {4, 2})); }) == "param 'w' is f32[4, 2], got f16[4, 2]");
    CHECK(message_of([&] { c.set_params({{"b", Tensor(f32, {})}}); }) == "param 'b' is f32[2], got f32[]");
    CHECK(!c.all_params_bound());
  }
}
