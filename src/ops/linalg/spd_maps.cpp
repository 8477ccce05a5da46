// The manifold of positive definite matrices around a point: logarithm, exponential, transport, and the normalization
// of a batch. All by functions of symmetric matrices, so that equal eigenvalues harm no derivative. P is the point, R =
// P^½ and S = P^-½ its roots.
#include "ops/linalg/spd_rules.h"

namespace rlx {

namespace {

template <class Cts>
Cts pair_of(const std::vector<Value>& all) {
  return {all[0], all[1]};
}

}  // namespace

Value spd_log_map(Value base, Value x, double floor) { return emit(op::spd_log_map, {base, x}, SpdFloorAttrs{floor}); }
SpdMapCts spd_log_map_backward(Value base, Value x, Value ct, double floor) {
  return pair_of<SpdMapCts>(base.graph().emit(op::spd_log_map_backward, {base, x, ct}, SpdFloorAttrs{floor}));
}
Value spd_exp_map(Value base, Value v, double floor) { return emit(op::spd_exp_map, {base, v}, SpdFloorAttrs{floor}); }
SpdMapCts spd_exp_map_backward(Value base, Value v, Value ct, double floor) {
  return pair_of<SpdMapCts>(base.graph().emit(op::spd_exp_map_backward, {base, v, ct}, SpdFloorAttrs{floor}));
}
Value spd_parallel_transport(Value from, Value to, Value v, double floor) {
  return emit(op::spd_parallel_transport, {from, to, v}, SpdFloorAttrs{floor});
}
SpdTransportCts spd_parallel_transport_backward(Value from, Value to, Value v, Value ct, double floor) {
  auto all = from.graph().emit(op::spd_parallel_transport_backward, {from, to, v, ct}, SpdFloorAttrs{floor});
  return {all[0], all[1], all[2]};
}
Value spd_batch_norm(Value x, Value mean, Value g, double floor) {
  return emit(op::spd_batch_norm, {x, mean, g}, SpdFloorAttrs{floor});
}
SpdBatchNormCts spd_batch_norm_backward(Value x, Value mean, Value g, Value ct, double floor) {
  auto all = x.graph().emit(op::spd_batch_norm_backward, {x, mean, g, ct}, SpdFloorAttrs{floor});
  return {all[0], all[1], all[2]};
}

namespace {

using spd::congruence;
using spd::congruence_bar;
using spd::symmetric;

/// Operands of one type.
Type one_type(Types in, const std::vector<std::string_view>& names, const SpdFloorAttrs& a) {
  spd::require_spd(in[0], names[0]);
  spd::require_floor(a.floor);
  for (size_t i = 1; i < in.size(); ++i) spd::require_same(in[i], in[0], names[i], names[0]);
  return in[0];
}

/// The roots of a point, and what bars of them make of it.
struct Roots {
  Value point, root, inverse;
  double floor;
  Roots(Value p, double least)
      : point(p), root(spd_matrix_fn(p, SpdFunction::sqrt, least)),
        inverse(spd_matrix_fn(p, SpdFunction::inverse_sqrt, least)), floor(least) {}
  Value bar(Value root_bar, Value inverse_bar) const {
    return spd_matrix_fn_backward(point, root_bar, {SpdFunction::sqrt, floor}) +
           spd_matrix_fn_backward(point, inverse_bar, {SpdFunction::inverse_sqrt, floor});
  }
};

// ---- R f(S x S) R, f = log or exp ----
SpdMatrixFnAttrs inner_function(SpdFunction f, double floor) { return {f, f == SpdFunction::log ? floor : kNoFloor}; }
Value mapped(Value base, Value x, SpdFunction f, double floor) {
  Roots p(base, floor);
  auto [function, least] = inner_function(f, floor);
  return congruence(p.root, spd_matrix_fn(congruence(p.inverse, x), function, least));
}
Many<Value> mapped_backward(Value base, Value x, Value ct, SpdFunction f, double floor) {
  Roots p(base, floor);
  SpdMatrixFnAttrs a = inner_function(f, floor);
  Value white = congruence(p.inverse, x), inside = spd_matrix_fn(white, a.function, a.floor);
  Value white_bar = spd_matrix_fn_backward(white, congruence(p.root, ct), a);
  return {p.bar(congruence_bar(p.root, inside, ct), congruence_bar(p.inverse, x, white_bar)),
          congruence(p.inverse, white_bar)};
}

/// With less under the base, exp's arguments are so large that f32 has no digits left to compare.
SpdFloorAttrs sample_floor(SpdFunction f) { return {f == SpdFunction::exp ? 1.0 : 0.5}; }

OpDef define_map(std::string_view name, std::string_view doc, std::vector<std::string_view> covers, const OpDef& op,
                 const OpDef& backward, std::string_view second, SpdFunction f) {
  return define<SpdFloorAttrs>({
      .name = name,
      .doc = doc,
      .source = "Pennec, Fillard, Ayache, A Riemannian framework for tensor computing, IJCV 66 (2006), 3.4",
      .operands = {"base", second},
      .covers = std::move(covers),
      .infer =
          [second](Types in, const SpdFloorAttrs& a) {
            return one_type(in, {"base", second}, a);
          },
      .decompose = [f](Values in, const SpdFloorAttrs& a) { return mapped(in[0], in[1], f, a.floor); },
      .vjp =
          [&backward](Values in, Value, Value ct, const SpdFloorAttrs& a) {
            return Many<Value>(ct.graph().emit(backward, {in[0], in[1], ct}, a));
          },
      .batch = batch_as_stack<SpdFloorAttrs>(op),
      .samples = {{.dims = {{3, 3}, {3, 3}}, .attrs = sample_floor(f), .lo = -1, .hi = 1.5},
                  {.dims = {{2, 2}, {2, 2}}, .lo = 0, .hi = 4},
                  {.dims = {{2, 1, 2, 2}, {2, 1, 2, 2}}, .attrs = sample_floor(f), .lo = -1, .hi = 1.5},
                  {.dims = {{1, 1}, {1, 1}}, .lo = 1, .hi = 2},
                  {.dims = {{2, 0, 0}, {2, 0, 0}}}},
  });
}
OpDef define_map_backward(std::string_view name, std::string_view doc, std::vector<std::string_view> covers,
                          const OpDef& op, std::string_view second, SpdFunction f) {
  return define<SpdFloorAttrs>({
      .name = name,
      .doc = doc,
      .source = "the chain rule through Daleckii and Krein's formula; Higham, Functions of Matrices (2008), 3.2",
      .operands = {"base", second, "ct"},
      .covers = std::move(covers),
      .infer =
          [second](Types in, const SpdFloorAttrs& a) {
            Type t = one_type(in, {"base", second, "ct"}, a);
            return Many<Type>({t, t});
          },
      .decompose = [f](Values in, const SpdFloorAttrs& a) { return mapped_backward(in[0], in[1], in[2], f, a.floor); },
      .batch = batch_as_stack<SpdFloorAttrs>(op),
      .samples = {{.dims = {{3, 3}, {3, 3}, {3, 3}},
                   .attrs = sample_floor(f),
                   .lo = f == SpdFunction::exp ? -0.5 : -1,
                   .hi = f == SpdFunction::exp ? 0.75 : 1.5},
                  {.dims = {{2, 2}, {2, 2}, {2, 2}}, .lo = 0, .hi = 4},
                  {.dims = {{2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, .attrs = sample_floor(f), .lo = -1, .hi = 1.5},
                  {.dims = {{1, 1}, {1, 1}, {1, 1}}, .lo = 1, .hi = 2},
                  {.dims = {{0, 0}, {0, 0}, {0, 0}}}},
  });
}

}  // namespace

OpDef define_spd_log_map() {
  return define_map("spd_log_map",
                    "the tangent at P = `base` that points to x: P^½ log(P^-½ x P^-½) P^½; `floor` is under the "
                    "eigenvalues of P and of P^-½ x P^-½",
                    {"SpdLogMap"}, op::spd_log_map, op::spd_log_map_backward, "x", SpdFunction::log);
}
OpDef define_spd_exp_map() {
  return define_map("spd_exp_map",
                    "where the geodesic from P = `base` along the tangent v arrives: P^½ exp(P^-½ v P^-½) P^½; "
                    "`floor` is under the eigenvalues of P",
                    {"SpdExpMap"}, op::spd_exp_map, op::spd_exp_map_backward, "v", SpdFunction::exp);
}
OpDef define_spd_log_map_backward() {
  return define_map_backward("spd_log_map_backward",
                             "the cotangents of spd_log_map's base and x, whose attributes it takes",
                             {"SpdLogMapBackward"}, op::spd_log_map_backward, "x", SpdFunction::log);
}
OpDef define_spd_exp_map_backward() {
  return define_map_backward("spd_exp_map_backward",
                             "the cotangents of spd_exp_map's base and v, whose attributes it takes",
                             {"SpdExpMapBackward"}, op::spd_exp_map_backward, "v", SpdFunction::exp);
}

namespace {

/// E = R (S Q S)^½ S is (Q P⁻¹)^½: E² = R (S Q S) S = Q P⁻¹. No root of a matrix that is not symmetric.
struct Transport {
  Roots p;
  Value to, white, middle, e;
  Transport(Value from, Value target, double floor)
      : p(from, floor), to(target), white(congruence(p.inverse, target)),
        middle(spd_matrix_fn(white, SpdFunction::sqrt, floor)), e(matmul(matmul(p.root, middle), p.inverse)) {}
  Value carried(Value v) const { return matmul(matmul(e, v), transposed(e)); }
  Many<Value> backward(Value v, Value ct) const {
    Value e_bar = matmul(matmul(ct, e), transposed(v)) + matmul(matmul(transposed(ct), e), v);
    Value middle_bar = matmul(matmul(p.root, e_bar), p.inverse);
    Value white_bar = spd_matrix_fn_backward(white, middle_bar, {SpdFunction::sqrt, p.floor});
    Value root_bar = matmul(matmul(e_bar, p.inverse), middle);
    Value inverse_bar = matmul(matmul(middle, p.root), e_bar) + congruence_bar(p.inverse, to, white_bar);
    return {p.bar(root_bar, inverse_bar), congruence(p.inverse, white_bar), matmul(matmul(transposed(e), ct), e)};
  }
};

}  // namespace

OpDef define_spd_parallel_transport() {
  return define<SpdFloorAttrs>({
      .name = "spd_parallel_transport",
      .doc = "the tangent v at `from` carried along the geodesic to `to`: E v Eᵀ, E = (to from⁻¹)^½; `floor` is under "
             "the eigenvalues of P = `from` and of P^-½ to P^-½",
      .source = "Sra, Hosseini, Conic geometric optimization on the manifold of positive definite matrices, SIAM J. "
                "Optim. 25 (2015), 3",
      .operands = {"from", "to", "v"},
      .covers = {"SpdParallelTransport"},
      .infer =
          [](Types in, const SpdFloorAttrs& a) {
            return one_type(in, {"from", "to", "v"}, a);
          },
      .decompose = [](Values in, const SpdFloorAttrs& a) { return Transport(in[0], in[1], a.floor).carried(in[2]); },
      .vjp =
          [](Values in, Value, Value ct, const SpdFloorAttrs& a) {
            auto [from, to, v] = spd_parallel_transport_backward(in[0], in[1], in[2], ct, a.floor);
            return Many<Value>({from, to, v});
          },
      .batch = batch_as_stack<SpdFloorAttrs>(op::spd_parallel_transport),
      .samples = {{.dims = {{3, 3}, {3, 3}, {3, 3}}, .attrs = SpdFloorAttrs{0.5}, .lo = -1, .hi = 1.5},
                  {.dims = {{2, 2}, {2, 2}, {2, 2}}, .lo = 0, .hi = 4},
                  {.dims = {{2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, .attrs = SpdFloorAttrs{0.5}, .lo = -1, .hi = 1.5},
                  {.dims = {{1, 1}, {1, 1}, {1, 1}}, .lo = 1, .hi = 2},
                  {.dims = {{2, 0, 0}, {2, 0, 0}, {2, 0, 0}}}},
  });
}
OpDef define_spd_parallel_transport_backward() {
  return define<SpdFloorAttrs>({
      .name = "spd_parallel_transport_backward",
      .doc = "the cotangents of spd_parallel_transport's operands, whose attributes it takes",
      .source = "the chain rule through Daleckii and Krein's formula; Higham, Functions of Matrices (2008), 3.2",
      .operands = {"from", "to", "v", "ct"},
      .covers = {"SpdParallelTransportBackward"},
      .infer =
          [](Types in, const SpdFloorAttrs& a) {
            Type t = one_type(in, {"from", "to", "v", "ct"}, a);
            return Many<Type>({t, t, t});
          },
      .decompose = [](Values in,
                      const SpdFloorAttrs& a) { return Transport(in[0], in[1], a.floor).backward(in[2], in[3]); },
      .batch = batch_as_stack<SpdFloorAttrs>(op::spd_parallel_transport_backward),
      .samples =
          {{.dims = {{3, 3}, {3, 3}, {3, 3}, {3, 3}}, .attrs = SpdFloorAttrs{0.5}, .lo = -1, .hi = 1.5},
           {.dims = {{2, 2}, {2, 2}, {2, 2}, {2, 2}}, .lo = 0, .hi = 4},
           {.dims = {{2, 2, 2}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, .attrs = SpdFloorAttrs{0.5}, .lo = -1, .hi = 1.5},
           {.dims = {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, .lo = 1, .hi = 2},
           {.dims = {{0, 0}, {0, 0}, {0, 0}, {0, 0}}}},
  });
}

namespace {

/// x[..., b, n, n]; mean and g as it is without b; ct as x is.
void batch_norm_types(Types in, const SpdFloorAttrs& a) {
  spd::require_spd(in[0], "x");
  spd::require_floor(a.floor);
  require_rank(in[0], 3, SIZE_MAX, "x");
  Type one = in[0];
  one.dims.erase(one.dims.end() - 3);
  spd::require_same(in[1], one, "mean", "x");
  spd::require_same(in[2], one, "g", "x");
  if (in.size() > 3) spd::require_same(in[3], in[0], "ct", "x");
}

}  // namespace

OpDef define_spd_batch_norm() {
  return define<SpdFloorAttrs>({
      .name = "spd_batch_norm",
      .doc =
          "x[..., b, n, n] carried from around M = `mean` to around G = `g`: G^½ (M^-½ x M^-½) G^½; `floor` is under "
          "the eigenvalues of M and G",
      .source = "Brooks et al., Riemannian batch normalization for SPD neural networks, NeurIPS 2019",
      .operands = {"x", "mean", "g"},
      .covers = {"SpdBatchNorm"},
      .infer = [](Types in, const SpdFloorAttrs& a) { return batch_norm_types(in, a), in[0]; },
      .decompose =
          [](Values in, const SpdFloorAttrs& a) {
            Value s = spd::for_each(spd_matrix_fn(in[1], SpdFunction::inverse_sqrt, a.floor));
            Value r = spd::for_each(spd_matrix_fn(in[2], SpdFunction::sqrt, a.floor));
            return congruence(r, congruence(s, in[0]));
          },
      .vjp =
          [](Values in, Value, Value ct, const SpdFloorAttrs& a) {
            auto [x, mean, g] = spd_batch_norm_backward(in[0], in[1], in[2], ct, a.floor);
            return Many<Value>({x, mean, g});
          },
      .batch = batch_as_stack<SpdFloorAttrs>(op::spd_batch_norm),
      .samples = {{.dims = {{2, 3, 3}, {3, 3}, {3, 3}}, .attrs = SpdFloorAttrs{0.5}},
                  {.dims = {{3, 2, 2}, {2, 2}, {2, 2}}, .lo = 0, .hi = 4},
                  {.dims = {{2, 3, 2, 2}, {2, 2, 2}, {2, 2, 2}}, .attrs = SpdFloorAttrs{0.5}},
                  {.dims = {{2, 1, 1}, {1, 1}, {1, 1}}, .lo = 1, .hi = 2},
                  {.dims = {{0, 2, 2}, {2, 2}, {2, 2}}, .attrs = SpdFloorAttrs{0.5}},
                  {.dims = {{2, 0, 0}, {0, 0}, {0, 0}}}},
  });
}
OpDef define_spd_batch_norm_backward() {
  return define<SpdFloorAttrs>({
      .name = "spd_batch_norm_backward",
      .doc = "the cotangents of spd_batch_norm's operands, whose attributes it takes",
      .source = "Brooks et al., Riemannian batch normalization for SPD neural networks, NeurIPS 2019",
      .operands = {"x", "mean", "g", "ct"},
      .covers = {"SpdBatchNormBackwardX", "SpdBatchNormBackwardG"},
      .infer =
          [](Types in, const SpdFloorAttrs& a) {
            return batch_norm_types(in, a), Many<Type>({in[0], in[1], in[2]});
          },
      .decompose =
          [](Values in, const SpdFloorAttrs& a) {
            Value x = in[0], ct = in[3];
            auto over_batch = [](Value bars) { return reduce_sum(bars, {bars.rank() - 3}); };
            Value s = spd::for_each(spd_matrix_fn(in[1], SpdFunction::inverse_sqrt, a.floor));
            Value r = spd::for_each(spd_matrix_fn(in[2], SpdFunction::sqrt, a.floor));
            Value white_bar = congruence(r, ct);
            Value s_bar = over_batch(congruence_bar(s, x, white_bar));
            Value r_bar = over_batch(congruence_bar(r, congruence(s, x), ct));
            return Many<Value>({congruence(s, white_bar),
                                spd_matrix_fn_backward(in[1], s_bar, {SpdFunction::inverse_sqrt, a.floor}),
                                spd_matrix_fn_backward(in[2], r_bar, {SpdFunction::sqrt, a.floor})});
          },
      .batch = batch_as_stack<SpdFloorAttrs>(op::spd_batch_norm_backward),
      .samples = {{.dims = {{2, 3, 3}, {3, 3}, {3, 3}, {2, 3, 3}}, .attrs = SpdFloorAttrs{0.5}},
                  {.dims = {{3, 2, 2}, {2, 2}, {2, 2}, {3, 2, 2}}, .lo = 0, .hi = 4},
                  {.dims = {{2, 3, 2, 2}, {2, 2, 2}, {2, 2, 2}, {2, 3, 2, 2}}, .attrs = SpdFloorAttrs{0.5}},
                  {.dims = {{2, 1, 1}, {1, 1}, {1, 1}, {2, 1, 1}}, .lo = 1, .hi = 2},
                  {.dims = {{0, 2, 2}, {2, 2}, {2, 2}, {0, 2, 2}}, .attrs = SpdFloorAttrs{0.5}},
                  {.dims = {{2, 0, 0}, {0, 0}, {0, 0}, {2, 0, 0}}}},
  });
}

}  // namespace rlx
