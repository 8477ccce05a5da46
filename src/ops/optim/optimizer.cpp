// Steps of optimizers. All are composed: where they are element-wise a backend fuses them into one pass over the param,
// its gradient and its states. Neighbour: train/optimizer.cpp, which puts them behind a gradient graph.
#include "rlx/ops/optimizer.h"

#include "ops/core/composite_rules.h"
#include "ops/core/special_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/reduction.h"
#include "rlx/ops/shape.h"

namespace rlx {

namespace {

// ---- states: what each kind of attributes calls for ----
using States = std::vector<OptimizerState>;

States kept_by(const SgdAttrs& a, const Type& t) { return a.momentum > 0 ? States{{"velocity", t}} : States{}; }
States kept_by(const AdamAttrs&, const Type& t) { return {{"m", t}, {"v", t}}; }
States kept_by(const AdagradAttrs&, const Type& t) { return {{"sum", t}}; }
States kept_by(const RmspropAttrs& a, const Type& t) {
  States states = {{"square", t}};
  if (a.centered) states.push_back({"mean", t});
  if (a.momentum > 0) states.push_back({"velocity", t});
  return states;
}
States kept_by(const AdafactorAttrs&, const Type& t) {
  if (t.rank() < 2) return {{"squares", t}};
  Type rows = t, columns = t;
  rows.dims[t.rank() - 1] = 1, columns.dims[t.rank() - 2] = 1;
  return {{"rows", rows}, {"columns", columns}};
}
States kept_by(const LambAttrs&, const Type& t) { return {{"m", t}, {"v", t}}; }
States kept_by(const LionAttrs&, const Type& t) { return {{"m", t}}; }
States kept_by(const MuonAttrs&, const Type& t) { return {{"m", t}}; }
States kept_by(const SophiaAttrs&, const Type& t) { return {{"m", t}, {"h", t}}; }

/// The results of an update, after a look at its operands.
template <class A>
Many<Type> updated(Types in, const A& a) {
  require_kind(in[0], kReal, "param");
  if (in[1] != in[0]) fail(ErrorCode::shape_mismatch, "the gradient must be ", in[0], ", as the param is, got ", in[1]);
  if (Type lr{in[0].dtype, {}}; in[2] != lr)
    fail(ErrorCode::shape_mismatch, "lr must be ", lr, ", a scalar of the param's dtype, got ", in[2]);
  if (!is_integer(in[3].dtype) || in[3].rank() > 0)
    fail(ErrorCode::shape_mismatch, "step must be an integer scalar, got ", in[3]);
  if (in.size() > 4 && in.back().dtype == boolean) {
    if (in.back().rank() > 0) fail(ErrorCode::shape_mismatch, "apply must be bool[], got ", in.back());
    in = in.first(in.size() - 1);
  }
  States states = kept_by(a, in[0]);
  if (in.size() != 4 + states.size()) {
    std::string names;
    for (const OptimizerState& s : states) names += (names.empty() ? "" : ", ") + s.name;
    fail(ErrorCode::invalid_argument, "with these attributes the states of ", in[0], " are ",
         names.empty() ? "none" : names, "; got ", in.size() - 4, " of them");
  }
  Many<Type> types = {in[0]};
  for (size_t s = 0; s < states.size(); ++s) {
    if (in[4 + s] != states[s].type)
      fail(ErrorCode::shape_mismatch, "the state ", states[s].name, " must be ", states[s].type, ", got ", in[4 + s]);
    types.push_back(states[s].type);
  }
  return types;
}

/// A step as a rule's decomposition, which knows nothing of `apply`: where that is false, all comes out as it went in.
template <class A>
auto step_of(Many<Value> (*step)(Values, const A&)) {
  return [step](Values in, const A& a) {
    if (in.back().dtype() != boolean) return step(in, a);
    Value apply = in.back();
    Many<Value> out = step(in.first(in.size() - 1), a);
    for (size_t r = 0; r < out.size(); ++r)
      out[r] = select(broadcast_to(apply, out[r].dims()), out[r], in[r == 0 ? 0 : 3 + r]);
    return out;
  };
}

void require_fraction(double v, std::string_view name) {
  if (!(v >= 0 && v < 1)) fail(ErrorCode::invalid_argument, name, " is ", v, "; it goes from 0 to below 1");
}
void require_not_negative(double v, std::string_view name) {
  if (!(v >= 0 && std::isfinite(v)))
    fail(ErrorCode::invalid_argument, name, " is ", v, "; it must be finite and not below 0");
}

/// grad + decay param, if there is any decay.
Value decayed(Value grad, Value param, double decay) { return decay == 0 ? grad : grad + param * decay; }
/// What shrinking leaves of the param: param (1 - lr decay).
Value shrunk(Value param, Value lr, double decay) { return decay == 0 ? param : param * (1 - lr * decay); }
Value moving(Value old, Value now, double stays) { return old * stays + now * (1 - stays); }
/// 1 - beta^step, exact where beta^step is near 1, which it is in the first steps.
Value correction(Value step, double beta, DType dtype) {
  if (beta == 0) return scalar(step.graph(), 1, dtype);
  return neg(expm1(convert(step, dtype) * std::log(beta)));
}
Axes every_axis(Value x) { return other_axes(x.dims().size(), {}); }
Value root_mean_square(Value x) { return sqrt(mean_over(square(x), every_axis(x))); }

struct AdamMoments {
  Value m, v;
  Value direction;  // m^ / (sqrt(v^) + epsilon)
};
template <class A>
AdamMoments adam_moments(Values in, Value grad, const A& a) {
  DType t = grad.dtype();
  Value m = moving(in[4], grad, a.beta1), v = moving(in[5], square(grad), a.beta2);
  // One division for each element: the corrections are scalars, and so are their reciprocals.
  Value root = sqrt(v) * (1.0 / sqrt(correction(in[3], a.beta2, t))) + a.epsilon;
  return {m, v, m * (1.0 / correction(in[3], a.beta1, t)) / root};
}
template <class A>
void require_adam(const A& a) {
  require_fraction(a.beta1, "beta1"), require_fraction(a.beta2, "beta2");
  require_not_negative(a.epsilon, "epsilon"), require_not_negative(a.weight_decay, "weight_decay");
}

/// Positive numbers for the roots, and steps 1 and 2.
Sample sample(Dims param, size_t states, Attrs attrs = {}) {
  Sample s{{param, param, {}, {}}, {f64, f64, f64, i32}, std::move(attrs), 1, 2.5};
  for (size_t i = 0; i < states; ++i) s.dims.push_back(param);
  return s;
}

/// The same with `apply` behind the states.
Sample applied(Sample s) {
  s.dtypes.resize(s.dims.size(), f64), s.dtypes.push_back(boolean);
  s.dims.push_back({});
  return s;
}

}  // namespace

OpDef define_sgd_update() {
  using A = SgdAttrs;
  return define<A>({
      .name = "sgd_update",
      .doc =
          "A step of gradient descent: g = grad + weight_decay param. Without momentum param - lr g; else velocity' = "
          "momentum velocity + g and param - lr velocity', or with `nesterov` param - lr (g + momentum velocity'); "
          "where `apply` is false nothing changes",
      .source = "Robbins, Monro 1951; Sutskever et al., ICML 2013 (Nesterov), as PyTorch has them",
      .operands = {"param", "grad", "lr", "step", "velocity?", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_fraction(a.momentum, "momentum"), require_not_negative(a.weight_decay, "weight_decay");
            if (a.nesterov && a.momentum == 0) fail(ErrorCode::invalid_argument, "nesterov needs a momentum above 0");
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        Value g = decayed(in[1], in[0], a.weight_decay);
        if (a.momentum == 0) return Many<Value>{in[0] - in[2] * g};
        Value velocity = in[4] * a.momentum + g;
        return Many<Value>{in[0] - in[2] * (a.nesterov ? g + velocity * a.momentum : velocity), velocity};
      }),
      .samples = {sample({3, 4}, 0), sample({5}, 0, A{.weight_decay = 0.1}), sample({2, 1, 3}, 1, A{.momentum = 0.9}),
                  sample({7}, 1, A{0.9, true, 0.01}), sample({}, 1, A{.momentum = 0.5}), sample({0, 3}, 0),
                  sample({37}, 0, A{.weight_decay = 0.1}), applied(sample({3, 4}, 0)),
                  applied(sample({19}, 1, A{.momentum = 0.9, .weight_decay = 0.1}))},
  });
}

