// See the header.
#include "support/compare.h"

#include <cmath>
#include <cstring>
#include <random>

#include "rlx/blocks.h"
#include "support/tolerance.h"

namespace rlx {

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
      else if constexpr (std::is_same_v<T, Complex>) same = close(x.real(), y.real()) && close(x.imag(), y.imag());
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

Tensor golden_tensor(const Type& type, Tensor stored) {
  if (stored.dtype() != u8 || type.dtype == u8) return stored;
  // A copy: the bytes may lie anywhere, and elements of several bytes must be aligned.
  Tensor t = Tensor::uninitialized(type.dtype, shape_of(type.dims));
  if (t.byte_count() != stored.byte_count())
    fail(ErrorCode::invalid_argument, stored.byte_count(), " bytes are stored for ", type, ", which takes ",
         t.byte_count());
  if (t.byte_count()) std::memcpy(t.mutable_data(), stored.data(), t.byte_count());
  return t;
}

}  // namespace rlx
