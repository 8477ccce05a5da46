// Element-wise primitives: StableHLO's unary and binary set. Integers wrap; an integer division by zero gives all
// bits set and its remainder the dividend (docs/ir.md). Neighbour: bits.cpp, the ops on bits.
#include <bit>
#include <cmath>
#include <limits>

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/shape.h"

namespace rlx {

// ---- builders ----
Dims broadcast_dims(Values values) {
  Dims dims;
  for (const Value& v : values) {
    const Dims& d = v.dims();
    if (d.size() > dims.size()) dims.insert(dims.begin(), d.size() - dims.size(), Dim(1));
    for (size_t i = 0; i < d.size(); ++i) {
      Dim& to = dims[dims.size() - d.size() + i];
      if (to == Dim(1)) to = d[i];
      else if (d[i] != Dim(1) && d[i] != to) {
        std::ostringstream list;
        for (const Value& each : values) list << (&each == &values[0] ? "" : " and ") << each.type();
        fail(ErrorCode::shape_mismatch, list.str(), " do not broadcast: extents ", to, " and ", d[i],
             " meet, right-aligned; one of them must be 1");
      }
    }
  }
  return dims;
}
Value broadcast_to(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  if (x.dims().size() > dims.size())
    fail(ErrorCode::shape_mismatch, x.type(), " has more dims than ", Type{x.dtype(), dims},
         ", to which it should broadcast");
  return broadcast_in_dim(x, dims, axes_from(static_cast<int64_t>(dims.size()) - x.rank(), x.dims().size()));
}
Value emit_unary(const OpDef& op, Value x) { return emit(op, {x}); }
Value emit_binary(const OpDef& op, Value lhs, Value rhs) {
  Dims dims = broadcast_dims(std::array{lhs, rhs});
  return emit(op, {broadcast_to(lhs, dims), broadcast_to(rhs, dims)});
}
Value scalar(Graph& g, double value, DType dtype) {
  Tensor t = full(dtype, {}, value);
  if (is_integer(dtype) && load_number(t, 0) != value)
    fail(ErrorCode::invalid_argument, dtype, " cannot hold ", value, "; convert the tensor to a float first");
  return g.constant(std::move(t));
}
Value full(Graph& g, double value, const Type& type) { return broadcast_to(scalar(g, value, type.dtype), type.dims); }
Value compare(Value lhs, Value rhs, Comparison direction, bool total_order) {
  Dims dims = broadcast_dims(std::array{lhs, rhs});
  return emit(op::compare, {broadcast_to(lhs, dims), broadcast_to(rhs, dims)}, CompareAttrs{direction, total_order});
}
Value select(Value condition, Value on_true, Value on_false) {
  Dims dims = broadcast_dims(std::array{condition, on_true, on_false});
  return emit(op::select, {broadcast_to(condition, dims), broadcast_to(on_true, dims), broadcast_to(on_false, dims)});
}
Value convert(Value x, DType dtype) { return x.dtype() == dtype ? x : emit(op::convert, {x}, ConvertAttrs{dtype}); }

// ---- kinds ----
std::string kinds_text(unsigned kinds) {
  std::string text;
  auto name = [&](unsigned bits, const char* word) {
    if ((kinds & bits) == bits) text += (text.empty() ? "" : ", ") + std::string(word), kinds &= ~bits;
  };
  name(kBool, "bool");
  name(kInteger, "integer");
  name(kSigned, "signed integer");
  name(kUnsigned, "unsigned integer");
  name(kReal, "float");
  name(kComplex, "complex");
  return text;
}
void require_kind(const Type& t, unsigned kinds, std::string_view what) {
  if (!(kind_bit(t.dtype) & kinds))
    fail(ErrorCode::invalid_argument, std::string_view("aeiou").find(what[0]) == std::string_view::npos ? "a " : "an ",
         what, " of ", kinds_text(kinds), " is needed, got ", t, "; convert it first");
  if (!has_arithmetic(t.dtype))
    fail(ErrorCode::invalid_argument, t.dtype, " is a storage format without arithmetic; convert ", t, " first");
}
const Type& require_same(Types in) {
  for (const Type& t : in)
    if (t != in[0])
      fail(ErrorCode::shape_mismatch, "operands must have one type, got ", in[0], " and ", t,
           t.dtype == in[0].dtype ? "; broadcast the smaller one" : "; convert one of them");
  return in[0];
}

Samples elementwise_samples(unsigned kinds, size_t operands, double lo, double hi) {
  DType wide = sample_dtype(kinds);
  std::vector<Sample> all;
  auto add = [&](const Dims& dims, DType dtype, double from, double to) {
    all.push_back({.dims = std::vector(operands, dims), .dtypes = std::vector(operands, dtype), .lo = from, .hi = to});
  };
  for (const Dims& dims : {Dims{3, 4}, Dims{}, Dims{2, 0}, Dims{1, 5, 1}}) add(dims, wide, lo, hi);
  if (kinds & kReal) add({19}, f16, lo, hi);
  else if (kinds & kInteger) add({19}, u8, std::max(lo, 0.0), 255);
  return [all] { return all; };
}

OpDef with_derivative(OpDef op, Value (*derivative)(Value x, Value y)) {
  op.vjp = [derivative](Values in, Values out, Values cts, const Attrs&, const Transforms&) {
    return Many<Value>(cts[0] * derivative(in[0], out[0]));
  };
  return op;
}
OpDef with_partials(OpDef op, Many<Value> (*partials)(Value x, Value y, Value z, Value ct)) {
  op.vjp = [partials](Values in, Values out, Values cts, const Attrs&, const Transforms&) {
    return partials(in[0], in[1], out[0], cts[0]);
  };
  return op;
}

namespace {

/// Of maximum and minimum: all to the one that won, half to each of equals, nothing where either is NaN.
Many<Value> shared_by_equals(Value x, Value y, Comparison wins, Value ct) {
  Value none = zeros_like(ct), equal = compare(x, y, Comparison::eq), half = ct * 0.5;
  Value x_wins = compare(x, y, wins), y_wins = compare(y, x, wins);
  return {select(equal, half, select(x_wins, ct, none)), select(equal, half, select(y_wins, ct, none))};
}

/// Signed arithmetic through unsigned: it wraps, where C++ leaves overflow undefined.
template <class T, class F>
T wrapping(F f, T x, T y) {
  if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<int64_t>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
  else return f(x, y);
}
/// NaN wins, and +0 counts as greater than -0.
template <class T>
T greater_of(T x, T y) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(x) || std::isnan(y)) return NAN;
    if (x == y) return std::signbit(x) ? y : x;
  }
  return x < y ? y : x;
}
template <class T>
T divided(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    if (y == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (y == -1) return wrapping([](uint64_t a, uint64_t b) { return a - b; }, T{0}, x);
  }
  return x / y;
}
template <class T>
T power(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;  // the truncated 1 / x^-y
    T result = 1;
    auto times = [](uint64_t a, uint64_t b) { return a * b; };
    for (auto n = static_cast<uint64_t>(y); n; n >>= 1) {
      if (n & 1) result = wrapping(times, result, x);
      x = wrapping(times, x, x);
    }
    return result;
  } else {
    if constexpr (std::is_same_v<T, Complex>) {
      constexpr double nan = std::numeric_limits<double>::quiet_NaN();  // as NumPy has it
      if (x == Complex(0)) return y == Complex(0) ? Complex(1) : y.real() > 0 ? Complex(0) : Complex(nan, nan);
    }
    return std::pow(x, y);
  }
}

