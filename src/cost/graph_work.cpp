// See the header.
#include "cost/graph_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops.h"
#include "rlx/ops/control.h"

namespace rlx {
namespace {

double elements_of(const Type& t) {
  double count = 1;
  for (const Dim& d : t.dims) count *= static_cast<double>(d.value());
  return count;
}
double bytes_of(const Type& t) {
  const Shape shape = shape_of(t.dims);  // fails for a symbol
  return static_cast<double>(byte_count(t.dtype, shape));
}

/// Ops whose result is their operand under another name, or with other strides: nothing is moved for most of them.
bool is_renaming(const OpDef& op) {
  static const std::set<const OpDef*> all = {&op::reshape,          &op::transpose,     &op::slice,
                                             &op::broadcast_in_dim, &op::stop_gradient, &op::optimization_barrier};
  return all.contains(&op);
}
/// Element-wise ops that take one instruction, or a few.
bool is_simple(const OpDef& op) {
  static const std::set<const OpDef*> all = {
      &op::abs,        &op::neg,         &op::sign,        &op::add,       &op::sub,     &op::mul,
      &op::maximum,    &op::minimum,     &op::compare,     &op::select,    &op::convert, &op::bitwise_and,
      &op::bitwise_or, &op::bitwise_xor, &op::bitwise_not, &op::is_finite, &op::bitcast, &op::floor,
      &op::ceil,       &op::div,         &op::sqrt,        &op::rsqrt,     &op::square,  &op::reciprocal,
      &op::clamp,      &op::fma};
  return op.moves_data || all.contains(&op);
}

/// Ops that read as much of their first operand as their result has: lookups.
bool reads_what_it_gives(const OpDef& op) {
  return &op == &op::gather || &op == &op::take || &op == &op::take_along_axis || &op == &op::dynamic_slice ||
         &op == &op::gather_nd;
}

class Counter {
 public:
  NodeWork node(const Graph& g, const Node& node) {
    if (is_leaf(node) || is_renaming(*node.op)) return {};
    std::vector<Type> operands;
    for (Ref r : node.operands) operands.push_back(g.type(r));
    NodeWork work = arithmetic(*node.op, operands, node.types, node.attrs);
    work.bytes = bytes(*node.op, operands, node.types);
    return work;
  }

 private:
  static double bytes(const OpDef& op, Types operands, Types results) {
    double sum = 0, given = 0;
    for (const Type& t : results) given += bytes_of(t);
    for (size_t i = 0; i < operands.size(); ++i)
      sum += i == 0 && reads_what_it_gives(op) ? given : bytes_of(operands[i]);
    if (&op == &op::dynamic_update_slice) return 2 * bytes_of(operands[1]);  // it is made in place
    return sum + given;
  }

  /// Without bytes. Equal nodes, as the layers of a model have them, are counted once.
  NodeWork arithmetic(const OpDef& op, Types operands, Types results, const Attrs& attrs) {
    std::string key = text_of(op.name, "|", static_cast<const void*>(&op));
    for (const Type& t : operands) key += text_of("|", t);
    key += "|" + std::to_string(hash_of(attrs));
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    const NodeWork work = counted(op, operands, results, attrs);
    known_.emplace(std::move(key), work);
    return work;
  }

