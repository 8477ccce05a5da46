// Weights out of a codebook, and their products; see the header.
#include "rlx/ops/synth.h"

#include "ops/core/composite_rules.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/take.h"

namespace rlx {

Value synth_reconstruct(Value indices, Value codebook) { return emit(op::synth_reconstruct, {indices, codebook}); }
Value synth_matmul(Value x, Value indices, Value codebook) { return emit(op::synth_matmul, {x, indices, codebook}); }
SynthGradients synth_matmul_backward(Value x, Value indices, Value codebook, Value ct) {
  auto d = x.graph().emit(op::synth_matmul_backward, {x, indices, codebook, ct});
  return {d[0], d[1]};
}

namespace {

Type weights_type(const Type& indices, const Type& codebook) {
  require_kind(indices, kInteger, "index");
  require_kind(codebook, kReal, "codebook");
  require_rank(indices, 2, 2, "indices");
  require_rank(codebook, 2, 2, "codebook");
  return {codebook.dtype, {indices.dims[0], indices.dims[1] * codebook.dims[1]}};
}
/// The type of the product of x, indices, codebook.
Type product_type(Types in) {
  require_kind(in[0], kReal, "x");
  require_rank(in[0], 1, SIZE_MAX, "x");
  Type w = weights_type(in[1], in[2]);
  if (in[0].dtype != w.dtype)
    fail(ErrorCode::shape_mismatch, "x ", in[0], " and the codebook ", in[2], " must be of one dtype; convert one");
  if (in[0].dims.back() != w.dims[1])
    fail(ErrorCode::shape_mismatch, "inner dimensions differ: x ", in[0], " has ", in[0].dims.back(),
         ", the weights of indices ", in[1], " and codebook ", in[2], " have ", w.dims[1]);
  Type t = in[0];
  t.dims.back() = w.dims[0];
  return t;
}

}  // namespace

OpDef define_synth_reconstruct() {
  return define<>({
      .name = "synth_reconstruct",
      .doc = "w[n, b d + t] = codebook[indices[n, b], t]; NaN where there is no such entry",
      .source = "vector quantization: Gray, IEEE ASSP Magazine 1 (1984)",
      .operands = {"indices", "codebook"},
      .covers = {"SynthReconstruct"},
      .infer = [](Types in) { return weights_type(in[0], in[1]); },
      .decompose = [](Values in) { return reshape(take(in[1], in[0]), weights_type(in[0].type(), in[1].type()).dims); },
      .samples = {{.dims = {{3, 2}, {4, 5}}, .dtypes = {u8, f64}, .lo = 0, .hi = 4},
                  {.dims = {{1, 7}, {3, 1}}, .dtypes = {i32, f64}, .lo = 0, .hi = 4},
                  {.dims = {{5, 3}, {2, 3}}, .dtypes = {i64, bf16}, .lo = -1, .hi = 2},
                  {.dims = {{0, 3}, {2, 3}}, .dtypes = {u8, f64}}},
  });
}

OpDef define_synth_matmul() {
  return define<>({
      .name = "synth_matmul",
      .doc = "x[..., k] times the transposed synth_reconstruct of indices[n, k / d] and codebook[e, d]",
      .source = "synth_reconstruct, linear",
      .operands = {"x", "indices", "codebook"},
      .covers = {"SynthMatMul"},
      .infer = [](Types in) { return product_type(in); },
      .decompose = [](Values in) { return linear(in[0], synth_reconstruct(in[1], in[2])); },
      .vjp =
          [](Values in, Value, Value ct) {
            SynthGradients d = synth_matmul_backward(in[0], in[1], in[2], ct);
            return Many<Value>{d.x, {}, d.codebook};
          },
      .samples = {{.dims = {{3, 10}, {4, 2}, {6, 5}}, .dtypes = {f64, u8, f64}, .lo = 0, .hi = 6},
                  {.dims = {{2, 2, 7}, {3, 7}, {4, 1}}, .dtypes = {f64, i32, f64}, .lo = 0, .hi = 4},
                  {.dims = {{9}, {5, 3}, {2, 3}}, .dtypes = {bf16, i64, bf16}, .lo = 0, .hi = 2},
                  {.dims = {{0, 6}, {2, 2}, {5, 3}}, .dtypes = {f64, u8, f64}, .lo = 0, .hi = 5}},
  });
}

OpDef define_synth_matmul_backward() {
  return define<>({
      .name = "synth_matmul_backward",
      .doc =
          "the cotangents of x and of the codebook from that of synth_matmul: ct w, and transposed(ct) x added up at "
          "the indices",
      .source = "synth_matmul, differentiated",
      .operands = {"x", "indices", "codebook", "ct"},
      .covers = {"SynthMatMulBackward"},
      .infer =
          [](Types in) {
            Type y = product_type(in);
            if (in[3] != y) fail(ErrorCode::shape_mismatch, "ct must be ", y, ", as the product is, got ", in[3]);
            return Many<Type>{in[0], in[2]};
          },
      .decompose =
          [](Values in) {
            Value x = in[0], indices = in[1], codebook = in[2], ct = in[3];
            Axes leading = axes_from(0, x.dims().size() - 1);
            Value dx = dot_general(ct, synth_reconstruct(indices, codebook), {{}, {}, {ct.rank() - 1}, {0}});
            Value dw = dot_general(ct, x, {{}, {}, leading, leading});
            Value blocks = reshape(dw, {indices.dim(0), indices.dim(1), codebook.dim(1)});
            return Many<Value>{dx, scatter_add_rows(blocks, indices, codebook.dim(0))};
          },
      .samples = {{.dims = {{3, 10}, {4, 2}, {6, 5}, {3, 4}}, .dtypes = {f64, u8, f64, f64}, .lo = 0, .hi = 6},
                  {.dims = {{2, 2, 7}, {3, 7}, {4, 1}, {2, 2, 3}}, .dtypes = {f64, i32, f64, f64}, .lo = 0, .hi = 4},
                  {.dims = {{9}, {5, 3}, {2, 3}, {5}}, .dtypes = {bf16, i64, bf16, bf16}, .lo = 0, .hi = 2},
                  {.dims = {{0, 6}, {2, 2}, {5, 3}, {0, 2}}, .dtypes = {f64, u8, f64, f64}, .lo = 0, .hi = 5}},
  });
}

}  // namespace rlx
