// Products of matrices by those whom ours stand beside, and in f64.
#pragma once

#include <span>
#include <vector>

#include "bench/product_accuracy/case.h"

namespace rlx::accuracy {

/// y[m, n] = x[m, k] w[k, n], all row by row; `turned`: w is [n, k].
struct ProductSize {
  int64_t m, k, n;
  bool turned = false;
};

std::vector<float> product(Peer peer, std::span<const float> x, std::span<const float> w, ProductSize size);
/// By OpenBLAS; its own errors are some 2^-29 of those of f32.
std::vector<double> product(std::span<const double> x, std::span<const double> w, ProductSize size);

std::vector<double> widened(std::span<const float> values);
/// |v| of each.
std::vector<double> magnitudes(std::span<const double> values);
std::vector<float> transposed(const Matrix& m);

/// Units of a plain sum: 2^-24 sum |x| |w|, what a rounding of the largest partial sum may lose; 2^-150 more, as near
/// the least subnormal number each rounding loses that.
void set_units(std::vector<double>& unit, const std::vector<double>& magnitude);

/// Multiplies by the power of two that brings `most`, which is linear in the values, down to the limit; leaves them
/// alone if it is below.
void scale_below(std::span<float> values, double most, double limit);

}  // namespace rlx::accuracy
