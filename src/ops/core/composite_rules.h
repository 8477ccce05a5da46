// What the families of composites share: checks of operands that need not have the same type, and the arithmetic of
// means. Neighbour: elementwise_rules.h, the kinds of dtype.
#pragma once

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/contract.h"

namespace rlx {

/// Fails unless all operands have the same dtype, of one of these kinds; returns it.
DType require_dtype(Types in, unsigned kinds);
/// Fails unless sums of products of `operands` may be stored in `result`, which is the same dtype or a wider one of its
/// kind.
void require_accumulator(DType operands, DType result);
/// Fails unless `t`, an operand called `name`, has these dims.
void require_dims(const Type& t, const Dims& dims, std::string_view name);
void require_rank(const Type& t, size_t least, size_t most, std::string_view name);
/// Fails unless there are as many operands as the attributes require; `why` names the attribute: "has_bias = true".
void require_operands(size_t got, size_t wanted, std::string_view why);
/// The attribute as it is written: "has_bias = true".
std::string flag_text(std::string_view name, bool value);
/// Fails unless `x` can be broadcast to `dims` by NumPy's rule: aligned at the last dim, extents of 1 are repeated.
void require_broadcasts(const Type& x, const Dims& dims, std::string_view name);

/// The elements of a shape in groups (lanes) that differ only in their index along `axes`, as row-major positions: for
/// the references of ops that work along axes. The lanes, and the elements of each, are in row-major order.
std::vector<std::vector<size_t>> lanes_of(const Shape& shape, const Axes& axes);

/// How many elements of x are combined over `axes`, as a scalar value of x's dtype.
Value count_over(Value x, const Axes& axes);
Value mean_over(Value x, const Axes& axes);
/// x minus its mean over `axes`.
Value centered(Value x, const Axes& axes);
/// The cotangent of x, whose dims are `dims`, from the cotangent `ct` of x broadcast by NumPy's rule: repeated elements
/// are summed.
Value summed_to(Value ct, const Dims& dims);
/// The dims that remain of `dims` after a reduction over `axes`; with `keep_dims` these become 1.
Dims reduced_dims(const Dims& dims, const Axes& axes, bool keep_dims);

}  // namespace rlx
