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

/// How amounts are made of types: as numbers, which symbols do not have ...
struct Numbers {
  using Amount = double;
  static double extent(const Dim& d) { return static_cast<double>(d.value()); }
  static double bytes(const Type& t) {
    const Shape shape = shape_of(t.dims);  // fails for a symbol
    return static_cast<double>(byte_count(t.dtype, shape));
  }
  /// `count` elements that are sorted in rows of `extent`.
  static double compares(double count, double extent) {
    return count * std::max(1.0, std::log2(std::max(extent, 1.0)));
  }
  static double rows(double count, double extent) { return extent > 0 ? count / extent : 0; }
  static double size(double amount) { return amount; }
};
/// ... or as polynomials in them.
struct Polynomials {
  using Amount = Dim;
  static Dim extent(const Dim& d) { return d; }
  static Dim bytes(const Type& t) {
    if (is_static(t.dims)) return static_cast<int64_t>(byte_count(t.dtype, shape_of(t.dims)));
    return element_count(t.dims) * Dim(info(t.dtype).block_bytes) / Dim(info(t.dtype).block_elements);
  }
  static Dim compares(const Dim& count, const Dim& extent) {
    const auto in_a_row = extent.is_static() ? static_cast<double>(extent.value()) : 1024.0;
    return count * Dim(std::llround(Numbers::compares(1, in_a_row)));
  }
  static Dim rows(const Dim& count, const Dim& extent) { return extent == Dim(0) ? Dim(0) : count / extent; }
  static double size(const Dim& amount) {
    Bindings numbers;
    amount.for_each_symbol([&](const std::string& symbol) { numbers[symbol] = 1000; });
    return static_cast<double>(amount.bound(numbers).value());
  }
};

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

template <class In>
class Counter {
 public:
  using Amount = typename In::Amount;
  using Work = WorkIn<Amount>;

  Work node(const Graph& g, const Node& node) {
    if (is_leaf(node) || is_renaming(*node.op)) return {};
    std::vector<Type> operands;
    for (Ref r : node.operands) operands.push_back(g.type(r));
    Work work = arithmetic(*node.op, operands, node.types, node.attrs);
    work.bytes = bytes(*node.op, operands, node.types);
    return work;
  }

 private:
  static Amount elements_of(const Type& t) {
    Amount count = 1;
    for (const Dim& d : t.dims) count = count * In::extent(d);
    return count;
  }
  static Amount bytes(const OpDef& op, Types operands, Types results) {
    Amount sum = 0, given = 0;
    for (const Type& t : results) given = given + In::bytes(t);
    for (size_t i = 0; i < operands.size(); ++i)
      sum = sum + (i == 0 && reads_what_it_gives(op) ? given : In::bytes(operands[i]));
    if (&op == &op::dynamic_update_slice) return Amount(2) * In::bytes(operands[1]);  // it is made in place
    return sum + given;
  }

  /// Without bytes. Equal nodes, as the layers of a model have them, are counted once.
  Work arithmetic(const OpDef& op, Types operands, Types results, const Attrs& attrs) {
    std::string key = text_of(op.name, "|", static_cast<const void*>(&op));
    for (const Type& t : operands) key += text_of("|", t);
    key += "|" + std::to_string(hash_of(attrs));
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    const Work work = counted(op, operands, results, attrs);
    known_.emplace(std::move(key), work);
    return work;
  }

