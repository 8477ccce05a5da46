// What the files of handlers share. A handler is a function of one operation, `MIL_OP(name)`; mil_ops.def lists them.
#pragma once

#include "frontends/mil/lower.h"

#define MIL_OP(name) Results lower_##name([[maybe_unused]] Call& op)

namespace rlx::mlprogram {

#define MIL_ONE(name) MIL_OP(name);
#define MIL_WIDE(name) MIL_OP(name);
#include "frontends/mil/mil_ops.def"
#undef MIL_ONE
#undef MIL_WIDE

/// MIL's names of dtypes: "fp16", "int32" ...; fails for one that no tensor has.
DType dtype_of_word(const std::string& word);
/// A tensor of rank 1, i32, of these numbers.
Tensor int_tensor(const std::vector<int64_t>& values);
/// The product of two lists' worth of sampling along an axis stays in range: the extent as a number.
int64_t static_dim(Call& op, Value x, int64_t axis);
/// A vector [C] as [C, 1, 1 ...]: along dim 1 of a tensor of that rank.
Value along_channels(Value vector, int64_t rank);

/// Padding before and after each spatial dim, from `pad_type` and `pad`.
struct Padding {
  Dims low, high;
};
Padding padding_of(Call& op, const Dims& spatial, const Axes& kernel, const Axes& strides, const Axes& dilations,
                   const std::string& pad_type);

/// x[begin : end : stride] along each dim as NumPy has it, with MIL's masks; what is known of it before data are.
struct SliceSpec {
  Dims starts, sizes;  ///< places of x; sizes of the result before `squeezed` are dropped
  Axes strides;        ///< negative ones run backward from `starts`
  Axes squeezed;
  bool dynamic = false;              ///< the starts are computed: they stand in `computed`
  std::vector<Value> computed = {};  ///< scalars, i32, counted from the front
};
SliceSpec slice_spec(Call& op, Value x, const Dims* update = nullptr);

/// The value as an item's tensor, i32, negative indices counted from the end where the opset has it so.
Value wrapped_indices(Call& op, Value indices, const Dim& extent);

}  // namespace rlx::mlprogram
