// The rows as a list, the conditions that several rows have, and what lowerings share.
#include "backends/mlx/lowerings.h"

#include <algorithm>
#include <limits>

#include "rlx/ops.h"

namespace rlx::mlx_backend {
namespace {

const Row kRows[] = {
#define RLX_LOWERING(name, condition, on, becomes, function) {&op::name, condition, On::on, becomes, function},
#include "backends/mlx/lowerings.def"
#undef RLX_LOWERING
};

/// The dtype of the first operand, or of the result of an op without operands.
DType dtype_of_node(const Question& q) { return q.operands.empty() ? q.node.types[0].dtype : q.operands[0].dtype; }

std::optional<std::string> taken_if(bool taken, const char* otherwise) {
  if (taken) return std::nullopt;
  return otherwise;
}

}  // namespace

std::span<const Row> rows() { return kRows; }

bool has_packed_weights(const OpDef* op) { return op == &op::dequant_matmul || op == &op::dequant_grouped_matmul; }
bool is_control(const Node& node, Types operands) {
  if (node.op == &op::if_else || node.op == &op::while_loop) return true;
  if (node.op != &op::scan) return false;
  const auto is_whole = [](const Type& t) { return has_dtype(t.dtype) || is_byte_sized(t.dtype); };
  return std::all_of(operands.begin(), operands.end(), is_whole) &&
         std::all_of(node.types.begin(), node.types.end(), is_whole);
}

const Row* find_row(const Question& q, std::string* why) {
  std::string reason;
  for (Types types : {q.operands, Types(q.node.types)})
    for (const Type& t : types)
      if (!has_dtype(t.dtype) && !has_packed_weights(q.node.op)) reason = text_of("MLX has no ", t.dtype);
  if (reason.empty()) {
    reason = q.node.op->is_primitive() ? "MLX has no such operation" : "MLX has no operation for it as a whole";
    for (const Row& row : kRows) {
      if (row.op != q.node.op) continue;
      auto refusal = row.when(q);
      if (!refusal) return &row;
      reason = *refusal;
    }
  }
  if (why) *why = reason;
  return nullptr;
}

bool is_for_cpu(const Node& node, const std::vector<Type>& operands, const Row* row) {
  if (!row || row->on == On::cpu) return true;
  const auto is_f64 = [](const Type& t) { return t.dtype == f64; };
  return std::any_of(operands.begin(), operands.end(), is_f64) ||
         std::any_of(node.types.begin(), node.types.end(), is_f64);
}

mx::array number(double value, DType dtype) { return mx::array(value, carried_dtype(dtype)); }
mx::array integer(int64_t value, DType dtype) { return mx::array(value, carried_dtype(dtype)); }
DType wide_dtype(DType dtype) { return is_low_precision(dtype) ? f32 : dtype; }
mx::array wide(Lowering& l, size_t i) {
  return is_low_precision(l.types[i].dtype) ? mx::astype(l.in[i], mx::float32, l.s) : l.in[i];
}
mx::array narrowed(Lowering& l, mx::array x, size_t i) { return mx::astype(std::move(x), l.dtype(i), l.s); }
std::vector<int> ints(const std::vector<int64_t>& all) {
  std::vector<int> made;
  for (int64_t v : all) made.push_back(extent_of(v));
  return made;
}

namespace when {

std::optional<std::string> is_float(const Question& q) {
  return taken_if(rlx::is_float(dtype_of_node(q)), "MLX has it for floats only");
}
std::optional<std::string> is_narrow_float(const Question& q) {
  return taken_if(rlx::is_float(dtype_of_node(q)) && dtype_of_node(q) != f64, "MLX computes it with the digits of f32");
}
std::optional<std::string> is_real(const Question& q) {
  const DType t = dtype_of_node(q);
  return taken_if(rlx::is_float(t) || rlx::is_integer(t), "MLX has it for real numbers only");
}
std::optional<std::string> is_number(const Question& q) {
  return taken_if(dtype_of_node(q) != boolean, "MLX has it for numbers only");
}
std::optional<std::string> is_inexact(const Question& q) {
  const DType t = dtype_of_node(q);
  return taken_if(rlx::is_float(t) || is_complex(t), "MLX has it for floats only");
}
std::optional<std::string> is_integer(const Question& q) {
  return taken_if(rlx::is_integer(dtype_of_node(q)), "MLX has it for integers only");
}
std::optional<std::string> is_bool(const Question& q) {
  return taken_if(dtype_of_node(q) == boolean, "MLX has it for bools only");
}
std::optional<std::string> has_bits(const Question& q) {
  const DType t = dtype_of_node(q);
  return taken_if(rlx::is_integer(t) || t == boolean, "MLX has it for integers only");
}

}  // namespace when
}  // namespace rlx::mlx_backend
