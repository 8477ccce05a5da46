// The only file that expands ops.def into handles: one initialization order, nothing registers itself.
#include <algorithm>

#include "rlx/ops/op.h"

namespace rlx {

#define RLX_OP(name)     \
  OpDef define_##name(); \
  const OpDef op::name = define_##name();
#include "rlx/ops/ops.def"

std::span<const OpDef* const> all_ops() {
  static const OpDef* const table[] = {
#define RLX_OP(name) &op::name,
#include "rlx/ops/ops.def"
  };
  return table;
}

namespace {

/// Insertions, deletions and exchanges that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t best = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = std::exchange(row[j], best);
    }
  }
  return row.back();
}

}  // namespace

const OpDef& find_op(std::string_view name) {
  const OpDef* nearest = nullptr;
  size_t least = 4;
  for (const OpDef* op : all_ops()) {
    if (op->name == name) return *op;
    if (name.size() > 64) continue;
    size_t distance = edit_distance(op->name, name);
    if (distance < least) least = distance, nearest = op;
  }
  fail(ErrorCode::parse, "there is no op '", name.substr(0, 64), "'",
       nearest ? text_of("; is '", nearest->name, "' meant?") : std::string("; `rlx ops` lists them all"));
}

Value emit(const OpDef& op, std::vector<Value> operands, Attrs attrs) {
  if (operands.empty()) fail(ErrorCode::invalid_argument, op.name, " needs an operand to know its graph");
  Graph& g = operands[0].graph();
  return g.emit(op, std::move(operands), std::move(attrs))[0];
}

}  // namespace rlx
