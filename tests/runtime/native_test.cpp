// Ops that the CPU has kernels of its own for, in odd shapes and every dtype they take: the report says native, and the
// numbers are the reference's, with one thread and with several.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

using Build = std::function<Value(Values)>;

void check_native(const std::vector<Type>& types, const Build& f, std::vector<Tensor> inputs = {}) {
  Graph g = trace(types, f);
  std::ostringstream what;
  auto lines = dispatch_report(g, Device::cpu()).lines;
  REQUIRE(lines.size() == 1);
  print(what << lines[0].op << " of ", types);
  CHECK_MESSAGE(lines[0].verdict == Verdict::native, what.str(), ": ", lines[0].reason);
  if (inputs.empty())
    for (const Type& t : types)
      inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), 5 + inputs.size(),
                                     kind_of(t.dtype) == Kind::unsigned_int ? 0 : -2, is_integer(t.dtype) ? 9 : 2));
  auto wanted = interpret(g, inputs);
  for (int threads : {1, 3})
    CHECK_MESSAGE(difference(Session(Device::cpu(), {threads}).compile(g).run_ordered(inputs), wanted) == "",
                  what.str(), ", ", threads, " threads");
}

const std::vector<DType> kFloats = {f32, f64, f16, bf16};
const std::vector<DType> kReals = {f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64};

}  // namespace

TEST_CASE("rows added where indices say, some of them nowhere") {
  for (DType t : {f32, f64, i8, i64, u16, boolean, c64})
    for (DType index : {i32, i64, u8}) {
      for (const Dims& dims : {Dims{40, 5}, Dims{40, 33}, Dims{40}}) {
        Tensor x = random_tensor(t, shape_of(dims), 1, 0, 9),
               at = random_tensor(index, {40}, 2, index == u8 ? 0 : -2, 12);
        check_native({x.type(), at.type()}, [](Values v) { return scatter_add_rows(v[0], v[1], 9, 0); }, {x, at});
      }
      Tensor x = random_tensor(t, {3, 4, 5, 6}, 1, 0, 9), at = random_tensor(index, {4, 5}, 2, 0, 9);
      check_native({x.type(), at.type()}, [](Values v) { return scatter_add_rows(v[0], v[1], 7, 1); }, {x, at});
      check_native({{t, {3, 0, 5, 6}}, {index, {0, 5}}}, [](Values v) { return scatter_add_rows(v[0], v[1], 7, 1); });
    }
}
