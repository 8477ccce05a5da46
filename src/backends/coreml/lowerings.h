// The table of lowerings: which ops an ML Program supports, and what is written for them. A row of lowerings.def names
// an op, a condition (besides the one in types.h that holds for all ops), the first opset that has the operations it
// writes, and the function that writes them.
#pragma once

#include <functional>
#include <optional>

#include "backends/coreml/coreml.h"
#include "backends/coreml/emitter.h"
#include "passes/legalize.h"

namespace rlx::coreml {

/// What a lowering is given: the node, its operands as values of the program, and the emitter that writes.
struct Lowering {
  Emitter& e;
  const Node& node;
  std::vector<Type> types;  ///< of the operands, as the graph has them
  std::function<Var(size_t)> operand;
  /// An operand before it was broadcast, with the same rank: for operations that broadcast by themselves.
  std::function<Var(size_t)> loose;
  /// The number of an operand that is a constant of equal elements; nothing for others.
  std::function<std::optional<double>(size_t)> number;
  std::function<bool(size_t)> is_constant;      ///< whether the graph has the operand's value
  std::function<const Tensor*(size_t)> tensor;  ///< that value, or null
  std::function<void(std::string)> note;        ///< adds a note about the package to the report
  bool nearest = false;                         ///< PackageOptions::nearest
  /// Writes a sub-graph into the current block. Its inputs are values that are visible there.
  std::function<std::vector<Var>(const Graph&, const std::vector<Var>&)> body;

