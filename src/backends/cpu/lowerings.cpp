// The table of lowerings. An op that is not in it is decomposed; a reason that a `when` returns goes into the dispatch
// report.
#include "backends/cpu/lowerings.h"

#include <unordered_map>

#include "rlx/ops.h"
#include "rlx_choices.h"

namespace rlx::cpu {

#define RLX_LOWERING(op, when, how, ...) Prepared how(const LoweringContext&);
#include "backends/cpu/lowerings.def"

namespace {

// The rows of ops that were left out (RLX_OPS) name nothing, so that the linker drops their functions and kernels.
#define RLX_ROW(name, ...) choices::has_op(#name) ? Lowering{&op::name, __VA_ARGS__} : Lowering{},
constexpr Lowering kLowerings[] = {  // made by the compiler: code would name the dropped functions, too
#define RLX_ELEMENTWISE(name) RLX_ROW(name, when_elementwise, lower_elementwise, strided::any, Overwrites::any)
    RLX_CPU_ELEMENTWISE(RLX_ELEMENTWISE)
#undef RLX_ELEMENTWISE
        RLX_ROW(elementwise_region, when_region, lower_region, strided::any, Overwrites::any)
#define RLX_LOWERING(name, ...) RLX_ROW(name, __VA_ARGS__)
#include "backends/cpu/lowerings.def"
};

/// The row of ops that the table does not have.
const Lowering kByReference = {nullptr, when::is_byte_sized, lower_reference};
/// The row of nodes that a registered kernel computes. The kernel is looked up again when the step is made.
const Lowering kRegistered = {nullptr, when::always, lower_registered};

/// The rows of an op, in the order of the table.
std::span<const Lowering* const> rows_of(const OpDef& op) {
  static const auto& rows = *new std::unordered_map<const OpDef*, std::vector<const Lowering*>>([] {
    std::unordered_map<const OpDef*, std::vector<const Lowering*>> all;
    for (const Lowering& row : kLowerings) all[row.op].push_back(&row);
    return all;
  }());
  const auto found = rows.find(&op);
  return found == rows.end() ? std::span<const Lowering* const>() : found->second;
}

}  // namespace

std::span<const Lowering> lowerings() { return kLowerings; }
bool runs_reference(const Lowering& row) { return &row == &kByReference; }

const Lowering* find_lowering(const Question& q, std::string& why_not) {
  std::string refusals;
  if (registered_kernel(q, refusals)) return &kRegistered;
  const auto rows = rows_of(*q.node.op);
  for (const Lowering* row : rows) {
    if ((why_not = row->when(q)).empty()) return row;
    if (!refusals.empty()) why_not = text_of(refusals, "; ", why_not);
  }
  if (!rows.empty()) return nullptr;
  if (!q.node.op->reference || q.node.op->decompose) {
    why_not = refusals.empty() ? text_of("the CPU has no kernel for '", q.node.op->name, "'") : refusals;
    return nullptr;
  }
  why_not = kByReference.when(q);
  return why_not.empty() ? &kByReference : nullptr;
}

namespace when {
std::string always(const Question&) { return ""; }
std::string is_byte_sized(const Question& q) {
  for (Types types : {q.operands, Types(q.node.types)})
    for (const Type& t : types)
      if (!rlx::is_byte_sized(t.dtype)) return text_of(t, " is packed: its elements have no address");
  return "";
}
std::string is_float(const Question& q) {
  for (const Type& t : q.operands)
    if (t.dtype != f32 && t.dtype != f64 && t.dtype != f16 && t.dtype != bf16)
      return text_of(t, " is not f32, f64, f16 or bf16");
  return "";
}
}  // namespace when

}  // namespace rlx::cpu
