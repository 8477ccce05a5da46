// See the header.
#include "judge/compare.h"

#include <cmath>
#include <random>

#include "judge/tolerance.h"
#include "rlx/blocks.h"

namespace rlx {
namespace {

/// Finite complex numbers by their distance in the plane, as NumPy's allclose: a product loses the small one of two
/// parts to the rounding of the large one. Others part by part.
template <class Close>
bool close_complex(Complex x, Complex y, const Close& close, double tolerance) {
  const double modulus = std::abs(y);
  if (!std::isfinite(modulus) || !std::isfinite(std::abs(x)))
    return close(x.real(), y.real()) && close(x.imag(), y.imag());
  return std::abs(x - y) <= tolerance * (1 + modulus);
}

}  // namespace

std::string difference(const Tensor& got, const Tensor& wanted, double tolerance) {
  if (got.type() != wanted.type()) return text_of("is ", got.type(), " instead of ", wanted.type());
  if (is_block(got.dtype())) return got == wanted ? "" : text_of("of type ", got.type(), " differs in its bytes");
  if (tolerance < 0) tolerance = tolerance_of(got.dtype());
  return with_element_type(got.dtype(), [&]<class T>() -> std::string {
    for (size_t i = 0; i < got.element_count(); ++i) {
      T x = load<T>(got, i), y = load<T>(wanted, i);
      auto close = [&](double a, double b) {
        return a == b || (std::isnan(a) && std::isnan(b)) ||
               (std::isfinite(b) && std::abs(a - b) <= tolerance * (1 + std::abs(b)));
      };
      bool same;
      if constexpr (std::is_same_v<T, double>) same = close(x, y);
      else if constexpr (std::is_same_v<T, Complex>) same = close_complex(x, y, close, tolerance);
      else same = x == y;
      if (!same) {
        std::ostringstream out;
        out.precision(17);
        out << "[" << i << "] of " << got.type() << " is " << x << " instead of " << y;
        return out.str();
      }
    }
    return "";
  });
}

std::string difference(Tensors got, Tensors wanted, double tolerance) {
  if (got.size() != wanted.size()) return text_of(got.size(), " results instead of ", wanted.size());
  for (size_t t = 0; t < got.size(); ++t)
    if (auto why = difference(got[t], wanted[t], tolerance); !why.empty()) return text_of("result ", t, " ", why);
  return "";
}

double largest_difference(Tensors got, Tensors wanted) {
  double largest = 0;
  for (size_t t = 0; t < std::min(got.size(), wanted.size()); ++t) {
    if (got[t].type() != wanted[t].type() || is_block(got[t].dtype())) continue;
    with_element_type(got[t].dtype(), [&]<class T>() {
      for (size_t i = 0; i < got[t].element_count(); ++i) {
        const auto apart = [&](double a, double b) {
          if (a == b || (std::isnan(a) && std::isnan(b))) return;
          const double difference = std::abs(a - b) / (1 + std::abs(b));
          if (!(difference <= largest)) largest = difference;
        };
        const T x = load<T>(got[t], i), y = load<T>(wanted[t], i);
        if constexpr (std::is_same_v<T, Complex>) apart(x == y ? 0 : std::abs(x - y) / (1 + std::abs(y)), 0);
        else apart(static_cast<double>(x), static_cast<double>(y));
      }
    });
  }
  return largest;
}

namespace {

/// Random bytes, drawn again until the largest element of a block is within a factor of 8 of `most`.
void fill_blocks(Tensor& t, std::mt19937_64& bits, double most) {
  const DTypeInfo& format = info(t.dtype());
  BlockDecoder decode = block_decoder(t.dtype());
  std::byte* end = t.mutable_data() + t.byte_count();
  for (std::byte* block = t.mutable_data(); block < end; block += format.block_bytes) {
    double largest = -1;
    while (!(largest >= most / 8 && largest <= most * 8)) {
      for (int64_t i = 0; i < format.block_bytes; ++i) block[i] = static_cast<std::byte>(bits() >> 56);
      float values[256];
      decode(block, 1, values);
      largest = 0;
      for (int64_t i = 0; i < format.block_elements; ++i)  // a NaN stays: it fails both comparisons
        if (double v = std::abs(static_cast<double>(values[i])); !(v <= largest)) largest = v;
    }
  }
}

}  // namespace

Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double lo, double hi) {
  std::mt19937_64 bits(seed);
  // No std distribution: their algorithms differ between libraries, and with them the tests.
  auto uniform = [&] { return lo + (hi - lo) * static_cast<double>(bits() >> 11) * 0x1p-53; };
  Tensor t(dtype, shape);
  if (is_block(dtype)) {
    fill_blocks(t, bits, std::max(std::abs(lo), std::abs(hi)));
    return t;
  }
  with_element_type(dtype, [&]<class T>() {
    for (size_t i = 0; i < t.element_count(); ++i) {
      if constexpr (std::is_same_v<T, Complex>) {
        double re = uniform();
        store<T>(t, i, {re, uniform()});
      } else if (dtype == boolean) {
        store<uint64_t>(t, i, uniform() > (lo + hi) / 2);
      } else if constexpr (std::is_same_v<T, double>) {
        store<T>(t, i, uniform());
      } else {
        double v = std::floor(uniform());
        store<T>(t, i, static_cast<T>(static_cast<int64_t>(std::is_signed_v<T> ? v : std::abs(v))));
      }
    }
  });
  return t;
}

}  // namespace rlx
