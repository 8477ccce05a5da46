// How element-wise entries are made: from the kinds of dtype they take and one lambda on a scalar. What `infer`
// accepts follows from the same list as what the reference computes, so the two cannot drift apart.
#pragma once

#include <cmath>

#include "rlx/ops/complex.h"

namespace rlx {

// Kinds of dtype, as bits.
constexpr unsigned kBool = 1, kSigned = 2, kUnsigned = 4, kReal = 8, kComplex = 16;
constexpr unsigned kInteger = kSigned | kUnsigned, kNumber = kInteger | kReal | kComplex;

constexpr unsigned kind_bit(DType t) {
  switch (kind_of(t)) {
    case Kind::boolean: return kBool;
    case Kind::signed_int: return kSigned;
    case Kind::unsigned_int: return kUnsigned;
    case Kind::real: return kReal;
    case Kind::complex: return kComplex;
    case Kind::block: break;
  }
  return 0;
}
/// Packed integers, and floats narrower than 16 bits, are for storage: they can be converted, and nothing else.
constexpr bool has_arithmetic(DType t) {
  return kind_of(t) == Kind::boolean || (is_integer(t) && info(t).bits >= 8) || (is_float(t) && info(t).bits >= 16) ||
         is_complex(t);
}
std::string kinds_text(unsigned kinds);
void require_kind(const Type& t, unsigned kinds, std::string_view what = "operand");
/// Fails unless all operands have the same type; returns it.
const Type& require_same(Types in);

/// Fails unless `what` has an entry for each dim of x.
inline void require_per_dim(const Type& x, size_t given, std::string_view what) {
  if (given != x.rank())
    fail(ErrorCode::invalid_argument, what, " must have one entry for each dim of ", x, ", got ", given);
}

/// Calls `f.operator()<T>()` with the element type of `dtype` if its kind is among `kKinds`, which `infer` made sure.
template <unsigned kKinds, class F>
Tensor with_kinds(DType dtype, F f) {
  unsigned bit = kind_bit(dtype);
  if constexpr ((kKinds & kReal) != 0)
    if (bit == kReal) return f.template operator()<double>();
  if constexpr ((kKinds & kSigned) != 0)
    if (bit == kSigned) return f.template operator()<int64_t>();
  if constexpr ((kKinds & (kUnsigned | kBool)) != 0)
    if (bit & (kUnsigned | kBool)) return f.template operator()<uint64_t>();
  if constexpr ((kKinds & kComplex) != 0)
    if (bit == kComplex) return f.template operator()<Complex>();
  fail(ErrorCode::internal, "the reference has no kernel for ", dtype);
}

/// The remainder of truncating division, which has the sign of x. StableHLO leaves open what it is for integers if y is
/// 0; here it is x.
template <class T>
T remainder_of(T x, T y) {
  if constexpr (std::is_same_v<T, double>) return std::fmod(x, y);
  else return y == 0 ? x : std::is_signed_v<T> && y == T(-1) ? T(0) : static_cast<T>(x % y);
}

template <class R, class T, class F>
Tensor map_elements(DType result, const Tensor& x, F f) {
  Array<T> in(x);
  Array<R> out(x.shape());
  for (size_t i = 0; i < in.data.size(); ++i) out.data[i] = f(in.data[i]);
  return out.rounded_to(result);
}
template <class R, class T, class F>
Tensor zip_elements(DType result, const Tensor& x, const Tensor& y, F f) {
  Array<T> a(x), b(y);
  Array<R> out(x.shape());
  for (size_t i = 0; i < a.data.size(); ++i) out.data[i] = f(a.data[i], b.data[i]);
  return out.rounded_to(result);
}

/// Where x is above 0.
inline Value positive(Value x) { return compare(x, zeros_like(x), Comparison::gt); }

/// What samples of an op of these kinds are made of: floats (f64 stands for any) where it takes them.
constexpr DType sample_dtype(unsigned kinds) {
  return kinds & kReal ? f64 : kinds & kInteger ? i32 : kinds & kComplex ? c64 : boolean;
}

/// A matrix, a scalar, nothing, extents of 1; and a row that is no multiple of any vector register, of a narrow dtype.
Samples elementwise_samples(unsigned kinds, size_t operands, double lo, double hi);

/// y = f(x), of x's dtype. Composites pass their decomposition.
template <unsigned kKinds, class F>
OpDef define_unary(std::string_view name, std::string_view doc, F f, Value (*parts)(Value) = nullptr, double lo = -2,
                   double hi = 2) {
  OpSpec<NoAttrs> spec{
      .name = name,
      .doc = doc,
      .operands = {"x"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(in[0], kKinds), in[0]; },
      .reference =
          [f](Tensors in) {
            return with_kinds<kKinds>(in[0].dtype(),
                                      [&]<class T>() { return map_elements<T, T>(in[0].dtype(), in[0], f); });
          },
      .samples = elementwise_samples(kKinds, 1, lo, hi),
  };
  if (parts) spec.decompose = [parts](Values in) { return parts(in[0]); };
  return define(std::move(spec));
}

/// z = f(x, y), of their common dtype.
template <unsigned kKinds, class F>
OpDef define_binary(std::string_view name, std::string_view doc, F f, Value (*parts)(Value, Value) = nullptr,
                    double lo = -2, double hi = 2) {
  OpSpec<NoAttrs> spec{
      .name = name,
      .doc = doc,
      .operands = {"lhs", "rhs"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(require_same(in), kKinds), in[0]; },
      .reference =
          [f](Tensors in) {
            return with_kinds<kKinds>(in[0].dtype(),
                                      [&]<class T>() { return zip_elements<T, T>(in[0].dtype(), in[0], in[1], f); });
          },
      .samples = elementwise_samples(kKinds, 2, lo, hi),
  };
  if (parts) spec.decompose = [parts](Values in) { return parts(in[0], in[1]); };
  return define(std::move(spec));
}

/// The published names of ops that an op stands for, for `op | Covers{"Binary"}` behind a helper that makes the op.
struct Covers : std::vector<std::string_view> {
  using std::vector<std::string_view>::vector;
};
inline OpDef operator|(OpDef op, Covers names) { return op.covers = std::move(names), op; }

// ---- derivatives ----
/// The op with the derivative dy/dx, a function of x and y. Its product with the cotangent is the vjp.
OpDef with_derivative(OpDef op, Value (*derivative)(Value x, Value y));
/// The op with a function that gives the cotangents of x and y, from that of z = f(x, y).
OpDef with_partials(OpDef op, Many<Value> (*partials)(Value x, Value y, Value z, Value ct));
/// The op, marked as one whose derivative is zero wherever it exists.
inline OpDef without_gradient(OpDef op) { return op.differentiable = false, op; }

}  // namespace rlx
