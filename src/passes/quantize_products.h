// Products and convolutions with weights in integers, `compute = int8`: weights have 8 bits; the other operand
// has 8 bits with outliers of 15 where these are to be expected, else up to 11.
// Neighbour: mixed_precision, for floats narrower than f32, whose table says which ops are products.
#pragma once

#include <functional>

#include "passes/target.h"

namespace rlx {

/// Turns products of f32 with weights into dynamic_quantize_matmul. The weights get codes of 8 bits when params are
/// bound; the other operand is quantized in each run, with one scale for each row. Its codes are at most 1023 in
/// magnitude (less where k > 16,529, so that sums fit i32, down to 127; beyond that products stay f32); where a norm,
/// attention or an activation leaves it they are at most 127, but for a row's three largest numbers, whose codes are up
/// to 16383. Everything else stays as it is, in f32: mixed_precision, which runs behind it, has a table for what stands
/// beside integers.
///
///   before  %2 = linear(%0, %1)             after  %2, %3 = dynamic_quantize(%1) {axes = [1]}
///                                                  %4 = dynamic_quantize_matmul(%0, %2, %3)
///                                                         {transpose_rhs = true, x_largest = 1023}
///
/// Behind an activation x is multiplied and w divided, channel by channel of k, by the fourth root of the channel's
/// largest weight over the largest of all, before both are rounded: a few channels with large weights would make the
/// steps of all others coarse. If x is the result of a product that has no residual and no other
/// reader, that product multiplies it itself (has_factor).
///
/// Queries, keys and values of an attention that are products of the same rows become one product, of whose result the
/// attention reads slices: the rows are quantized once. The bits are the same.
///
/// Takes matmul, linear and fused_matmul whose right operand is a matrix of static dims, made of params and constants
/// alone, while the left one is not. Products whose k or n is small stay in f32, as int8 gains nothing there, and so do
/// those whose k is so large that sums might overflow; the bounds stand in the .cpp. Sub-graphs are left as they are:
/// their operands are inputs there, so that it is not seen which of them are weights. Weights in blocks are left, too.
///
/// The convolutions of plain_convolution.h become dynamic_quantize_conv on like terms, with bounds of their own, k
/// being the channels of a group times the taps, n the output channels of a group, and the scale of x one for each
/// image. So depthwise ones stay in f32, and so do all that the target lacks a kernel for (`takes`): their
/// decomposition is a convolution of i32, slower than that of f32.
///
///   before  %2 = fused_conv(%0, %1)         after  %2, %3 = dynamic_quantize(%1) {axes = [1, 2, 3]}
///             {activation = relu}                  %4 = dynamic_quantize_conv(%0, %2, %3)
///                                                         {activation = relu, x_largest = 1023}
///
/// Images that are never negative (behind relu, relu6 or sigmoid) get codes from 0 to 255, one byte, where the target
/// takes images of bf16, as kernels do that read images where they lie: one byte is faster there.
Graph quantize_products(const Graph& g, const std::function<bool(const Question&)>& takes);
/// Whether the target takes convolutions in integers with images of `narrow`.
bool takes_images_of(DType narrow, const std::function<bool(const Question&)>& takes);
/// For a target that takes every such convolution.
Graph quantize_products(const Graph& g);

}  // namespace rlx
