// The only file that expands ops.def into handles: one initialization order, nothing of ours registers itself. Ops from
// outside the library stand in a list beside the table.
#include <algorithm>
#include <cctype>
#include <mutex>
#include <shared_mutex>

#include "ops/core/registered.h"
#include "rlx/ops.h"
#include "rlx_choices.h"

namespace rlx {
namespace {

[[noreturn, maybe_unused]] void fail_left_out(std::string_view name) {
  fail(ErrorCode::unsupported, "the op '", name,
       "' was left out of this library; build one with -DRLX_OPS=ALL, or add '", name,
       "' to the list that RLX_OPS named (docs/building.md)");
}

/// What stands for an op that was left out (RLX_OPS): whoever makes a node of it is told so.
[[maybe_unused]] OpDef left_out(std::string_view name) {
  OpDef op;
  op.name = name, op.operands = {"operands..."};
  op.takes = [](const Attrs&) { return true; };
  op.infer = [name](Types, const Attrs&) -> Many<Type> { fail_left_out(name); };
  return op;
}
bool is_left_out(const OpDef& op) { return !op.describe_attrs; }

}  // namespace

#define RLX_OP(name)                                              \
  OpDef define_##name();                                          \
  const OpDef op::name = [] {                                     \
    if constexpr (choices::has_op(#name)) return define_##name(); \
    else return left_out(#name);                                  \
  }();
#include "ops/ops.def"

namespace {

constexpr const OpDef* kTable[] = {
#define RLX_OP(name) &op::name,
#include "ops/ops.def"
};

struct Registered {
  std::shared_mutex mutex;  // guards `ops`
  std::vector<const OpDef*> ops;
};
Registered& registered() {
  static Registered all;
  return all;
}

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

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> ops(std::begin(kTable), std::end(kTable));
  std::erase_if(ops, [](const OpDef* op) { return is_left_out(*op); });
  std::shared_lock lock(registered().mutex);
  ops.insert(ops.end(), registered().ops.begin(), registered().ops.end());
  return ops;
}

void register_op(const OpDef& op) {
  bool word = !op.name.empty() && !std::isdigit(static_cast<unsigned char>(op.name[0])) &&
              std::all_of(op.name.begin(), op.name.end(),
                          [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  if (!word)
    fail(ErrorCode::invalid_argument, "an op's name is a word of letters, digits and '_', not '", op.name, "'");
  if (!op.infer || !op.takes || !op.parse_attrs || (!op.reference && !op.decompose))
    fail(ErrorCode::invalid_argument, "op '", op.name,
         "' needs `infer` and a `reference` or `decompose`; make it with rlx::define");
  std::unique_lock lock(registered().mutex);
  auto& ops = registered().ops;
  auto same_name = [&](const OpDef* other) { return other->name == op.name; };
  if (std::any_of(std::begin(kTable), std::end(kTable), same_name) || std::any_of(ops.begin(), ops.end(), same_name))
    fail(ErrorCode::invalid_argument, "there is an op '", op.name, "' already; choose another name");
  ops.push_back(&op);
}
void unregister_op(const OpDef& op) {
  std::unique_lock lock(registered().mutex);
  if (std::erase(registered().ops, &op) == 0) fail(ErrorCode::not_found, "op '", op.name, "' is not registered");
}

bool has_registered_op(const Graph& g) {
  std::vector<const OpDef*> ops;
  {
    std::shared_lock lock(registered().mutex);
    ops = registered().ops;
  }
  if (ops.empty()) return false;
  const std::function<bool(const Graph&)> has_one = [&](const Graph& graph) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
      bool is_one = std::find(ops.begin(), ops.end(), node.op) != ops.end();
      if (!is_one && !node.attrs.empty() && holds_subgraph(node.attrs))
        node.attrs.mapped({[](const Dim& d) { return d; },
                           [&](const Subgraph& body) {
                             is_one |= body && has_one(*body);
                             return body;
                           }});
      return is_one;
    });
  };
  return has_one(g);
}

const OpDef& find_op(std::string_view name) {
  for (const OpDef* op : kTable)
    if (op->name == name) {
      if (is_left_out(*op)) fail_left_out(op->name);
      return *op;
    }
  std::string meant;
  {
    // Registered ops may be taken away by another thread: they are only looked at under the lock.
    std::shared_lock lock(registered().mutex);
    size_t least = 4;
    auto look_at = [&](const OpDef* op) {
      size_t distance = name.size() > 64 ? least : edit_distance(op->name, name);
      if (distance < least) least = distance, meant = op->name;
    };
    for (const OpDef* op : registered().ops)
      if (op->name == name) return *op;
    std::for_each(std::begin(kTable), std::end(kTable), look_at);
    std::for_each(registered().ops.begin(), registered().ops.end(), look_at);
  }
  fail(ErrorCode::parse, "there is no op '", name.substr(0, 64), "'",
       meant.empty() ? std::string("; `rlx ops` lists them all") : text_of("; is '", meant, "' meant?"));
}

Value emit(const OpDef& op, std::vector<Value> operands, Attrs attrs) {
  if (operands.empty()) fail(ErrorCode::invalid_argument, op.name, " needs an operand to know its graph");
  Graph& g = operands[0].graph();
  return g.emit(op, std::move(operands), std::move(attrs))[0];
}

}  // namespace rlx