  Work counted(const OpDef& op, Types operands, Types results, const Attrs& attrs) {
    Amount given = 0, taken = 0;
    for (const Type& t : results) given = given + elements_of(t);
    for (const Type& t : operands) taken = taken + elements_of(t);
    Work work;
    work.launches = 1;
    if (&op == &op::dot_general) {
      const auto& a = attrs.as<DotAttrs>();
      Amount terms = 1;
      for (int64_t axis : DotAxes(a, operands[0].rank(), operands[1].rank()).lhs_contract)
        terms = terms * In::extent(operands[0].dims[static_cast<size_t>(axis)]);
      work.product_flops = Amount(2) * given * terms;
    } else if (&op == &op::convolution) {
      // Each element of the result has as many terms as the kernel has weights for one output feature.
      const auto& a = attrs.as<ConvAttrs>();
      const auto axis = static_cast<size_t>(a.rhs_layout.empty() ? 0 : a.rhs_layout[0]);
      const Amount features = In::extent(operands[1].dims[axis]);
      work.convolution_flops = In::rows(Amount(2) * given * elements_of(operands[1]), features);
    } else if (&op == &op::if_else) {
      const auto& a = attrs.as<IfAttrs>();
      const Work one = body(*a.then_branch), other = body(*a.else_branch);  // the larger one counts
      const auto size = [](const Work& w) {
        return In::size(w.product_flops + w.convolution_flops + w.attention_flops + w.simple_elements +
                        w.function_elements + w.sort_compares);
      };
      work = size(one) > size(other) ? one : other;
    } else if (&op == &op::while_loop) {
      const auto& a = attrs.as<WhileAttrs>();
      work = body(*a.body);
      work += body(*a.condition);
    } else if (&op == &op::scan) {
      const auto& a = attrs.as<ScanAttrs>();
      work = scaled(body(*a.body), In::extent(a.length));
    } else if (!op.is_primitive()) {
      work = of_decomposition(op, operands, attrs, taken + given);
      work.launches = 1;
      if (&op == &op::attention) {
        work.attention_flops = work.attention_flops + work.product_flops;
        work.product_flops = 0;
      }
    } else if (&op == &op::sort) {
      const auto& a = attrs.as<SortAttrs>();
      const auto axis = static_cast<size_t>(valid_axis(a.axis, operands[0].rank()));
      work.sort_compares = In::compares(given, operands[0].rank() ? In::extent(operands[0].dims[axis]) : Amount(1));
    } else if (op.elementwise && !is_simple(op)) {
      work.function_elements = given;
    } else {
      work.simple_elements = op.elementwise || op.moves_data ? given : taken + given;  // sums, sorts, lookups
    }
    return work;
  }

  Work of_decomposition(const OpDef& op, Types operands, const Attrs& attrs, const Amount& elements) {
    Graph g("decomposition");
    try {
      std::vector<Value> in;
      for (size_t i = 0; i < operands.size(); ++i)
        in.push_back(g.input(text_of("x", i), operands[i].dtype, operands[i].dims));
      for (const Value& v : decompose(g, op, in, attrs)) g.output(v);
      if constexpr (std::is_same_v<Amount, double>) return body(g);  // a size that data decide has no number
    } catch (const Error&) {
      Work work;
      work.simple_elements = elements;
      return work;
    }
    return body(g);
  }

  /// Of all nodes together, without their bytes.
  Work body(const Graph& g) {
    Work sum;
    for (const Node& n : g.nodes()) {
      if (is_leaf(n) || is_renaming(*n.op)) continue;
      std::vector<Type> operands;
      for (Ref r : n.operands) operands.push_back(g.type(r));
      sum += arithmetic(*n.op, operands, n.types, n.attrs);
    }
    return sum;
  }
  static Work scaled(Work work, const Amount& times) {
    for (Amount Work::*amount :
         {&Work::product_flops, &Work::convolution_flops, &Work::attention_flops, &Work::simple_elements,
          &Work::function_elements, &Work::launches, &Work::sort_compares})
      work.*amount = work.*amount * times;
    return work;
  }

  std::map<std::string, Work> known_;
};

template <class In>
std::vector<WorkIn<typename In::Amount>> counted_work(const Graph& g) {
  Counter<In> counter;
  std::vector<WorkIn<typename In::Amount>> all;
  for (const Node& n : g.nodes()) all.push_back(counter.node(g, n));
  return all;
}

}  // namespace

template <class Amount>
WorkIn<Amount>& WorkIn<Amount>::operator+=(const WorkIn& other) {
  for (Amount WorkIn::*amount :
       {&WorkIn::product_flops, &WorkIn::convolution_flops, &WorkIn::attention_flops, &WorkIn::simple_elements,
        &WorkIn::function_elements, &WorkIn::sort_compares, &WorkIn::bytes, &WorkIn::launches})
    this->*amount = this->*amount + other.*amount;
  return *this;
}
template struct WorkIn<double>;
template struct WorkIn<Dim>;

std::vector<NodeWork> work_of(const Graph& g) { return counted_work<Numbers>(g); }
std::vector<SymbolicWork> symbolic_work_of(const Graph& g) { return counted_work<Polynomials>(g); }

}  // namespace rlx
