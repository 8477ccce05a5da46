// Products of matrices.
#include <algorithm>

#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {

Value transposed_last(Value x) {
  Axes axes = axes_from(0, x.dims().size());
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return rlx::transpose(x, axes);
}

/// One operand of an einsum, without the labels that neither the other operand nor the result has: they are summed.
struct Labelled {
  Value x;
  std::string labels;
  void sum_out(const std::string& needed) {
    for (size_t i = labels.size(); i-- > 0;)
      if (needed.find(labels[i]) == std::string::npos) {
        x = rlx::reduce_sum(x, Axes{static_cast<int64_t>(i)});
        labels.erase(i, 1);
      }
  }
  int64_t axis(char label) const { return static_cast<int64_t>(labels.find(label)); }
};

}  // namespace

MIL_OP(linear) {
  Value x = op("x"), w = op("weight"), bias = op.maybe("bias");
  if (w.dtype() != x.dtype()) w = convert(w, x.dtype());
  if (bias && bias.dtype() != x.dtype()) bias = convert(bias, x.dtype());
  if (is_float(x.dtype()) && x.rank() > 0) return one(rlx::linear(x, w, bias));
  Value y = rlx::matmul(x, transposed_last(w));
  return one(bias ? y + bias : y);
}

// Operands of two dtypes are multiplied as floats, and the product is of the dtype that the program declares.
MIL_OP(matmul) {
  Value x = op("x"), y = op("y");
  bool mixed = x.dtype() != y.dtype();
  if (mixed) x = convert(x, f32), y = convert(y, f32);
  if (op.flag("transpose_x", false) && x.rank() > 1) x = transposed_last(x);
  if (op.flag("transpose_y", false) && y.rank() > 1) y = transposed_last(y);
  Value product = rlx::matmul(x, y);
  std::optional<DType> declared = mil::dtype_of(op.declared(0).dtype);
  return one(mixed && declared ? convert(product, op.dtype(*declared)) : product);
}

MIL_OP(einsum) {
  std::string equation = op.word("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  size_t comma = equation.find(','), arrow = equation.find("->");
  std::vector<Value> values = op.all("values");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow || values.size() != 2)
    op.refuse("einsum '", equation, "' of ", values.size(), " operands; MIL has it of two, 'a,b->c'");
  Labelled a{values[0], equation.substr(0, comma)}, b{values[1], equation.substr(comma + 1, arrow - comma - 1)};
  std::string out = equation.substr(arrow + 2);
  for (const Labelled* each : {&a, &b}) {
    if (static_cast<int64_t>(each->labels.size()) != each->x.rank())
      op.wrong("'", each->labels, "' does not fit ", each->x.type());
    for (char c : each->labels)
      if (std::count(each->labels.begin(), each->labels.end(), c) > 1)
        op.refuse("the label '", c, "' stands twice in '", each->labels, "'");
  }
  a.sum_out(b.labels + out), b.sum_out(a.labels + out);
  // Extents of 1 stretch, as everywhere in MIL.
  Dims a_dims = a.x.dims(), b_dims = b.x.dims();
  for (char c : a.labels) {
    if (b.labels.find(c) == std::string::npos) continue;
    Dim &da = a_dims[static_cast<size_t>(a.axis(c))], &db = b_dims[static_cast<size_t>(b.axis(c))];
    if (da == Dim(1)) da = db;
    if (db == Dim(1)) db = da;
  }
  a.x = broadcast_to(a.x, a_dims), b.x = broadcast_to(b.x, b_dims);
  DotAttrs dot;
  std::string order;  // labels of the product's dims
  for (char c : a.labels)
    if (b.labels.find(c) != std::string::npos && out.find(c) != std::string::npos)
      dot.lhs_batch.push_back(a.axis(c)), dot.rhs_batch.push_back(b.axis(c)), order += c;
  for (char c : a.labels)
    if (b.labels.find(c) == std::string::npos) order += c;
    else if (out.find(c) == std::string::npos)
      dot.lhs_contract.push_back(a.axis(c)), dot.rhs_contract.push_back(b.axis(c));
  for (char c : b.labels)
    if (a.labels.find(c) == std::string::npos) order += c;
  Value product = dot_general(a.x, b.x, dot);
  Axes permutation;
  for (char c : out) {
    size_t at = order.find(c);
    if (at == std::string::npos) op.wrong("the label '", c, "' of the result is in no operand");
    permutation.push_back(static_cast<int64_t>(at));
  }
  if (permutation.size() != order.size()) op.wrong("'", equation, "' names a label of its result twice");
  return one(rlx::transpose(product, permutation));
}

}  // namespace rlx::mlprogram
