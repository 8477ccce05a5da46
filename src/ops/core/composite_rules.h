// What the composite families share: checks of operands that need not be of one type, and the arithmetic of
// means. Neighbour: elementwise_rules.h, the kinds of dtype.
#pragma once

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/contract.h"

namespace rlx {

/// All operands have one dtype, of these kinds; returns it.
DType require_dtype(Types in, unsigned kinds);
/// Sums of products of `operands` may be kept in `result`: the dtype itself, or a wider one of its kind.
void require_accumulator(DType operands, DType result);
/// `t`, an operand called `name`, has these dims.
void require_dims(const Type& t, const Dims& dims, std::string_view name);
void require_rank(const Type& t, size_t least, size_t most, std::string_view name);
/// There are as many operands as the attributes call for, which `why` names: "has_bias = true".
void require_operands(size_t got, size_t wanted, std::string_view why);
/// "has_bias = true", as it is written.
std::string flag_text(std::string_view name, bool value);
/// `x` broadcasts to `dims` as NumPy does it: right-aligned, extents of 1 stretch.
void require_broadcasts(const Type& x, const Dims& dims, std::string_view name);

/// The elements of a shape that share their index outside `axes`, as row-major positions: how the references
/// of ops that work along axes find what belongs together. Lanes and elements both in row-major order.
std::vector<std::vector<size_t>> lanes_of(const Shape& shape, const Axes& axes);

/// How many elements of x are combined over `axes`, as a scalar of x's dtype.
Value count_over(Value x, const Axes& axes);
Value mean_over(Value x, const Axes& axes);
/// x - mean, the mean taken over `axes`.
Value centered(Value x, const Axes& axes);
/// ct, of what x of `dims` was broadcast to as NumPy does it, summed back to x's dims.
Value summed_to(Value ct, const Dims& dims);
/// `dims` without `axes`, or with 1 in their place.
Dims reduced_dims(const Dims& dims, const Axes& axes, bool keep_dims);

}  // namespace rlx
