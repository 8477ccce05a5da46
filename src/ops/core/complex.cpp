// Complex numbers as composites of their parts.
#include "rlx/ops/complex.h"

#include <cmath>

#include "ops/core/elementwise_rules.h"

namespace rlx {

Value conjugate(Value x) { return is_complex(x.dtype()) ? emit(op::conjugate, {x}) : x; }
Value complex_norm_sq(Value x) { return is_complex(x.dtype()) ? emit(op::complex_norm_sq, {x}) : x * x; }
Value complex_norm_sq_backward(Value x, Value ct) { return emit(op::complex_norm_sq_backward, {x, ct}); }
Value angle(Value x) {
  if (is_complex(x.dtype())) return atan2(imag(x), real(x));
  Value negative = compare(x, zeros_like(x), Comparison::lt), none = zeros_like(x);
  // x - x keeps NaN.
  return select(negative, full_like(x, M_PI), select(is_finite(x), none, x - x));
}

namespace {

const std::vector<Sample> kSamples = {{.dims = {{3, 4}}, .dtypes = {c128}},
                                      {.dims = {{}}, .dtypes = {c64}},
                                      {.dims = {{2, 0}}, .dtypes = {c64}},
                                      {.dims = {{1, 5, 1}}, .dtypes = {c64}, .lo = -1e3, .hi = 1e3}};

}  // namespace

OpDef define_conjugate() {
  return define<>({
      .name = "conjugate",
      .doc = "the complex conjugate: real - i imag",
      .operands = {"x"},
      .covers = {"Conjugate"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(in[0], kComplex), in[0]; },
      .reference =
          [](Tensors in) {
            return map_elements<Complex, Complex>(in[0].dtype(), in[0], [](Complex z) { return std::conj(z); });
          },
      .decompose = [](Values in) { return complex(real(in[0]), -imag(in[0])); },
      .vjp = [](Values, Value, Value ct) { return conjugate(ct); },
      .samples = [] { return kSamples; },
  });
}

OpDef define_complex_norm_sq() {
  return define<>({
      .name = "complex_norm_sq",
      .doc = "|x|^2, real",
      .operands = {"x"},
      .covers = {"ComplexNormSq"},
      .elementwise = true,
      .infer =
          [](Types in) {
            return require_kind(in[0], kComplex), Type{real_part(in[0].dtype), in[0].dims};
          },
      .reference =
          [](Tensors in) {
            return map_elements<double, Complex>(real_part(in[0].dtype()), in[0],
                                                 [](Complex z) { return std::norm(z); });
          },
      .decompose =
          [](Values in) {
            Value re = real(in[0]), im = imag(in[0]);
            return re * re + im * im;
          },
      .vjp = [](Values in, Value, Value ct) { return conjugate(complex_norm_sq_backward(in[0], ct * 2.0)); },
      .samples = [] { return kSamples; },
  });
}

OpDef define_complex_norm_sq_backward() {
  return define<>({
      .name = "complex_norm_sq_backward",
      .doc = "ct * x, ct real: the derivative of |x|^2 by the conjugate of x",
      .source = "Wirtinger, Math. Ann. 97 (1927)",
      .operands = {"x", "ct"},
      .covers = {"ComplexNormSqBackward"},
      .elementwise = true,
      .infer =
          [](Types in) {
            require_kind(in[0], kComplex);
            Type wanted{real_part(in[0].dtype), in[0].dims};
            if (in[1] != wanted)
              fail(ErrorCode::shape_mismatch, "the cotangent of |x|^2 must be ", wanted, " for x ", in[0], ", got ",
                   in[1]);
            return in[0];
          },
      .reference =
          [](Tensors in) {
            Array<Complex> x(in[0]);
            for (size_t i = 0; i < x.data.size(); ++i) x.data[i] *= load<double>(in[1], i);
            return x.rounded_to(in[0].dtype());
          },
      .decompose = [](Values in) { return complex(real(in[0]) * in[1], imag(in[0]) * in[1]); },
      .samples = {{.dims = {{3, 4}, {3, 4}}, .dtypes = {c128, f64}},
                  {.dims = {{}, {}}, .dtypes = {c64, f32}},
                  {.dims = {{2, 0}, {2, 0}}, .dtypes = {c64, f32}},
                  {.dims = {{1, 5, 1}, {1, 5, 1}}, .dtypes = {c128, f64}, .lo = -1e3, .hi = 1e3}},
  });
}

}  // namespace rlx