OpDef define_adam_update() {
  using A = AdamAttrs;
  return define<A>({
      .name = "adam_update",
      .doc =
          "A step by the mean of the gradients over the root of the mean of their squares, both corrected for having "
          "begun at 0. weight_decay is added to the gradient, or if `decoupled` (AdamW) shrinks the param; where "
          "`apply` is false nothing changes",
      .source = "Kingma, Ba, ICLR 2015; Loshchilov, Hutter, ICLR 2019",
      .operands = {"param", "grad", "lr", "step", "m", "v", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_adam(a);
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        AdamMoments now = adam_moments(in, a.decoupled ? in[1] : decayed(in[1], in[0], a.weight_decay), a);
        Value param = a.decoupled ? shrunk(in[0], in[2], a.weight_decay) : in[0];
        return Many<Value>{param - in[2] * now.direction, now.m, now.v};
      }),
      .samples = {sample({3, 4}, 2), sample({5}, 2, A{.weight_decay = 0.1}),
                  sample({2, 1, 3}, 2, A{.beta1 = 0.8, .weight_decay = 0.1, .decoupled = true}),
                  sample({}, 2, A{.beta1 = 0}), sample({0, 3}, 2), sample({5, 9}, 2), applied(sample({19}, 2))},
  });
}

OpDef define_adagrad_update() {
  using A = AdagradAttrs;
  return define<A>({
      .name = "adagrad_update",
      .doc = "g = grad + weight_decay param; sum' = sum + g^2; param - lr g / (sqrt(sum') + epsilon); where `apply` is "
             "false nothing changes",
      .source = "Duchi, Hazan, Singer, JMLR 2011",
      .operands = {"param", "grad", "lr", "step", "sum", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_not_negative(a.epsilon, "epsilon"), require_not_negative(a.weight_decay, "weight_decay");
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        Value g = decayed(in[1], in[0], a.weight_decay), sum = in[4] + square(g);
        return Many<Value>{in[0] - in[2] * g / (sqrt(sum) + a.epsilon), sum};
      }),
      .samples = {sample({3, 4}, 1), sample({5}, 1, A{.weight_decay = 0.1}), sample({}, 1, A{.epsilon = 1e-3}),
                  sample({0, 3}, 1), applied(sample({37}, 1))},
  });
}