  NodeWork counted(const OpDef& op, Types operands, Types results, const Attrs& attrs) {
    double given = 0, taken = 0;
    for (const Type& t : results) given += elements_of(t);
    for (const Type& t : operands) taken += elements_of(t);
    NodeWork work;
    work.launches = 1;
    if (&op == &op::dot_general) {
      const auto& a = attrs.as<DotAttrs>();
      double terms = 1;
      for (int64_t axis : DotAxes(a, operands[0].rank(), operands[1].rank()).lhs_contract)
        terms *= static_cast<double>(operands[0].dims[static_cast<size_t>(axis)].value());
      work.product_flops = 2 * given * terms;
    } else if (&op == &op::convolution) {
      // Each element of the result has as many terms as the kernel has weights for one output feature.
      const auto& a = attrs.as<ConvAttrs>();
      const auto axis = static_cast<size_t>(a.rhs_layout.empty() ? 0 : a.rhs_layout[0]);
      const auto features = static_cast<double>(operands[1].dims[axis].value());
      work.convolution_flops = features > 0 ? 2 * given * elements_of(operands[1]) / features : 0;
    } else if (&op == &op::if_else) {
      const auto& a = attrs.as<IfAttrs>();
      const NodeWork one = body(*a.then_branch), other = body(*a.else_branch);  // the larger one counts
      const auto size = [](const NodeWork& w) {
        return w.product_flops + w.convolution_flops + w.attention_flops + w.simple_elements + w.function_elements +
               w.sort_compares;
      };
      work = size(one) > size(other) ? one : other;
    } else if (&op == &op::while_loop) {
      const auto& a = attrs.as<WhileAttrs>();
      work = body(*a.body);
      work += body(*a.condition);
    } else if (&op == &op::scan) {
      const auto& a = attrs.as<ScanAttrs>();
      work = scaled(body(*a.body), static_cast<double>(a.length.value()));
    } else if (!op.is_primitive()) {
      work = of_decomposition(op, operands, attrs, taken + given);
      work.launches = 1;
      if (&op == &op::attention) work.attention_flops += std::exchange(work.product_flops, 0);
    } else if (&op == &op::sort) {
      const auto& a = attrs.as<SortAttrs>();
      const auto axis = static_cast<size_t>(valid_axis(a.axis, operands[0].rank()));
      const auto extent = static_cast<double>(operands[0].rank() ? operands[0].dims[axis].value() : 1);
      work.sort_compares = given * std::max(1.0, std::log2(std::max(extent, 1.0)));
    } else if (op.elementwise && !is_simple(op)) {
      work.function_elements = given;
    } else {
      work.simple_elements = op.elementwise || op.moves_data ? given : taken + given;  // sums, sorts, lookups
    }
    return work;
  }

  NodeWork of_decomposition(const OpDef& op, Types operands, const Attrs& attrs, double elements) {
    NodeWork work;
    try {
      Graph g("decomposition");
      std::vector<Value> in;
      for (size_t i = 0; i < operands.size(); ++i)
        in.push_back(g.input(text_of("x", i), operands[i].dtype, operands[i].dims));
      for (const Value& v : decompose(g, op, in, attrs)) g.output(v);
      work = body(g);
    } catch (const Error&) {
      work.simple_elements = elements;
    }
    return work;
  }

  /// Of all nodes together, without their bytes.
  NodeWork body(const Graph& g) {
    NodeWork sum;
    for (const Node& n : g.nodes()) {
      if (is_leaf(n) || is_renaming(*n.op)) continue;
      std::vector<Type> operands;
      for (Ref r : n.operands) operands.push_back(g.type(r));
      sum += arithmetic(*n.op, operands, n.types, n.attrs);
    }
    return sum;
  }
  static NodeWork scaled(NodeWork work, double times) {
    work.product_flops *= times, work.convolution_flops *= times, work.attention_flops *= times;
    work.simple_elements *= times, work.function_elements *= times, work.launches *= times;
    work.sort_compares *= times;
    return work;
  }

  std::map<std::string, NodeWork> known_;
};

}  // namespace

NodeWork& NodeWork::operator+=(const NodeWork& other) {
  product_flops += other.product_flops, convolution_flops += other.convolution_flops;
  attention_flops += other.attention_flops;
  simple_elements += other.simple_elements, function_elements += other.function_elements;
  sort_compares += other.sort_compares;
  bytes += other.bytes, launches += other.launches;
  return *this;
}

std::vector<NodeWork> work_of(const Graph& g) {
  Counter counter;
  std::vector<NodeWork> all;
  for (const Node& n : g.nodes()) all.push_back(counter.node(g, n));
  return all;
}

}  // namespace rlx
