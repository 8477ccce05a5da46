// One-op element-wise programs, for the tests of the ops.
#pragma once

#include "kernels/elementwise/elementwise.h"
#include "kernels/kernel_test.h"

namespace rlx::test {

using Op = kernels::ElementwiseOp;

/// Applies one op to up to three dense arrays of equal length. `out_bytes` are of the result's elements.
inline void apply_op(Op op, DType out, const std::vector<std::pair<DType, const void*>>& operands, void* result,
                     int64_t count) {
  kernels::ElementwiseProgram p;
  std::vector<kernels::ElementwiseProgram::Value> values;
  std::vector<kernels::ElementwiseBuffer> buffers;
  for (const auto& [dtype, data] : operands) {
    values.push_back(p.load(dtype, static_cast<int>(buffers.size())));
    buffers.push_back({const_cast<void*>(data), {1}});
  }
  values.resize(3, kernels::ElementwiseProgram::kNone);
  p.store(p.apply(op, out, values[0], values[1], values[2]), 0);
  p.compile();
  Scratch scratch(p.scratch_bytes());
  const kernels::ElementwiseBuffer to{result, {1}};
  kernels::ElementwiseCall call;
  call.rank = 1, call.dims[0] = count, call.operands = buffers.data(), call.results = &to;
  p.run(call, 0, count, scratch.data());
}

inline Elements apply_op(Op op, DType out, const Elements& a) {
  Elements y(out, a.size());
  apply_op(op, out, {{a.dtype(), a.data()}}, y.data(), a.size());
  return y;
}
inline Elements apply_op(Op op, DType out, const Elements& a, const Elements& b) {
  Elements y(out, a.size());
  apply_op(op, out, {{a.dtype(), a.data()}, {b.dtype(), b.data()}}, y.data(), a.size());
  return y;
}
inline Elements apply_op(Op op, DType out, const Elements& a, const Elements& b, const Elements& c) {
  Elements y(out, b.size());
  apply_op(op, out, {{a.dtype(), a.data()}, {b.dtype(), b.data()}, {c.dtype(), c.data()}}, y.data(), b.size());
  return y;
}

}  // namespace rlx::test
