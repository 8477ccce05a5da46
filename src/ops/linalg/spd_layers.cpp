// Layers of networks on positive definite matrices, and the functions of such matrices that all else here is made of.
#include "ops/control/subgraph_rules.h"
#include "ops/linalg/spd_rules.h"

namespace rlx {

Value bimap(Value w, Value x) { return emit(op::bimap, {w, x}); }
SpectralLayer reeig(Value x, double floor) {
  auto all = x.graph().emit(op::reeig, {x}, EigenFloorAttrs{floor});
  return {all[0], all[1], all[2]};
}
SpectralLayer logeig(Value x, double floor) {
  auto all = x.graph().emit(op::logeig, {x}, EigenFloorAttrs{floor});
  return {all[0], all[1], all[2]};
}
Value reeig_backward(Value values, Value vectors, Value ct, double floor) {
  return emit(op::reeig_backward, {values, vectors, ct}, EigenFloorAttrs{floor});
}
Value logeig_backward(Value values, Value vectors, Value ct, double floor) {
  return emit(op::logeig_backward, {values, vectors, ct}, EigenFloorAttrs{floor});
}
Value spd_matrix_fn(Value x, SpdFunction function, double floor) {
  return emit(op::spd_matrix_fn, {x}, SpdMatrixFnAttrs{function, floor});
}
Value spd_matrix_fn_backward(Value x, Value ct, SpdMatrixFnAttrs attrs) {
  return emit(op::spd_matrix_fn_backward, {x, ct}, attrs);
}
Value spd_matrix_fn_hessian(Value x, Value h, Value k, SpdMatrixFnAttrs attrs) {
  return emit(op::spd_matrix_fn_hessian, {x, h, k}, attrs);
}

namespace {

/// V f(w) Vᵀ, NaN where a value is not finite.
Value function_of_pairs(Value values, Value vectors, const SpdMatrixFnAttrs& a) {
  Value f = spd::function_of(values, a);
  return nan_where(bitwise_not(reduce_all(is_finite(f), {f.rank() - 1})), spd::from_spectrum(f, vectors), 2);
}

OpDef define_spectral_layer(std::string_view name, std::string_view doc, std::vector<std::string_view> covers,
                            const OpDef& op, SpdFunction function) {
  return define<EigenFloorAttrs>({
      .name = name,
      .doc = doc,
      .source = "Huang, Van Gool, A Riemannian network for SPD matrix learning, AAAI 2017",
      .operands = {"x"},
      .covers = std::move(covers),
      .infer = [](Types in, const EigenFloorAttrs& a) -> Many<Type> {
        const Dim& n = spd::require_spd(in[0], "x");
        spd::require_floor(a.floor);
        return {in[0], Type{in[0].dtype, with_batch(in[0], {n})}, in[0]};
      },
      .decompose =
          [function](Values in, const EigenFloorAttrs& a) {
            auto [values, vectors] = eigh(in[0]);
            return Many<Value>({function_of_pairs(values, vectors, {function, a.floor}), values, vectors});
          },
      .vjp =
          [function](Values in, Values out, Values cts, const EigenFloorAttrs& a) {
            // Of y by divided differences, which equal eigenvalues do not harm; of the pairs as eigh's.
            Value y, pairs;
            if (cts[0]) y = spd_matrix_fn_backward(in[0], cts[0], {function, a.floor});
            if (cts[1] || cts[2])
              pairs = spd::symmetric(eigh_backward(out[1], out[2], or_zero(cts[1], out[1]), or_zero(cts[2], out[2])));
            return y && pairs ? y + pairs : y ? y : pairs;
          },
      .batch = batch_as_stack<EigenFloorAttrs>(op),
      .samples = {{.dims = {{3, 3}}, .attrs = EigenFloorAttrs{0.5}},
                  {.dims = {{2, 2}}, .lo = 0, .hi = 4},
                  {.dims = {{2, 1, 3, 3}}, .attrs = EigenFloorAttrs{0.25}},
                  {.dims = {{1, 1}}, .lo = 1, .hi = 4},
                  {.dims = {{2, 0, 0}}}},
  });
}

OpDef define_spectral_layer_backward(std::string_view name, std::string_view doc, std::vector<std::string_view> covers,
                                     const OpDef& op, SpdFunction function) {
  return define<EigenFloorAttrs>({
      .name = name,
      .doc = doc,
      .source = "Ionescu, Vantzos, Sminchisescu, Matrix backpropagation, ICCV 2015; Daleckii, Krein (1965)",
      .operands = {"values", "vectors", "ct"},
      .covers = std::move(covers),
      .infer =
          [](Types in, const EigenFloorAttrs& a) {
            const Dim& n = spd::require_spd(in[1], "vectors");
            spd::require_floor(a.floor);
            spd::require_same(in[0], {in[1].dtype, with_batch(in[1], {n})}, "values", "vectors");
            spd::require_same(in[2], in[1], "ct", "vectors");
            return in[1];
          },
      .decompose =
          [function](Values in, const EigenFloorAttrs& a) {
            return spd::derivative(in[0], in[1], in[2], {function, a.floor});
          },
      .batch = batch_as_stack<EigenFloorAttrs>(op),
      .samples = {{.dims = {{3}, {3, 3}, {3, 3}}, .attrs = EigenFloorAttrs{0.5}},
                  {.dims = {{2}, {2, 2}, {2, 2}}, .lo = 0.5, .hi = 3},
                  {.dims = {{2, 3}, {2, 3, 3}, {2, 3, 3}}, .attrs = EigenFloorAttrs{0.25}},
                  {.dims = {{1}, {1, 1}, {1, 1}}, .lo = 1, .hi = 4},
                  {.dims = {{2, 0}, {2, 0, 0}, {2, 0, 0}}}},
  });
}

/// Operands of the type of the first, which is a stack of matrices.
Type one_type(Types in, std::initializer_list<std::string_view> names, const SpdMatrixFnAttrs& a) {
  spd::require_spd(in[0], names.begin()[0]);
  spd::require_floor(a.floor);
  for (size_t i = 1; i < in.size(); ++i) spd::require_same(in[i], in[0], names.begin()[i], names.begin()[0]);
  return in[0];
}

std::vector<Sample> samples_of_functions(size_t operands) {
  auto sample = [&](Dims dims, SpdFunction function, double floor, double lo, double hi) {
    return Sample{.dims = std::vector(operands, dims), .attrs = SpdMatrixFnAttrs{function, floor}, .lo = lo, .hi = hi};
  };
  return {sample({3, 3}, SpdFunction::log, 0.5, -2, 2),
          sample({2, 2}, SpdFunction::log, kNoFloor, 0, 4),
          sample({3, 3}, SpdFunction::exp, kNoFloor, -1, 1),
          sample({2, 2}, SpdFunction::sqrt, kNoFloor, 0, 4),
          sample({2, 3, 3}, SpdFunction::sqrt, 0.25, -2, 2),
          sample({2, 1, 2, 2}, SpdFunction::inverse_sqrt, 0.5, -1, 3),
          sample({3, 3}, SpdFunction::identity, 0.5, -2, 2),
          sample({1, 1}, SpdFunction::log, kNoFloor, 1, 4),
          sample({2, 0, 0}, SpdFunction::inverse_sqrt, kNoFloor, -2, 2)};
}

}  // namespace

OpDef define_bimap() {
  return define<>({
      .name = "bimap",
      .doc = "w x wᵀ of square x; batch dims broadcast",
      .source = "Huang, Van Gool, A Riemannian network for SPD matrix learning, AAAI 2017",
      .operands = {"w", "x"},
      .covers = {"BiMap"},
      .infer =
          [](Types in) {
            const Dim& n = spd::require_spd(in[1], "x");
            require_matrices(in[0], "w");
            if (in[0].dtype != in[1].dtype || cols_of(in[0]) != n)
              fail(ErrorCode::shape_mismatch, "w must be ", in[1].dtype, " with ", n, " columns to go with x ", in[1],
                   ", got ", in[0]);
            Type y = infer_types(op::matmul, std::vector{in[0], in[1]}, NoAttrs{})[0];
            y.dims.back() = rows_of(in[0]);
            return y;
          },
      .decompose = [](Values in) { return matmul(matmul(in[0], in[1]), transposed(in[0])); },
      .samples = {{.dims = {{2, 3}, {3, 3}}},
                  {.dims = {{4, 2}, {3, 2, 2}}},
                  {.dims = {{2, 1, 1, 3}, {2, 2, 3, 3}}},
                  {.dims = {{1, 1}, {1, 1}}},
                  {.dims = {{2, 0}, {2, 0, 0}}},
                  {.dims = {{0, 3}, {3, 3}}}},
  });
}

OpDef define_reeig() {
  return define_spectral_layer("reeig",
                               "V max(floor, w) Vᵀ of the symmetric part of x, and its eigenvalues w and vectors V as "
                               "eigh gives them",
                               {"ReEig"}, op::reeig, SpdFunction::identity);
}
OpDef define_logeig() {
  return define_spectral_layer("logeig",
                               "V log(max(floor, w)) Vᵀ of the symmetric part of x, and its eigenvalues w and vectors "
                               "V as eigh gives them",
                               {"LogEig"}, op::logeig, SpdFunction::log);
}
OpDef define_reeig_backward() {
  return define_spectral_layer_backward(
      "reeig_backward",
      "the cotangent of x that one of reeig's y makes: V (F ∘ Vᵀ sym(ct) V) Vᵀ with the divided differences F of "
      "max(floor, w), 0 for eigenvalues at the floor or below",
      {"ReEigBackward"}, op::reeig_backward, SpdFunction::identity);
}
OpDef define_logeig_backward() {
  return define_spectral_layer_backward(
      "logeig_backward",
      "the cotangent of x that one of logeig's y makes: V (F ∘ Vᵀ sym(ct) V) Vᵀ with the divided differences F of "
      "log(max(floor, w)), 0 for eigenvalues at the floor or below",
      {"LogEigBackward"}, op::logeig_backward, SpdFunction::log);
}

OpDef define_spd_matrix_fn() {
  return define<SpdMatrixFnAttrs>({
      .name = "spd_matrix_fn",
      .doc = "V f(max(floor, w)) Vᵀ of the symmetric part of x, with f = `function`; all NaN where f of an eigenvalue "
             "is not finite",
      .source = "Higham, Functions of Matrices (2008), 1.2; derivatives: ibid. 3.2 (Daleckii, Krein)",
      .operands = {"x"},
      .covers = {"SpdMatrixFnBatch"},
      .infer = [](Types in, const SpdMatrixFnAttrs& a) { return one_type(in, {"x"}, a); },
      .decompose =
          [](Values in, const SpdMatrixFnAttrs& a) {
            auto [values, vectors] = eigh(in[0]);
            return function_of_pairs(values, vectors, a);
          },
      .vjp = [](Values in, Value, Value ct, const SpdMatrixFnAttrs& a) { return spd_matrix_fn_backward(in[0], ct, a); },
      .batch = batch_as_stack<SpdMatrixFnAttrs>(op::spd_matrix_fn),
      .samples = [] { return samples_of_functions(1); },
  });
}

OpDef define_spd_matrix_fn_backward() {
  return define<SpdMatrixFnAttrs>({
      .name = "spd_matrix_fn_backward",
      .doc = "the derivative of spd_matrix_fn at x in the direction ct, and its transpose: V (F ∘ Vᵀ sym(ct) V) Vᵀ "
             "with the divided differences F of f(max(floor, w))",
      .source = "Higham, Functions of Matrices (2008), 3.2 (Daleckii, Krein)",
      .operands = {"x", "ct"},
      .covers = {"SpdMatrixFnBatchBackward"},
      .infer =
          [](Types in, const SpdMatrixFnAttrs& a) {
            return one_type(in, {"x", "ct"}, a);
          },
      .decompose =
          [](Values in, const SpdMatrixFnAttrs& a) {
            auto [values, vectors] = eigh(in[0]);
            return spd::derivative(values, vectors, in[1], a);
          },
      .vjp =
          [](Values in, Value, Value ct, const SpdMatrixFnAttrs& a) {
            return Many<Value>({spd_matrix_fn_hessian(in[0], in[1], ct, a), spd_matrix_fn_backward(in[0], ct, a)});
          },
      .batch = batch_as_stack<SpdMatrixFnAttrs>(op::spd_matrix_fn_backward),
      .samples = [] { return samples_of_functions(2); },
  });
}

OpDef define_spd_matrix_fn_hessian() {
  return define<SpdMatrixFnAttrs>({
      .name = "spd_matrix_fn_hessian",
      .doc = "the second derivative of spd_matrix_fn at x in the directions h and k: V S Vᵀ, S_ij = sum_l f[w_i, w_l, "
             "w_j] (H_il K_lj + K_il H_lj), with H = Vᵀ sym(h) V, K likewise, and f's divided differences of second "
             "order",
      .source = "Higham, Relton, Higher order Fréchet derivatives of matrix functions, SIAM J. Matrix Anal. Appl. 35 "
                "(2014)",
      .operands = {"x", "h", "k"},
      .covers = {"SpdMatrixFnBatchBackward"},
      .infer =
          [](Types in, const SpdMatrixFnAttrs& a) {
            return one_type(in, {"x", "h", "k"}, a);
          },
      .decompose =
          [](Values in, const SpdMatrixFnAttrs& a) {
            auto [w, v] = eigh(in[0]);
            auto inside = [v = v](Value x) { return spd::into_basis(spd::symmetric(x), v); };
            Value h = inside(in[1]), k = inside(in[2]);
            Value pairs = as_column(h) * expand_dims(k, -3) + as_column(k) * expand_dims(h, -3);
            Value s = reduce_sum(spd::second_divided_differences(w, a) * pairs, {pairs.rank() - 2});
            Value y = spd::out_of_basis(s, v);
            Value f = spd::function_of(w, a);
            return nan_where(bitwise_not(reduce_all(is_finite(f), {f.rank() - 1})), y, 2);
          },
      .batch = batch_as_stack<SpdMatrixFnAttrs>(op::spd_matrix_fn_hessian),
      .samples = [] { return samples_of_functions(3); },
  });
}

}  // namespace rlx