/// -NaN < -inf < ... < -0 < +0 < ... < inf < NaN: IEEE 754-2019, totalOrder.
int64_t total_order_key(double v) {
  auto bits = std::bit_cast<int64_t>(v);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}
template <class T>
bool compares(T x, T y, Comparison direction) {
  switch (direction) {
    case Comparison::eq: return x == y;
    case Comparison::ne: return x != y;
    default: break;
  }
  if constexpr (!std::is_same_v<T, Complex>) {
    switch (direction) {
      case Comparison::lt: return x < y;
      case Comparison::le: return x <= y;
      case Comparison::gt: return x > y;
      case Comparison::ge: return x >= y;
      default: break;
    }
  }
  return false;
}

/// The value of x as R: floats truncate toward zero and saturate when they become integers, NaN becomes 0;
/// integers wrap; a real number becomes complex, a complex one keeps its real part; all but 0 is true.
template <class R, class T>
R converted(T x, DType to) {
  if (to == boolean) return static_cast<R>(x != T(0));
  if constexpr (std::is_same_v<T, Complex>) {
    if constexpr (std::is_same_v<R, Complex>) return x;
    else return converted<R>(x.real(), to);
  } else if constexpr (std::is_same_v<R, Complex> || std::is_same_v<R, double>) {
    return R(static_cast<double>(x));
  } else if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(x)) return 0;
    int bits = info(to).bits - std::is_signed_v<R>;
    double least = std::is_signed_v<R> ? -std::ldexp(1.0, bits) : 0.0, most = std::ldexp(1.0, bits);
    if (x >= most) return static_cast<R>(bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
    return static_cast<R>(std::max(std::trunc(x), least));
  } else {
    return static_cast<R>(x);
  }
}

}  // namespace