OpDef define_rmsprop_update() {
  using A = RmspropAttrs;
  return define<A>({
      .name = "rmsprop_update",
      .doc =
          "g = grad + weight_decay param; square' = alpha square + (1 - alpha) g^2; u = g / (sqrt(square') + epsilon), "
          "or if `centered` with the mean's square taken off square'. param - lr u, or with a momentum velocity' = "
          "momentum velocity + u and param - lr velocity'; where `apply` is false nothing changes",
      .source = "Tieleman, Hinton 2012; centered: Graves 2013",
      .operands = {"param", "grad", "lr", "step", "square", "mean?", "velocity?", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_fraction(a.alpha, "alpha"), require_fraction(a.momentum, "momentum");
            require_not_negative(a.epsilon, "epsilon"), require_not_negative(a.weight_decay, "weight_decay");
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        Value g = decayed(in[1], in[0], a.weight_decay);
        Many<Value> states = {moving(in[4], square(g), a.alpha)};
        Value spread = states[0];
        if (a.centered) {
          states.push_back(moving(in[5], g, a.alpha));
          spread = spread - square(states[1]);
        }
        Value u = g / (sqrt(spread) + a.epsilon);
        if (a.momentum > 0) states.push_back(u = in.back() * a.momentum + u);
        states.insert(states.begin(), in[0] - in[2] * u);
        return states;
      }),
      .samples = {sample({3, 4}, 1), sample({5}, 1, A{.weight_decay = 0.1}), sample({}, 2, A{.momentum = 0.9}),
                  // Squares and means whose difference is positive, as those of real gradients are.
                  Sample{{{4}, {4}, {}, {}, {4}, {4}}, {f64, f64, f64, i32}, A{.alpha = 0.5, .centered = true}, 1, 1.2},
                  Sample{{{4}, {4}, {}, {}, {4}, {4}, {4}},
                         {f64, f64, f64, i32},
                         A{.alpha = 0.5, .momentum = 0.5, .centered = true},
                         1,
                         1.2},
                  sample({0, 3}, 1), applied(sample({37}, 2, A{.momentum = 0.9}))},
  });
}

