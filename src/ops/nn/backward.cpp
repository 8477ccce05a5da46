// Backward kinds of element-wise ops; see rlx/ops/backward.h. Those of other families stand with the family, or in
// backward_norm.cpp.
#include "rlx/ops/backward.h"

#include <cmath>

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/elementary.h"

namespace rlx {

Value relu_backward(Value x, Value ct) { return emit(op::relu_backward, {x, ct}); }
Value activation_backward(Value x, Value ct, ActivationKind kind) {
  return emit(op::activation_backward, {x, ct}, ActivationBackwardAttrs{kind});
}

namespace {

/// f(x) where x is positive, else 0; f sees positive numbers only.
Value where_positive(Value x, Value (*f)(Value)) {
  Value inside = positive(x);
  return select(inside, f(select(inside, x, full_like(x, 1))), zeros_like(x));
}
Value within(Value x, double bound) { return compare(abs(x), full_like(x, bound), Comparison::lt); }

Value derivative(Value x, ActivationKind kind) {
  using enum ActivationKind;
  // Factors of what decays faster than they grow: limited, so that infinity times 0 does not arise.
  auto limited = [&] { return clamp(x, -64, 64); };
  switch (kind) {
    case gelu: {
      Value z = limited();
      return 0.5 * (1.0 + rlx::erf(x * M_SQRT1_2)) + z * (rlx::exp(-0.5 * (z * z)) * (1 / std::sqrt(2 * M_PI)));
    }
    case gelu_tanh: {
      constexpr double kSlope = 0.79788456080286535587989211986876, kCubic = 0.044715;  // sqrt(2 / pi)
      Value z = limited();
      Value t = rlx::tanh(kSlope * (z * (1.0 + kCubic * (z * z))));
      return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * (kSlope * (1.0 + 3 * kCubic * (z * z)));
    }
    case silu: {
      Value s = logistic(x);
      return s * (1.0 + x * logistic(-x));
    }
    case relu: return convert(positive(x), x.dtype());
    case sigmoid: return logistic(x) * logistic(-x);
    case tanh: {
      Value t = rlx::tanh(x);
      return (1.0 - t) * (1.0 + t);
    }
    case exp: return rlx::exp(x);
    case log: return 1.0 / x;
    case sqrt: return where_positive(x, [](Value v) { return 0.5 * rlx::rsqrt(v); });
    case rsqrt: return where_positive(x, [](Value v) { return -0.5 * (rlx::rsqrt(v) / v); });
    case neg: return full_like(x, -1);
    case abs: return rlx::sign(x);
    case sin: return rlx::cos(x);
    case cos: return -rlx::sin(x);
    case tan: {
      Value t = rlx::tan(x);
      return 1.0 + t * t;
    }
    case atan: return 1.0 / (1.0 + x * x);
    case round: return full_like(x, 1);
    case reciprocal: return -1.0 / (x * x);
    case floor:
    case ceil:
    case sign: return zeros_like(x);
    case softplus: return logistic(x);
    case elu: return select(positive(x), full_like(x, 1), rlx::exp(minimum(x, zeros_like(x))));
    case erf: return (2 / std::sqrt(M_PI)) * rlx::exp(-(x * x));
    case hard_swish: return select(within(x, 3), x / 3.0 + 0.5, convert(positive(x), x.dtype()));
    case hard_sigmoid: return convert(within(x, 3), x.dtype()) * (1.0 / 6);
    case mish: {
      Value t = rlx::tanh(rlx::softplus(x));
      return t + limited() * logistic(x) * ((1.0 - t) * (1.0 + t));
    }
    case softsign: {
      Value a = 1.0 / (1.0 + rlx::abs(x));
      return a * a;
    }
    case log_sigmoid: return logistic(-x);
  }
  return x;
}

std::vector<Sample> samples_of_all_kinds() {
  std::vector<Sample> all = {{.dims = {{}, {}}}, {.dims = {{0, 2}, {0, 2}}}};
  for (size_t i = 0; i < names_of(ActivationKind{}).size(); ++i) {
    auto kind = static_cast<ActivationKind>(i);
    using enum ActivationKind;
    bool positive = kind == log || kind == rsqrt || kind == reciprocal;
    bool bounded = kind == tan;
    all.push_back({.dims = {{2, 5}, {2, 5}},
                   .attrs = ActivationBackwardAttrs{kind},
                   .lo = positive  ? 0.2
                         : bounded ? -1.2
                                   : -4,
                   .hi = bounded ? 1.2 : 4});
  }
  all.push_back(
      {.dims = {{3, 4}, {3, 4}}, .attrs = ActivationBackwardAttrs{ActivationKind::gelu_tanh}, .lo = -99, .hi = 99});
  return all;
}

}  // namespace

OpDef define_relu_backward() {
  return define<>({
      .name = "relu_backward",
      .doc = "ct where x is positive, else 0",
      .operands = {"x", "ct"},
      .covers = {"ReluBackward"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(require_same(in), kReal), in[0]; },
      .decompose = [](Values in) { return select(positive(in[0]), in[1], zeros_like(in[1])); },
      .samples =
          {{.dims = {{3, 4}, {3, 4}}}, {.dims = {{2, 1, 3}, {2, 1, 3}}}, {.dims = {{}, {}}}, {.dims = {{0}, {0}}}},
  });
}

OpDef define_activation_backward() {
  return define<ActivationBackwardAttrs>({
      .name = "activation_backward",
      .doc =
          "ct times the derivative of `kind` at x: 0 at the kink of relu and abs and where sqrt and rsqrt have none, "
          "1 for round",
      .operands = {"x", "ct"},
      .covers = {"ActivationBackward"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(require_same(in), kReal), in[0]; },
      .decompose =
          [](Values in, const ActivationBackwardAttrs& a) {
            if (a.kind == ActivationKind::relu) return select(positive(in[0]), in[1], zeros_like(in[1]));
            return in[1] * derivative(in[0], a.kind);
          },
      .samples = samples_of_all_kinds,
  });
}

}  // namespace rlx
