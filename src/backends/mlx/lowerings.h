// The table of lowerings: which nodes become operations of MLX, and how. A row of lowerings.def names an op, a
// condition, what it becomes and the function; the first row that takes a node wins. A primitive that no row takes, or
// one with a dtype that MLX lacks, runs on the host by its reference (host_node.h).
#pragma once

#include <mlx/ops.h>

#include <span>
#include <string>

#include "backends/mlx/carry.h"
#include "passes/target.h"

namespace rlx::mlx_backend {

/// What a lowering is handed. All types are static and, but for weights in `packed`, of dtypes that MLX has. A result
/// has elements; operands and other results may have none.
struct Lowering {
  const Node& node;
  const std::vector<Type>& types;        ///< of the operands
  const std::vector<mx::Shape>& shapes;  ///< of the results
  std::vector<mx::array> in;             ///< the operands
  mx::Stream s;                          ///< where the operations run
  const std::vector<mx::array>& packed;  ///< of `has_packed_weights`: the weights in MLX's form
  bool is_written = false;               ///< to a file, which has no `contiguous`

  const Type& result(size_t i = 0) const { return node.types[i]; }
  const mx::Shape& shape(size_t i = 0) const { return shapes[i]; }
  mx::Dtype dtype(size_t i = 0) const { return carried_dtype(result(i).dtype); }
  template <class A>
  const A& attrs() const {
    return node.attrs.as<A>();
  }
};
using Lowered = std::vector<mx::array>;

/// Nothing if the row takes the node, else the reason why it does not.
using Condition = std::optional<std::string> (*)(const Question&);

/// On which of MLX's devices the operations of a row can run: on any, or on the processor alone.
enum class On { any, cpu };

struct Row {
  const OpDef* op;
  Condition when;
  On on;
  std::string_view becomes;  ///< the operations of MLX, for docs/mlx.md
  Lowered (*lower)(Lowering&);
};
std::span<const Row> rows();
/// The row that takes the node; null if none does. `why` is then the dtype that MLX lacks, the refusal of the last row
/// that was asked, or that no row has the op.
const Row* find_row(const Question&, std::string* why = nullptr);
/// Control flow, which needs no row: the host decides, and MLX runs the bodies. A scan with an operand or result whose
/// elements are smaller than a byte is not control flow: its reference runs.
bool is_control(const Node& node, Types operands);

/// Whether the op multiplies with weights that are laid out anew, once, for the row that takes it (packed_weights.h).
bool has_packed_weights(const OpDef* op);

/// Whether the node runs on a stream of the processor even where there is a GPU: no row takes it, its row says so, or
/// an operand or result is of f64.
bool is_for_cpu(const Node& node, const std::vector<Type>& operands, const Row* row);

// ---- what lowerings share ----
/// A number as a scalar array. It broadcasts.
mx::array number(double value, DType dtype);
/// An integer as a scalar array.
mx::array integer(int64_t value, DType dtype);
/// Operand `i`, converted to f32 if it is f16 or bf16: those are computed in f32 and rounded once.
mx::array wide(Lowering& l, size_t i);
/// As the dtype of result `i`.
mx::array narrowed(Lowering& l, mx::array x, size_t i = 0);
DType wide_dtype(DType dtype);
inline bool is_on_cpu(mx::Stream s) { return s.device.type == mx::Device::cpu; }
/// The sum over `axes`, which stay as dims of 1. On the CPU, MLX adds all elements one after another in f32, so that
/// the rounding error grows with their number. There this function adds up partial sums.
mx::array summed(mx::array x, std::vector<int> axes, mx::Stream s);
std::vector<int> ints(const std::vector<int64_t>& all);

namespace when {
inline std::optional<std::string> always(const Question&) { return std::nullopt; }
std::optional<std::string> is_float(const Question&);
std::optional<std::string> is_narrow_float(const Question&);  ///< f16, bf16, f32
std::optional<std::string> is_real(const Question&);          ///< integers and floats
std::optional<std::string> is_number(const Question&);        ///< complex ones too
std::optional<std::string> is_inexact(const Question&);       ///< floats and complex ones
std::optional<std::string> is_integer(const Question&);
std::optional<std::string> is_bool(const Question&);
std::optional<std::string> has_bits(const Question&);  ///< integers and bools
std::optional<std::string> can_convert(const Question&);
std::optional<std::string> can_bitcast(const Question&);
std::optional<std::string> can_reduce(const Question&);
std::optional<std::string> can_multiply(const Question&);
std::optional<std::string> can_multiply_floats(const Question&);  ///< complex ones too
std::optional<std::string> can_scatter(const Question&);
std::optional<std::string> can_scatter_anywhere(const Question&);  ///< on a GPU too
std::optional<std::string> can_slide(const Question&);
std::optional<std::string> can_convolve(const Question&);
std::optional<std::string> can_sort(const Question&);
std::optional<std::string> can_transform(const Question&);
std::optional<std::string> can_normalize(const Question&);
std::optional<std::string> can_attend(const Question&);
std::optional<std::string> is_cumulated(const Question&);
std::optional<std::string> can_factor_thin(const Question&);  ///< `full` of square matrices alone
std::optional<std::string> can_multiply_packed(const Question&);
std::optional<std::string> can_draw(const Question&);
std::optional<std::string> can_scan_by_metal(const Question&);     ///< on Apple's GPU alone
std::optional<std::string> can_correct_by_metal(const Question&);  ///< the same
}  // namespace when

#define RLX_LOWERING(name, condition, on, becomes, function) Lowered function(Lowering&);
#include "backends/mlx/lowerings.def"
#undef RLX_LOWERING

}  // namespace rlx::mlx_backend