namespace {

Sample factored_sample(Dims param, AdafactorAttrs a = {}) {
  Sample s = sample(param, 0, a);
  for (const OptimizerState& state : kept_by(a, {f64, param})) s.dims.push_back(state.type.dims);
  return s;
}

}  // namespace

OpDef define_adafactor_update() {
  using A = AdafactorAttrs;
  return define<A>({
      .name = "adafactor_update",
      .doc = "The squares of the gradients are kept as their means over the last dim and over the one before it (of a "
             "vector, as they are), moved by step^-decay towards the new ones. u = grad over the root "
             "of what they make together, at most `clip` long in root mean square; the step is min(lr, 1 / sqrt(step)) "
             "times the param's root mean square, at least `least_scale`. weight_decay shrinks the param before; where "
             "`apply` is false nothing changes",
      .source = "Shazeer, Stern, ICML 2018, as PyTorch has it",
      .operands = {"param", "grad", "lr", "step", "rows_or_squares", "columns?", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_not_negative(a.decay, "decay"), require_not_negative(a.epsilon, "epsilon");
            require_not_negative(a.least_scale, "least_scale"), require_not_negative(a.weight_decay, "weight_decay");
            if (!(a.clip > 0)) fail(ErrorCode::invalid_argument, "clip is ", a.clip, "; it must be above 0");
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        Value param = in[0], grad = in[1], lr = in[2], step = convert(in[3], grad.dtype());
        auto rank = static_cast<int64_t>(param.dims().size());
        Value now = pow(step, scalar(step.graph(), -a.decay, step.dtype()));
        Value squares = square(grad);
        auto moved = [&](Value old, Value to) { return old + now * (to - old); };
        auto mean = [&](Value x, int64_t axis) {
          Dims kept = x.dims();
          kept[static_cast<size_t>(axis)] = 1;
          return reshape(mean_over(x, {axis}), kept);
        };
        Value scale = at_least(root_mean_square(param), a.least_scale) * minimum(lr, rsqrt(step));
        Many<Value> out = {shrunk(param, lr, a.weight_decay)};
        Value estimate;
        if (rank < 2) {
          out.push_back(estimate = moved(in[4], squares));
        } else {
          Value rows = moved(in[4], mean(squares, rank - 1)), columns = moved(in[5], mean(squares, rank - 2));
          out.push_back(rows), out.push_back(columns);
          estimate = rows * columns / at_least(mean(rows, rank - 2), a.epsilon);
        }
        Value u = grad * rsqrt(at_least(estimate, a.epsilon * a.epsilon));
        Value length = at_least(root_mean_square(u) / a.clip, 1);
        out[0] = out[0] - scale / length * u;
        return out;
      }),
      .samples = {factored_sample({3, 4}), factored_sample({5}, A{.weight_decay = 0.1}),
                  factored_sample({2, 3, 2}, A{.decay = 0.5}), factored_sample({}), factored_sample({1, 3}),
                  applied(factored_sample({3, 2}))},
  });
}

