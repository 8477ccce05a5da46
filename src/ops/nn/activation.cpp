// Activations: element-wise composites on floats. The references are written with the C library's functions,
// not with the parts of the decomposition, so that the law which compares the two says something.
#include "rlx/ops/activation.h"

#include <cmath>

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/elementary.h"

namespace rlx {

Value activate(Value x, Activation kind) {
  switch (kind) {
    case Activation::none: break;
    case Activation::relu: return relu(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::silu: return silu(x);
    case Activation::sigmoid: return logistic(x);
    case Activation::tanh: return tanh(x);
    case Activation::relu6: return relu6(x);
    case Activation::hard_swish: return hard_swish(x);
  }
  return x;
}
Value leaky_relu(Value x, double slope) { return emit(op::leaky_relu, {x}, LeakyReluAttrs{slope}); }
Value prelu(Value x, Value slope) { return select(compare(x, zeros_like(x), Comparison::lt), slope * x, x); }
Value elu(Value x, double alpha) { return emit(op::elu, {x}, EluAttrs{alpha}); }
Value celu(Value x, double alpha) { return emit(op::celu, {x}, EluAttrs{alpha}); }
Value hard_sigmoid(Value x, double alpha, double beta) {
  return emit(op::hard_sigmoid, {x}, HardSigmoidAttrs{alpha, beta});
}

namespace {

/// An activation without attributes. A function pointer, so that the templates below it exist once.
OpDef activation(std::string_view name, std::string_view doc, std::string_view source, double (*f)(double),
                 Value (*parts)(Value), double lo = -9, double hi = 9) {
  OpDef op = define_unary<kReal>(name, doc, f, parts, lo, hi);
  op.source = source;
  return op;
}

/// An activation whose attributes are A.
template <class A>
OpDef activation(std::string_view name, std::string_view doc, std::string_view source, double (*f)(double, const A&),
                 Value (*parts)(Value, const A&), A other, double lo = -9, double hi = 9) {
  return define<A>({
      .name = name,
      .doc = doc,
      .source = source,
      .operands = {"x"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(in[0], kReal), in[0]; },
      .reference =
          [f](Tensors in, const A& a) {
            return map_elements<double, double>(in[0].dtype(), in[0], [&](double x) { return f(x, a); });
          },
      .decompose = [parts](Values in, const A& a) { return parts(in[0], a); },
      .samples = {{.dims = {{3, 4}}, .lo = lo, .hi = hi},
                  {.dims = {{}}, .lo = lo, .hi = hi},
                  {.dims = {{2, 3}}, .attrs = other, .lo = lo, .hi = hi},
                  {.dims = {{2, 0}}, .attrs = other},
                  {.dims = {{19, 1}}, .dtypes = {bf16}, .attrs = other, .lo = lo, .hi = hi}},
  });
}

Value min_zero(Value x) { return minimum(x, zeros_like(x)); }
/// x where it is not positive, else 0: expm1 of what is not chosen must stay finite, for its derivative would be
/// infinity times 0; and at 0 the whole derivative must pass, where `minimum` would let half of it.
Value not_positive(Value x) { return select(positive(x), zeros_like(x), x); }
Value between(Value x, double low, double high) {
  return bitwise_and(compare(x, full_like(x, low), Comparison::gt), compare(x, full_like(x, high), Comparison::lt));
}
Value max_zero(Value x) { return maximum(x, zeros_like(x)); }
double logistic_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double clamped(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }  // NaN stays

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kGeluSlope = 0.79788456080286535587989211986876;  // sqrt(2 / pi)

}  // namespace

OpDef define_relu() {
  OpDef relu = define_unary<kInteger | kReal>(
      "relu", "x where it is positive, else 0; the derivative at 0 is 0",
      [](auto x) { return x < decltype(x)(0) ? decltype(x)(0) : x; }, max_zero);
  // By the result: a product that has taken in its activation has no other. And chosen, not multiplied: no infinite
  // cotangent becomes a NaN where nothing passes.
  relu.vjp = [](Values, Values out, Values cts, const Attrs&, const Transforms&) -> Many<Value> {
    return {select(positive(out[0]), cts[0], zeros_like(cts[0]))};
  };
  return relu | Covers{"Activation", "ActivationBackward", "ReluBackward"};
}
OpDef define_relu6() {
  return with_derivative(activation(
                             "relu6", "x limited to [0, 6]; the derivative at 0 and 6 is 0", "Krizhevsky 2010",
                             [](double x) { return clamped(x, 0, 6); }, [](Value x) { return clamp(x, 0, 6); }),
                         [](Value x, Value) { return convert(between(x, 0, 6), x.dtype()); });
}
OpDef define_leaky_relu() {
  return activation<LeakyReluAttrs>(
      "leaky_relu", "x where it is not negative, else slope * x", "Maas, Hannun, Ng, ICML 2013",
      [](double x, const LeakyReluAttrs& a) { return x < 0 ? a.slope * x : x; },
      [](Value x, const LeakyReluAttrs& a) {
        return select(compare(x, zeros_like(x), Comparison::lt), x * a.slope, x);
      },
      {.slope = -1.5});
}
OpDef define_gelu() {
  return activation(
             "gelu", "x Phi(x), Phi the normal distribution function: x (1 + erf(x / sqrt 2)) / 2",
             "Hendrycks, Gimpel, arXiv:1606.08415", [](double x) { return x * (0.5 * std::erfc(-x * M_SQRT1_2)); },
             [](Value x) { return x * (0.5 * (1.0 + erf(x * M_SQRT1_2))); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_gelu_tanh() {
  return activation(
             "gelu_tanh", "gelu by a hyperbolic tangent: x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2",
             "Hendrycks, Gimpel, arXiv:1606.08415",
             [](double x) {
               return x * logistic_of(2 * kGeluSlope * (x + 0.044715 * x * x * x));
             },  // (1 + tanh z) / 2 = s(2z)
             // x^3 overflows early, but only where tanh has long been 1.
             [](Value x) { return x * (0.5 * (1.0 + tanh(kGeluSlope * (x * (1.0 + 0.044715 * (x * x)))))); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_silu() {
  return activation(
             "silu", "x / (1 + e^-x)", "Elfwing, Uchibe, Doya, Neural Networks 107 (2018)",
             [](double x) { return x * logistic_of(x); }, [](Value x) { return x * logistic(x); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_softplus() {
  return with_derivative(activation(
                             "softplus", "ln(1 + e^x)", "Dugas et al., NIPS 2000", softplus_of,
                             [](Value x) { return max_zero(x) + log1p(exp(-abs(x))); }, -40, 40),
                         [](Value x, Value) { return logistic(x); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_log_sigmoid() {
  return with_derivative(activation(
                             "log_sigmoid", "ln(1 / (1 + e^-x))", "", [](double x) { return -softplus_of(-x); },
                             [](Value x) { return min_zero(x) - log1p(exp(-abs(x))); }, -40, 40),
                         [](Value x, Value) { return logistic(-x); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_mish() {
  return activation(
             "mish", "x tanh(ln(1 + e^x))", "Misra, BMVC 2020", [](double x) { return x * std::tanh(softplus_of(x)); },
             [](Value x) { return x * tanh(softplus(x)); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_softsign() {
  return activation(
             "softsign", "x / (1 + |x|)", "Bergstra et al. 2009", [](double x) { return x / (1 + std::abs(x)); },
             [](Value x) { return x / (1.0 + abs(x)); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_elu() {
  return activation<EluAttrs>(
             "elu", "x where it is positive, else alpha (e^x - 1)", "Clevert, Unterthiner, Hochreiter, ICLR 2016",
             [](double x, const EluAttrs& a) { return x > 0 ? x : a.alpha * std::expm1(x); },
             [](Value x, const EluAttrs& a) { return select(positive(x), x, a.alpha * expm1(not_positive(x))); },
             {.alpha = 1.7}) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_celu() {
  return activation<EluAttrs>(
      "celu", "x where it is positive, else alpha (e^(x / alpha) - 1)", "Barron, arXiv:1704.07483",
      [](double x, const EluAttrs& a) { return x > 0 ? x : a.alpha * std::expm1(x / a.alpha); },
      [](Value x, const EluAttrs& a) { return select(positive(x), x, a.alpha * expm1(not_positive(x) / a.alpha)); },
      {.alpha = 0.6});
}
OpDef define_selu() {
  return activation(
      "selu", "1.0507009873554805 x where x is positive, else 1.7580993408473766 (e^x - 1)",
      "Klambauer et al., NIPS 2017", [](double x) { return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x)); },
      [](Value x) { return select(positive(x), kSeluScale * x, (kSeluScale * kSeluAlpha) * expm1(not_positive(x))); });
}
OpDef define_hard_sigmoid() {
  OpDef op = activation<HardSigmoidAttrs>(
      "hard_sigmoid", "alpha x + beta limited to [0, 1]; the derivative where it reaches them is 0",
      "Courbariaux, Bengio, David, NIPS 2015",
      [](double x, const HardSigmoidAttrs& a) { return clamped(a.alpha * x + a.beta, 0, 1); },
      [](Value x, const HardSigmoidAttrs& a) { return clamp(a.alpha * x + a.beta, 0, 1); },
      {.alpha = 0.2, .beta = 0.4});
  op.vjp = [](Values in, Values, Values cts, const Attrs& attrs, const Transforms&) -> Many<Value> {
    const auto& a = attrs.as<HardSigmoidAttrs>();
    return select(between(a.alpha * in[0] + a.beta, 0, 1), cts[0] * a.alpha, zeros_like(cts[0]));
  };
  return std::move(op) | Covers{"Activation", "ActivationBackward"};
}
OpDef define_hard_swish() {
  return with_derivative(
             activation(
                 "hard_swish", "x (x + 3 limited to [0, 6]) / 6; the derivative is 0 up to -3 and 1 from 3 on",
                 "Howard et al., ICCV 2019", [](double x) { return x * (clamped(x + 3, 0, 6) / 6); },
                 // The limited factor is divided first: 6 x may overflow.
                 [](Value x) { return x * (clamp(x + 3.0, 0, 6) / 6.0); }),
             [](Value x, Value) {
               return select(between(x, -3, 3), (2.0 * x + 3.0) / 6.0, convert(positive(x), x.dtype()));
             }) |
         Covers{"Activation", "ActivationBackward"};
}

}  // namespace rlx