// ---- unary ----
OpDef define_abs() {
  return define<>({
      .name = "abs",
      .doc = "|x|; of a complex number its magnitude, a real one",
      .operands = {"x"},
      .covers = {"Activation", "ActivationBackward"},
      .elementwise = true,
      .infer =
          [](Types in) {
            return require_kind(in[0], kSigned | kReal | kComplex), Type{real_part(in[0].dtype), in[0].dims};
          },
      .reference =
          [](Tensors in) {
            DType t = in[0].dtype();
            if (is_complex(t))
              return map_elements<double, Complex>(real_part(t), in[0], [](Complex z) { return std::abs(z); });
            if (is_float(t)) return map_elements<double, double>(t, in[0], [](double x) { return std::abs(x); });
            return map_elements<int64_t, int64_t>(
                t, in[0], [](int64_t x) { return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x; });
          },
      .vjp = [](Values in, Value, Value ct) -> Value {
        if (!is_complex(in[0].dtype())) {  // 0 at 0 and at NaN, as PyTorch has it
          Value zero = zeros_like(ct);
          Value below = select(compare(in[0], zeros_like(in[0]), Comparison::lt), -ct, zero);
          return select(compare(in[0], zeros_like(in[0]), Comparison::gt), ct, below);
        }
        return convert(ct, in[0].dtype()) * conjugate(sign(in[0]));
      },
      .samples = {{.dims = {{3, 4}}},
                  {.dims = {{}}},
                  {.dims = {{5}}, .dtypes = {c64}},
                  {.dims = {{1, 0}}, .dtypes = {c128}},
                  {.dims = {{19}}, .dtypes = {i8}, .lo = -128, .hi = 127}},
  });
}
OpDef define_neg() {
  return with_derivative(define_unary<kNumber>("neg", "-x",
                                               [](auto x) {
                                                 if constexpr (std::is_integral_v<decltype(x)>)
                                                   return static_cast<decltype(x)>(-static_cast<uint64_t>(x));
                                                 else return -x;
                                               }),
                         [](Value x, Value) { return full_like(x, -1); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_sign() {
  OpDef op =
      define_unary<kNumber>("sign", "-1, 0 or 1 (x itself if it is 0 or NaN); of a complex number x / |x|", [](auto x) {
        using T = decltype(x);
        if constexpr (std::is_same_v<T, double>) return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
        else if constexpr (std::is_same_v<T, Complex>) return x == T(0) ? x : x / std::abs(x);
        else return static_cast<T>((x > 0) - (std::is_signed_v<T> && x < T(0)));
      });
  // Of a complex number, y = x / |x| turns: dy = (dx - y Re(conj(y) dx)) / |x|.
  op.vjp = [](Values in, Values out, Values cts, const Attrs&, const Transforms&) -> Many<Value> {
    if (!is_complex(in[0].dtype())) return Value{};
    Value length = abs(in[0]), none = compare(length, zeros_like(length), Comparison::eq);
    Value safe = convert(select(none, full_like(length, 1), length), in[0].dtype());
    Value turned = cts[0] - convert(real(out[0] * cts[0]), in[0].dtype()) * conjugate(out[0]);
    return select(none, zeros_like(turned), turned / safe);
  };
  op.covers = {"Activation", "ActivationBackward"};
  return op;
}
OpDef define_floor() {
  return without_gradient(
             define_unary<kReal>("floor", "the largest whole number <= x", [](double x) { return std::floor(x); })) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_ceil() {
  return without_gradient(
             define_unary<kReal>("ceil", "the least whole number >= x", [](double x) { return std::ceil(x); })) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_round_nearest_even() {
  return without_gradient(define_unary<kReal>(
             "round_nearest_even", "the nearest whole number, halves to the even one",
             [](double x) { return std::nearbyint(x); }, nullptr, -9, 9)) |
         Covers{"Activation"};
}
OpDef define_round_nearest_afz() {
  return without_gradient(define_unary<kReal>(
      "round_nearest_afz", "the nearest whole number, halves away from zero", [](double x) { return std::round(x); },
      nullptr, -9, 9));
}
OpDef define_exp() {
  return with_derivative(define_unary<kReal | kComplex>("exp", "e^x", [](auto x) { return std::exp(x); }),
                         [](Value, Value y) { return y; }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_expm1() {
  return with_derivative(define_unary<kReal | kComplex>(
                             "expm1", "e^x - 1, accurate near 0",
                             [](auto x) {
                               if constexpr (std::is_same_v<decltype(x), double>) return std::expm1(x);
                               else {  // e^x - 1 = expm1(a) cos b - 2 sin^2(b/2) + i e^a sin b, without cancellation
                                 double s = std::sin(x.imag() / 2);
                                 return Complex(std::expm1(x.real()) * std::cos(x.imag()) - 2 * s * s,
                                                std::exp(x.real()) * std::sin(x.imag()));
                               }
                             }),
                         [](Value x, Value) { return exp(x); });  // y + 1 cancels where x is far below 0
}
OpDef define_log() {
  return with_derivative(define_unary<kReal | kComplex>(
                             "log", "the natural logarithm", [](auto x) { return std::log(x); }, nullptr, 0.1, 4),
                         [](Value x, Value) { return 1.0 / x; }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_log1p() {
  return with_derivative(define_unary<kReal | kComplex>(
                             "log1p", "ln(1 + x), accurate near 0",
                             [](auto x) {
                               if constexpr (std::is_same_v<decltype(x), double>) return std::log1p(x);
                               else {
                                 double a = x.real(), b = x.imag();  // ln|1+x| from |1+x|^2 - 1
                                 return Complex(0.5 * std::log1p(a * (2 + a) + b * b), std::atan2(b, 1 + a));
                               }
                             },
                             nullptr, -0.9, 4),
                         [](Value x, Value) { return 1.0 / (x + 1.0); });
}
OpDef define_sqrt() {
  return with_derivative(define_unary<kReal | kComplex>(
                             "sqrt", "the square root", [](auto x) { return std::sqrt(x); }, nullptr, 0.1, 4),
                         [](Value, Value y) { return 0.5 / y; }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_rsqrt() {
  return with_derivative(
             define_unary<kReal | kComplex>(
                 "rsqrt", "1 / sqrt(x)", [](auto x) { return decltype(x)(1) / std::sqrt(x); }, nullptr, 0.1, 4),
             [](Value x, Value y) { return -0.5 * y / x; }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_cbrt() {
  return with_derivative(define_unary<kReal>("cbrt", "the real cube root", [](double x) { return std::cbrt(x); }),
                         [](Value, Value y) { return 1.0 / (3.0 * y * y); });
}
OpDef define_sin() {
  return with_derivative(define_unary<kReal | kComplex>(
                             "sin", "the sine of x in radians", [](auto x) { return std::sin(x); }, nullptr, -9, 9),
                         [](Value x, Value) { return cos(x); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_cos() {
  return with_derivative(define_unary<kReal | kComplex>(
                             "cos", "the cosine of x in radians", [](auto x) { return std::cos(x); }, nullptr, -9, 9),
                         [](Value x, Value) { return -sin(x); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_tan() {
  return with_derivative(
             define_unary<kReal | kComplex>(
                 "tan", "the tangent of x in radians", [](auto x) { return std::tan(x); }, nullptr, -1.4, 1.4),
             [](Value, Value y) { return 1.0 + y * y; }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_tanh() {
  return with_derivative(define_unary<kReal | kComplex>(
                             "tanh", "the hyperbolic tangent", [](auto x) { return std::tanh(x); }, nullptr, -6, 6),
                         [](Value, Value y) { return 1.0 - y * y; }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_logistic() {
  return with_derivative(define_unary<kReal | kComplex>(
                             "logistic", "1 / (1 + e^-x)",
                             [](auto x) {
                               using T = decltype(x);
                               return T(1) / (T(1) + std::exp(-x));
                             },
                             nullptr, -9, 9),
                         [](Value, Value y) { return y * (1.0 - y); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_erf() {
  return with_derivative(define_unary<kReal>(
                             "erf", "2/sqrt(pi) times the integral of e^-t^2 from 0 to x",
                             [](double x) { return std::erf(x); }, nullptr, -4, 4),
                         [](Value x, Value) { return exp(-(x * x)) * (2 / std::sqrt(M_PI)); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_is_finite() {
  return define<>({
      .name = "is_finite",
      .doc = "true unless x is infinite or NaN",
      .operands = {"x"},
      .elementwise = true,
      .infer =
          [](Types in) {
            return require_kind(in[0], kReal), Type{boolean, in[0].dims};
          },
      .reference =
          [](Tensors in) {
            return map_elements<uint64_t, double>(boolean, in[0], [](double x) { return uint64_t{std::isfinite(x)}; });
          },
      .samples = {{.dims = {{3, 4}}},
                  {.dims = {{}}},
                  {.dims = {{2, 0}}},
                  {.dims = {{19, 1}}, .dtypes = {f16}, .lo = -1e5, .hi = 1e5}},
  });
}

namespace {

/// `part_of_ct`: the complex cotangent; docs/ir.md, "Derivatives of complex functions".
OpDef define_part(std::string_view name, std::string_view doc, double (*part)(Complex), Value (*part_of_ct)(Value)) {
  return define<>({
      .name = name,
      .doc = doc,
      .operands = {"x"},
      .elementwise = true,
      .infer =
          [](Types in) {
            return require_kind(in[0], kComplex), Type{real_part(in[0].dtype), in[0].dims};
          },
      .reference = [part](Tensors in) { return map_elements<double, Complex>(real_part(in[0].dtype()), in[0], part); },
      .vjp = [part_of_ct](Values, Value, Value ct) { return part_of_ct(ct); },
      .samples = {{.dims = {{3, 4}}, .dtypes = {c64}},
                  {.dims = {{3}}, .dtypes = {c128}},
                  {.dims = {{}}, .dtypes = {c128}},
                  {.dims = {{2, 0, 1}}, .dtypes = {c64}}},
  });
}

}  // namespace

OpDef define_real() {
  return define_part(
      "real", "the real part", [](Complex z) { return z.real(); },
      [](Value ct) { return complex(ct, zeros_like(ct)); });
}
OpDef define_imag() {
  return define_part(
      "imag", "the imaginary part", [](Complex z) { return z.imag(); },
      [](Value ct) { return complex(zeros_like(ct), -ct); });
}

// ---- binary ----
OpDef define_complex() {
  return define<>({
      .name = "complex",
      .doc = "lhs + i rhs",
      .operands = {"real", "imag"},
      .elementwise = true,
      .infer =
          [](Types in) {
            DType t = require_same(in).dtype;
            if (t != f32 && t != f64)
              fail(ErrorCode::invalid_argument, "the parts of a complex number are f32 or f64, got ", in[0],
                   "; convert them first");
            return Type{t == f32 ? c64 : c128, in[0].dims};
          },
      .reference =
          [](Tensors in) {
            DType t = in[0].dtype() == f32 ? c64 : c128;
            return zip_elements<Complex, double>(t, in[0], in[1], [](double re, double im) { return Complex(re, im); });
          },
      .vjp = [](Values, Value, Value ct) -> Many<Value> {
        return {real(ct), -imag(ct)};
      },
      .samples = {{.dims = {{3, 4}, {3, 4}}},
                  {.dims = {{3}, {3}}, .dtypes = {f32, f32}},
                  {.dims = {{}, {}}},
                  {.dims = {{2, 0}, {2, 0}}},
                  {.dims = {{1, 19}, {1, 19}}, .dtypes = {f32, f32}, .lo = -1e4, .hi = 1e4}},
  });
}
OpDef define_add() {
  return with_partials(define_binary<kNumber>(
                           "add", "lhs + rhs",
                           [](auto x, auto y) { return wrapping([](auto a, auto b) { return a + b; }, x, y); }),
                       [](Value, Value, Value, Value ct) -> Many<Value> {
                         return {ct, ct};
                       }) |
         Covers{"Binary"};
}
OpDef define_sub() {
  return with_partials(define_binary<kNumber>(
                           "sub", "lhs - rhs",
                           [](auto x, auto y) { return wrapping([](auto a, auto b) { return a - b; }, x, y); }),
                       [](Value, Value, Value, Value ct) -> Many<Value> {
                         return {ct, -ct};
                       }) |
         Covers{"Binary"};
}
OpDef define_mul() {
  return with_partials(define_binary<kNumber>(
                           "mul", "lhs * rhs",
                           [](auto x, auto y) { return wrapping([](auto a, auto b) { return a * b; }, x, y); }),
                       [](Value x, Value y, Value, Value ct) -> Many<Value> {
                         return {ct * y, ct * x};
                       }) |
         Covers{"Binary"};
}
OpDef define_div() {
  return with_partials(define_binary<kNumber>(
                           "div", "lhs / rhs; integers truncate toward zero, and x / 0 has all bits set",
                           [](auto x, auto y) { return divided(x, y); }, nullptr, 0.5, 4),
                       [](Value, Value y, Value z, Value ct) -> Many<Value> {
                         Value d = ct / y;
                         return {d, -(d * z)};
                       }) |
         Covers{"Binary"};
}
OpDef define_rem() {
  return with_partials(define_binary<kInteger | kReal>(
                           "rem", "lhs - rhs * trunc(lhs / rhs): the sign of lhs, as C's fmod; integer x rem 0 is x",
                           [](auto x, auto y) { return remainder_of(x, y); }, nullptr, -9, 9),
                       [](Value x, Value y, Value z, Value ct) -> Many<Value> {
                         return {ct, -(ct * round_nearest_even((x - z) / y))};
                       }) |
         Covers{"Binary"};
}
OpDef define_pow() {
  return with_partials(define_binary<kNumber>(
                           "pow", "lhs ^ rhs; integers by repeated squaring, truncated for negative powers",
                           [](auto x, auto y) { return power(x, y); }, nullptr, 0.5, 3),
                       [](Value x, Value y, Value z, Value ct) -> Many<Value> {
                         // Neither 0^-1 nor infinity^-1 nor log 0 where the derivative is 0 all the same.
                         Value zero = zeros_like(y), one = full_like(y, 1), constant = compare(y, zero, Comparison::eq);
                         Value by_x = y * pow(select(constant, one, x), select(constant, one, y - 1.0));
                         Value vanishes = compare(x, zero, Comparison::eq);  // but 0^-1 log 0 is -infinity
                         if (!is_complex(x.dtype())) vanishes = bitwise_and(vanishes, compare(y, zero, Comparison::ge));
                         Value base = select(vanishes, one, x);
                         return {ct * by_x, ct * z * log(base)};
                       });
}
OpDef define_maximum() {
  return with_partials(define_binary<kBool | kInteger | kReal>("maximum", "the greater one; NaN if either is",
                                                               [](auto x, auto y) { return greater_of(x, y); }),
                       [](Value x, Value y, Value, Value ct) -> Many<Value> {
                         return shared_by_equals(x, y, Comparison::gt, ct);
                       }) |
         Covers{"Binary"};
}
OpDef define_minimum() {
  return with_partials(define_binary<kBool | kInteger | kReal>("minimum", "the lesser one; NaN if either is",
                                                               [](auto x, auto y) {
                                                                 if constexpr (std::is_same_v<decltype(x), double>)
                                                                   return -greater_of(-x, -y);
                                                                 else return y < x ? y : x;
                                                               }),
                       [](Value x, Value y, Value, Value ct) -> Many<Value> {
                         return shared_by_equals(x, y, Comparison::lt, ct);
                       }) |
         Covers{"Binary"};
}
OpDef define_atan2() {
  return with_partials(define_binary<kReal>("atan2", "the angle of the point (rhs, lhs), in (-pi, pi]",
                                            [](double y, double x) { return std::atan2(y, x); }),
                       [](Value y, Value x, Value, Value ct) -> Many<Value> {
                         Value d = ct / (x * x + y * y);
                         return {d * x, -(d * y)};
                       }) |
         Covers{"Binary"};
}

// ---- with attributes ----
OpDef define_compare() {
  return define<CompareAttrs>({
      .name = "compare",
      .doc = "whether lhs stands in that relation to rhs; NaN is unequal to everything unless `total_order`",
      .operands = {"lhs", "rhs"},
      .covers = {"Compare"},
      .elementwise = true,
      .infer =
          [](Types in, const CompareAttrs& a) {
            bool ordered = a.total_order || (a.direction != Comparison::eq && a.direction != Comparison::ne);
            require_kind(require_same(in), kBool | kInteger | kReal | (ordered ? 0 : kComplex));
            return Type{boolean, in[0].dims};
          },
      .reference =
          [](Tensors in, const CompareAttrs& a) {
            return with_element_type(in[0].dtype(), [&]<class T>() {
              return zip_elements<uint64_t, T>(boolean, in[0], in[1], [&](T x, T y) -> uint64_t {
                if constexpr (std::is_same_v<T, double>)
                  if (a.total_order) return compares(total_order_key(x), total_order_key(y), a.direction);
                return compares(x, y, a.direction);
              });
            });
          },
      .samples = {{.dims = {{3, 4}, {3, 4}}, .attrs = CompareAttrs{Comparison::lt}},
                  {.dims = {{3, 4}, {3, 4}}, .attrs = CompareAttrs{Comparison::ge, true}},
                  {.dims = {{4}, {4}}, .dtypes = {i32, i32}, .attrs = CompareAttrs{Comparison::eq}},
                  {.dims = {{4}, {4}}, .dtypes = {u8, u8}, .attrs = CompareAttrs{Comparison::gt}, .lo = 0, .hi = 9},
                  {.dims = {{4}, {4}}, .attrs = CompareAttrs{Comparison::le}},
                  {.dims = {{4}, {4}}, .dtypes = {c64, c64}, .attrs = CompareAttrs{Comparison::ne}},
                  {.dims = {{}, {}}, .attrs = CompareAttrs{Comparison::ne}},
                  {.dims = {{2, 0}, {2, 0}}, .attrs = CompareAttrs{Comparison::lt, true}},
                  {.dims = {{19, 1}, {19, 1}}, .dtypes = {bf16, bf16}, .attrs = CompareAttrs{Comparison::eq}},
                  {.dims = {{5}, {5}}, .dtypes = {boolean, boolean}, .attrs = CompareAttrs{Comparison::lt}}},
  });
}
OpDef define_select() {
  return define<>({
      .name = "select",
      .doc = "on_true where the condition holds, else on_false",
      .operands = {"condition", "on_true", "on_false"},
      .covers = {"Where"},
      .elementwise = true,
      .moves_data = true,
      .infer =
          [](Types in) {
            require_kind(in[0], kBool, "condition");
            if (require_same(in.subspan(1)).dims != in[0].dims)
              fail(ErrorCode::shape_mismatch, "the condition ", in[0], " and the choices ", in[1],
                   " differ in their dims");
            return in[1];
          },
      .reference =
          [](Tensors in) {
            Tensor y = in[1];
            for (size_t i = 0; i < y.element_count(); ++i)
              if (!load<uint64_t>(in[0], i)) copy_element(y, i, in[2], i);
            return y;
          },
      .vjp = [](Values in, Value, Value ct) -> Many<Value> {
        Value none = zeros_like(ct);
        return {Value{}, select(in[0], ct, none), select(in[0], none, ct)};
      },
      .samples = {{.dims = {{3, 4}, {3, 4}, {3, 4}}, .dtypes = {boolean}},
                  {.dims = {{4}, {4}, {4}}, .dtypes = {boolean, i32, i32}},
                  {.dims = {{}, {}, {}}, .dtypes = {boolean}},
                  {.dims = {{2, 0}, {2, 0}, {2, 0}}, .dtypes = {boolean}},
                  {.dims = {{19, 1}, {19, 1}, {19, 1}}, .dtypes = {boolean, f16, f16}}},
  });
}
OpDef define_convert() {
  return define<ConvertAttrs>({
      .name = "convert",
      .doc = "the nearest value of `dtype`, ties to even; float to integer truncates and saturates, NaN gives 0; "
             "integer to integer wraps; complex to real keeps the real part; anything but 0 is true",
      .operands = {"x"},
      .covers = {"Cast"},
      .elementwise = true,
      .infer =
          [](Types in, const ConvertAttrs& a) {
            if (is_block(in[0].dtype) || is_block(a.dtype))
              fail(ErrorCode::invalid_argument,
                   "block formats are read by `dequantize_blocks`, not by a conversion of ", in[0], " to ", a.dtype);
            return Type{a.dtype, in[0].dims};
          },
      .reference =
          [](Tensors in, const ConvertAttrs& a) {
            return with_element_type(in[0].dtype(), [&]<class T>() {
              return with_element_type(a.dtype, [&]<class R>() {
                return map_elements<R, T>(a.dtype, in[0], [&](T x) { return converted<R>(x, a.dtype); });
              });
            });
          },
      .vjp = [](Values in, Value, Value ct) { return convert(ct, in[0].dtype()); },
      .samples = {{.dims = {{3, 4}}, .attrs = ConvertAttrs{f32}},
                  {.dims = {{3, 4}}, .attrs = ConvertAttrs{f16}},
                  {.dims = {{3, 4}}, .attrs = ConvertAttrs{bf16}},
                  {.dims = {{7}}, .attrs = ConvertAttrs{i8}, .lo = -300, .hi = 300},
                  {.dims = {{7}}, .attrs = ConvertAttrs{u8}, .lo = -300, .hi = 300},
                  {.dims = {{7}}, .dtypes = {i32}, .attrs = ConvertAttrs{u8}, .lo = -300, .hi = 300},
                  {.dims = {{7}}, .dtypes = {i64}, .attrs = ConvertAttrs{f32}, .lo = -300, .hi = 300},
                  {.dims = {{7}}, .attrs = ConvertAttrs{boolean}},
                  {.dims = {{7}}, .dtypes = {boolean}, .attrs = ConvertAttrs{i32}},
                  {.dims = {{7}}, .attrs = ConvertAttrs{c64}}},
  });
}

}  // namespace rlx