OpDef define_lamb_update() {
  using A = LambAttrs;
  return define<A>({
      .name = "lamb_update",
      .doc = "u = Adam's direction + weight_decay param; param - lr u |param| / |u|, the lengths over all elements, or "
             "param - lr u if one of them is 0; where `apply` is false nothing changes",
      .source = "You et al., ICLR 2020, as Optax has it",
      .operands = {"param", "grad", "lr", "step", "m", "v", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_adam(a);
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        AdamMoments now = adam_moments(in, in[1], a);
        Value u = decayed(now.direction, in[0], a.weight_decay);
        auto squares = [](Value x) { return reduce_sum(square(x), every_axis(x)); };
        Value param = squares(in[0]), step = squares(u), zero = zeros_like(param), one = full_like(param, 1);
        Value stands = logical_or(compare(param, zero, Comparison::eq), compare(step, zero, Comparison::eq));
        // The roots and the quotient are of 1 where there is no length: their derivatives stay finite.
        Value ratio = sqrt(select(stands, one, param) / select(stands, one, step));
        return Many<Value>{in[0] - in[2] * ratio * u, now.m, now.v};
      }),
      .samples = {sample({3, 4}, 2), sample({5}, 2, A{.weight_decay = 0.1}), sample({}, 2, A{.beta1 = 0.5}),
                  sample({2, 1, 3}, 2), sample({0, 3}, 2), applied(sample({5}, 2))},
  });
}

OpDef define_lion_update() {
  using A = LionAttrs;
  return define<A>({
      .name = "lion_update",
      .doc = "param - lr (sign(beta1 m + (1 - beta1) grad) + weight_decay param); m' = beta2 m + (1 - beta2) grad; "
             "where `apply` is false nothing changes",
      .source = "Chen et al., NeurIPS 2023 (Symbolic discovery of optimization algorithms)",
      .operands = {"param", "grad", "lr", "step", "m", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_fraction(a.beta1, "beta1"), require_fraction(a.beta2, "beta2");
            require_not_negative(a.weight_decay, "weight_decay");
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        Value u = decayed(sign(moving(in[4], in[1], a.beta1)), in[0], a.weight_decay);
        return Many<Value>{in[0] - in[2] * u, moving(in[4], in[1], a.beta2)};
      }),
      .samples = {sample({3, 4}, 1), sample({5}, 1, A{.weight_decay = 0.1}), sample({}, 1, A{.beta1 = 0.5}),
                  sample({0, 3}, 1), applied(sample({37}, 1))},
  });
}

namespace {

/// x divided by its norm, then the quintic that drives singular values between 0 and 1 to near 1 (Jordan 2024).
Value orthogonalized(Value x, const MuonAttrs& a) {
  auto rank = x.dims().size();
  Axes permutation = every_axis(x);
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  // The smaller extent first: the products are then as small as they can be.
  bool flip = x.dims()[rank - 2].value() > x.dims()[rank - 1].value();
  if (flip) x = transpose(x, permutation);
  Axes matrix = {static_cast<int64_t>(rank) - 2, static_cast<int64_t>(rank) - 1};
  Dims kept = x.dims();
  kept[rank - 2] = kept[rank - 1] = 1;
  Value norm = reshape(sqrt(reduce_sum(square(x), matrix)), kept);
  x = x / at_least(norm, a.epsilon);
  for (int64_t i = 0; i < a.iterations; ++i) {
    Value gram = matmul(x, transpose(x, permutation));
    x = x * 3.4445 + matmul(gram * -4.7750 + matmul(gram, gram) * 2.0315, x);
  }
  return flip ? transpose(x, permutation) : x;
}

}  // namespace