  const Type& result(size_t i = 0) const { return node.types[i]; }
  Shape shape(size_t i = 0) const;  ///< of a result, as programs carry it
  DType dtype(size_t i = 0) const;
  template <class A>
  const A& attrs() const {
    return node.attrs.as<A>();
  }
};
using Lowered = std::vector<Var>;

/// The operands of a row that stay packed: constants that the row writes itself as quantized values with scales.
struct Packing {
  size_t operands = 0;     ///< how many operands, from the first on; 0 for most rows
  int opset = 0;           ///< the first opset with a form for quantized values of any width
  int opset_of_bytes = 0;  ///< the first opset with a form for those of 8 bits
};

/// A condition returns the reason why a row does not support the node, or nothing if it does.
using Condition = std::optional<std::string> (*)(const Question&);

/// What only few rows need.
struct Particulars {
  /// The operands that must be constants, one bit each. A node for which one of them is computed from an input is not
  /// supported by the row. The values are available as `Lowering::tensor`.
  uint32_t constants = 0;
  /// If dims of the node are symbols, returns what must be a number nevertheless; null if nothing must.
  Condition open = nullptr;
  Packing packing = {};
  bool other_stream = false;  ///< uses Core ML's own random numbers, which PackageOptions::native_random must permit
};
constexpr uint32_t operands(std::initializer_list<int> places) {
  uint32_t bits = 0;
  for (int place : places) bits |= uint32_t{1} << place;
  return bits;
}

struct Row {
  const OpDef* op;
  Condition when;  ///< whether the row supports the node
  int opset;
  Lowered (*lower)(Lowering&);
  Particulars also = {};
};
/// The rows. An op is lowered by the first of its rows that supports the node.
std::span<const Row> rows();
const Row* find_row(const Question&, const Options&, std::string* why = nullptr);
/// Computes weights that rows take as constants only, where they are made of constants. So a legal graph becomes one
/// that can be written, whether it was claimed with params or with values that are computed from them.
Graph with_constant_weights(const Graph& legal);
/// Whether the op's rows write a constant at that operand themselves, packed or as constants of their own.
bool is_left_to_row(const OpDef* op, size_t operand);
/// Which operands the op's rows keep packed.
Packing packing_of(const OpDef* op);
/// The oldest opset with which the packed weights of a legal graph stay packed, if they are large enough to be worth
/// it; 0 if there are none.
int opset_for_weights(const Graph& legal);

/// How types are treated that ML Programs, whose numbers have 32 bits, do not have.
struct TypeRules {
  bool narrow = false;     ///< i64 may be carried as i32, and f64 as f32
  bool open_dims = false;  ///< dims may be symbols
};
/// The dtype in which a program carries elements of `dtype`; nothing if it cannot.
std::optional<DType> carried(DType dtype);
/// Why a program cannot carry values of that type; nothing if it can.
std::optional<std::string> not_carried(const Type& type, const TypeRules& rules);
/// A constant in the dtype in which a program carries it.
Tensor carried_constant(const Tensor& t);
/// An operand that holds indices, as i32, to be compared with extents. Indices beyond the range of i32 become its ends.
Var places_operand(Lowering& l, size_t i);
/// x after arithmetic on integers of fewer than 32 bits, which a program computes in i32: wrapped to `dtype`.
Var wrapped(Emitter& e, const Var& x, DType dtype);

// Numbers that programs do not have (lower_numbers.cpp).
/// Whether t is u32, or u64 where it is narrowed. They are carried as the i32 of the same bits.
constexpr bool is_wide_unsigned(DType t) { return t == u32 || t == u64; }
/// Whether t is a float that is carried as f32 and rounded after each op.
constexpr bool is_rounded(DType t) { return is_float(t) && info(t).bits <= 16 && t != f16; }
/// The nearest number of `dtype`, ties to even, in f32.
Var rounded(Emitter& e, const Var& x, DType dtype);
/// The bits of a float that `dtype` can hold, as i32, without sign extension. All NaNs have the same bits.
Var code_of(Emitter& e, const Var& x, DType dtype);
/// The float that has these bits, in the dtype in which it is carried.
Var decoded(Emitter& e, const Var& word, DType dtype);
/// Maps unsigned numbers of 32 bits, which are carried as i32, to i32 so that these have the same order; and back.
Var flipped(Emitter& e, const Var& x);
/// `flipped(x)` if dtype is carried like that (is_wide_unsigned), else x itself.
Var ordered(Emitter& e, const Var& x, DType dtype);
/// An unsigned number of 32 bits, as f32.
Var real_of_unsigned(Emitter& e, const Var& x);
/// The quotient of integers, rounded towards zero; all bits are set if y is 0. The result is not wrapped.
Var integer_quotient(Emitter& e, const Var& x, const Var& y, DType dtype);

/// x with `gap` elements of `value` (a scalar) between its own elements along `axis` (lower_shape.cpp).
Var with_gaps(Emitter& e, const Var& x, size_t axis, int64_t gap, const Var& value);

namespace when {
inline std::optional<std::string> always(const Question&) { return std::nullopt; }
std::optional<std::string> is_float(const Question&);
std::optional<std::string> is_number(const Question&);
std::optional<std::string> is_boolean(const Question&);
std::optional<std::string> can_reduce(const Question&);
std::optional<std::string> has_norm(const Question&);
std::optional<std::string> can_compare(const Question&);
std::optional<std::string> can_slide(const Question&);
std::optional<std::string> can_pool(const Question&);
std::optional<std::string> can_average(const Question&);
std::optional<std::string> can_select(const Question&);
std::optional<std::string> can_convolve(const Question&);
std::optional<std::string> can_scatter(const Question&);
std::optional<std::string> can_sort(const Question&);
std::optional<std::string> can_scan(const Question&);
std::optional<std::string> can_attend(const Question&);
std::optional<std::string> can_attend_back(const Question&);
std::optional<std::string> has_bits(const Question&);
std::optional<std::string> can_bitcast(const Question&);
std::optional<std::string> is_integer(const Question&);
std::optional<std::string> has_codes(const Question&);
std::optional<std::string> can_pick(const Question&);
std::optional<std::string> can_double(const Question&);
std::optional<std::string> can_draw(const Question&);
std::optional<std::string> is_f32(const Question&);
std::optional<std::string> has_channels_second(const Question&);
std::optional<std::string> has_space(const Question&);
std::optional<std::string> can_convolve_back(const Question&);
std::optional<std::string> can_clip(const Question&);
std::optional<std::string> has_band(const Question&);
std::optional<std::string> can_resize(const Question&);
std::optional<std::string> is_image(const Question&);
std::optional<std::string> can_mirror(const Question&);
std::optional<std::string> has_parts(const Question&);
std::optional<std::string> can_quantize(const Question&);
std::optional<std::string> can_dequantize(const Question&);
std::optional<std::string> has_order(const Question&);
std::optional<std::string> has_dims(const Question&);
std::optional<std::string> is_one_float(const Question&);
}  // namespace when

/// Most lowerings pass shapes on, or compute them by Emitter::sizes, so that what they write is right for every size.
/// These conditions are for the few that cannot; they say what of a node must be a number.
namespace open {
std::optional<std::string> slice(const Question&);
std::optional<std::string> pad(const Question&);
std::optional<std::string> convolution(const Question&);
std::optional<std::string> attention(const Question&);
}  // namespace open

#define RLX_LOWERING(name, condition, opset, function, ...) Lowered function(Lowering&);
#include "backends/coreml/lowerings.def"
#undef RLX_LOWERING

}  // namespace rlx::coreml
