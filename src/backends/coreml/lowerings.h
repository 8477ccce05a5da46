// The table of lowerings: which ops an ML Program takes, and what is written for them. A row of lowerings.def names an
// op, a condition beyond the one that holds for all (types.h), the first opset that has what it writes, and the
// function.
#pragma once

#include <functional>
#include <optional>

#include "backends/coreml/coreml.h"
#include "backends/coreml/emitter.h"
#include "passes/legalize.h"

namespace rlx::coreml {

/// What a lowering is handed: the node, its operands as values of the program, and where to write.
struct Lowering {
  Emitter& e;
  const Node& node;
  std::vector<Type> types;  ///< of the operands, as the graph has them
  std::function<Var(size_t)> operand;
  /// The operand as it was before it was repeated along some dims: for what broadcasts by itself. Of the same rank.
  std::function<Var(size_t)> loose;
  /// The same of a constant's number, if the operand is a constant of equal elements.
  std::function<std::optional<double>(size_t)> number;
  std::function<bool(size_t)> is_constant;      ///< whether the graph has the operand's value
  std::function<const Tensor*(size_t)> tensor;  ///< that value, or null
  std::function<void(std::string)> note;        ///< what the report says of the package
  bool nearest = false;                         ///< whether weights may become what comes nearest to them
  /// Writes a sub-graph into the current block; its inputs are values that it sees.
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

/// Constants that a row writes itself, in the few bits that they have: codes, and what stands beside them.
struct Packing {
  size_t operands = 0;     ///< how many of the first operands these are; 0 for rows that have none
  int opset = 0;           ///< the first opset with a form for codes of any width
  int opset_of_bytes = 0;  ///< and for codes of 8 bits
};

/// Nothing, or why not.
using Condition = std::optional<std::string> (*)(const Question&);

/// What few rows have.
struct Particulars {
  /// Operands that are constants in every program, one bit each: a node whose own is computed from an input is not
  /// taken. They arrive as `Lowering::tensor`.
  uint32_t constants = 0;
  /// What must be numbers where dims of the node are symbols, if anything.
  Condition open = nullptr;
  Packing packing = {};
  bool other_stream = false;  ///< random numbers of Core ML's own: only for who accepts them
};
constexpr uint32_t operands(std::initializer_list<int> places) {
  uint32_t bits = 0;
  for (int place : places) bits |= uint32_t{1} << place;
  return bits;
}

struct Row {
  const OpDef* op;
  Condition when;  ///< the row takes the node
  int opset;
  Lowered (*lower)(Lowering&);
  Particulars also = {};
};
/// The first row for an op that takes the node is the one.
std::span<const Row> rows();
const Row* find_row(const Question&, const Options&, std::string* why = nullptr);
/// Weights that rows take as constants only, computed where they are made of constants: legal graphs, claimed with
/// their params or with what is made of them, become what can be written.
Graph with_constant_weights(const Graph& legal);
/// Whether a constant at that operand is written by the op's rows: packed, or as constants of their own.
bool is_left_to_row(const OpDef* op, size_t operand);
/// What the op's rows keep packed.
Packing packing_of(const OpDef* op);
/// The oldest opset that keeps the packed weights of a legal graph packed, where they are large enough to be worth it;
/// 0 where there are none.
int opset_for_weights(const Graph& legal);

/// Whether wider types may be carried in the 32 bits that programs have.
struct TypeRules {
  bool narrow = false;     ///< i64 as i32, f64 as f32
  bool open_dims = false;  ///< dims that are no numbers
};
/// The dtype in which a program carries elements of `dtype`; nothing if it cannot.
std::optional<DType> carried(DType dtype);
/// Why a program cannot carry values of that type; nothing if it can.
std::optional<std::string> not_carried(const Type& type, const TypeRules& rules);
/// A constant in the dtype in which a program carries it.
Tensor carried_constant(const Tensor& t);
/// An operand of places as i32, for comparison with extents: beyond its range at its ends.
Var places_operand(Lowering& l, size_t i);
/// After arithmetic on integers of fewer than 32 bits, which a program has as i32: what they wrap to.
Var wrapped(Emitter& e, const Var& x, DType dtype);

// Numbers that programs do not have (lower_numbers.cpp).
/// u32, and u64 where it is narrowed: carried as the i32 of the same bits.
constexpr bool is_wide_unsigned(DType t) { return t == u32 || t == u64; }
/// Floats that are carried as f32 and rounded after each op.
constexpr bool is_rounded(DType t) { return is_float(t) && info(t).bits <= 16 && t != f16; }
/// The nearest number of `dtype`, ties to even, in f32.
Var rounded(Emitter& e, const Var& x, DType dtype);
/// The bits of a float that `dtype` can hold, in i32; of fewer than 32 bits without a sign. All NaNs are one.
Var code_of(Emitter& e, const Var& x, DType dtype);
/// The float of these bits, as it is carried.
Var decoded(Emitter& e, const Var& word, DType dtype);
/// Unsigned numbers of 32 bits so that the order of i32 is theirs, and back.
Var flipped(Emitter& e, const Var& x);
/// `flipped` if dtype is one of those, else x itself.
Var ordered(Emitter& e, const Var& x, DType dtype);
/// An unsigned number of 32 bits in f32.
Var real_of_unsigned(Emitter& e, const Var& x);
/// The quotient of integers, towards zero; by zero all bits set. Not wrapped.
Var integer_quotient(Emitter& e, const Var& x, const Var& y, DType dtype);

/// x with `gap` elements of that value, a scalar, between its own along `axis` (lower_shape.cpp).
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

/// Lowerings hand shapes on, or compute them by Emitter::sizes, so what they write is right for every size. These are
/// the few that cannot, and say what of a node must be a number.
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