OpDef define_muon_update() {
  using A = MuonAttrs;
  return define<A>({
      .name = "muon_update",
      .doc =
          "m' = momentum m + (1 - momentum) grad; o = m', or with `nesterov` momentum m' + (1 - momentum) grad, made "
          "nearly orthogonal by `iterations` of Newton and Schulz over the last two dims; param (1 - lr weight_decay) "
          "- lr sqrt(max(1, rows / columns)) o; where `apply` is false nothing changes",
      .source = "Jordan et al. 2024 (Muon), as PyTorch has it, in the param's own precision",
      .operands = {"param", "grad", "lr", "step", "m", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_fraction(a.momentum, "momentum"), require_not_negative(a.weight_decay, "weight_decay");
            require_not_negative(a.epsilon, "epsilon");
            if (a.iterations < 0 || a.iterations > 100)
              fail(ErrorCode::invalid_argument, "iterations is ", a.iterations, "; it goes from 0 to 100");
            if (in[0].rank() < 2)
              fail(ErrorCode::shape_mismatch, "Muon's param is a matrix, got ", in[0], "; others take adam_update");
            for (size_t d = in[0].rank() - 2; d < in[0].rank(); ++d)
              if (!in[0].dims[d].is_static())
                fail(ErrorCode::shape_mismatch, "the extents of Muon's matrix must be numbers, got ", in[0]);
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        Value m = moving(in[4], in[1], a.momentum);
        Value o = orthogonalized(a.nesterov ? moving(m, in[1], a.momentum) : m, a);
        size_t rank = in[0].dims().size();
        auto rows = static_cast<double>(in[0].dims()[rank - 2].value());
        auto columns = static_cast<double>(in[0].dims()[rank - 1].value());
        double longer = columns > 0 ? std::sqrt(std::max(1.0, rows / columns)) : 1;
        return Many<Value>{shrunk(in[0], in[2], a.weight_decay) - in[2] * longer * o, m};
      }),
      .samples = {sample({3, 4}, 1), sample({5, 2}, 1, A{.nesterov = false, .weight_decay = 0.1}),
                  sample({2, 3, 3}, 1, A{.iterations = 2}), sample({1, 4}, 1), sample({0, 3}, 1),
                  applied(sample({3, 2}, 1))},
  });
}

OpDef define_sophia_update() {
  using A = SophiaAttrs;
  return define<A>({
      .name = "sophia_update",
      .doc = "m' = beta1 m + (1 - beta1) grad; param (1 - lr weight_decay) - lr clamp(m' / max(gamma h, epsilon), -1, "
             "1). h, a mean of estimates of the Hessian's diagonal, is read and given back as it is; where `apply` is "
             "false nothing changes",
      .source = "Liu et al., ICLR 2024 (Sophia), algorithm 3",
      .operands = {"param", "grad", "lr", "step", "m", "h", "apply?"},
      .infer =
          [](Types in, const A& a) {
            require_fraction(a.beta1, "beta1"), require_not_negative(a.weight_decay, "weight_decay");
            if (!(a.gamma > 0)) fail(ErrorCode::invalid_argument, "gamma is ", a.gamma, "; it must be above 0");
            if (!(a.epsilon > 0)) fail(ErrorCode::invalid_argument, "epsilon is ", a.epsilon, "; it must be above 0");
            return updated(in, a);
          },
      .decompose = step_of<A>([](Values in, const A& a) {
        Value m = moving(in[4], in[1], a.beta1);
        Value u = clamp(m / at_least(in[5] * a.gamma, a.epsilon), -1, 1);
        return Many<Value>{shrunk(in[0], in[2], a.weight_decay) - in[2] * u, m, in[5]};
      }),
      .samples = {sample({3, 4}, 2), sample({5}, 2, A{.weight_decay = 0.1}), sample({}, 2, A{.gamma = 2}),
                  sample({0, 3}, 2), applied(sample({37}, 2))},
  });
}

const OpDef& op_of(const OptimizerRule& rule) {
  static constexpr std::array<const OpDef*, std::variant_size_v<OptimizerRule>> kOps = {
      &op::sgd_update,  &op::adam_update, &op::adagrad_update, &op::rmsprop_update, &op::adafactor_update,
      &op::lamb_update, &op::lion_update, &op::muon_update,    &op::sophia_update};
  return *kOps[rule.index()];
}
std::vector<OptimizerState> states_of(const OptimizerRule& rule, const Type& param) {
  return std::visit([&](const auto& attrs) { return kept_by(attrs, param); }, rule);
}
std::vector<Value> optimizer_update(const OptimizerRule& rule, Value param, Value grad, Value lr, Value step,
                                    Values states, Value apply) {
  std::vector<Value> in = {param, grad, lr, step};
  in.insert(in.end(), states.begin(), states.end());
  if (apply) in.push_back(apply);
  return param.graph().emit(op_of(rule), in, std::visit([](const auto& attrs) { return Attrs(attrs); }, rule));
}

}  // namespace rlx
