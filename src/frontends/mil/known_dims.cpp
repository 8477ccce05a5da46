// See the header.
#include "frontends/mil/known_dims.h"

#include "ir/leaves.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx::mlprogram {
namespace {

constexpr int kDeepest = 64;       // arithmetic on sizes is short
constexpr int64_t kLongest = 256;  // and so are lists of them

std::optional<Dims> known(const Graph& g, Ref r, int depth);

/// Elements of two operands, one by one; one of them may be a scalar.
template <class F>
std::optional<Dims> joined(const Graph& g, const Node& n, int depth, F f) {
  auto a = known(g, n.operands[0], depth), b = known(g, n.operands[1], depth);
  if (!a || !b || a->size() != b->size()) return {};
  Dims out;
  try {
    for (size_t i = 0; i < a->size(); ++i) out.push_back(f((*a)[i], (*b)[i]));
  } catch (const Error&) {  // a quotient that is not exact
    return {};
  }
  return out;
}

std::optional<Dims> known(const Graph& g, Ref r, int depth) {
  const Node& n = g.node(r);
  const Type& type = g.type(r);
  if (depth <= 0 || type.rank() > 1 || !is_static(type.dims)) return {};
  if (!is_integer(type.dtype) || element_count(shape_of(type.dims)) > kLongest) return {};
  --depth;
  if (n.op == &op::constant) {
    const Tensor& t = n.attrs.as<ConstantAttrs>().value;
    Dims out;
    for (size_t i = 0; i < t.element_count(); ++i) out.emplace_back(load_index(t, i));
    return out;
  }
  if (n.op == &op::extent) return Dims{n.attrs.as<ExtentAttrs>().dim};
  if (n.op == &op::convert || n.op == &op::reshape) return known(g, n.operands[0], depth);
  if (n.op == &op::broadcast_in_dim) {
    auto x = known(g, n.operands[0], depth);
    int64_t count = element_count(shape_of(type.dims));
    if (x && x->size() == 1) return Dims(static_cast<size_t>(count), (*x)[0]);
    return x && static_cast<int64_t>(x->size()) == count ? x : std::nullopt;
  }
  if (n.op == &op::concatenate || n.op == &op::stack) {
    Dims all;
    for (Ref operand : n.operands) {
      auto x = known(g, operand, depth);
      if (!x) return {};
      all.insert(all.end(), x->begin(), x->end());
    }
    return all;
  }
  if (n.op == &op::slice) {
    const auto& a = n.attrs.as<SliceAttrs>();
    auto x = known(g, n.operands[0], depth);
    if (!x || a.starts.empty() || !a.starts[0].is_static()) return x && a.starts.empty() ? x : std::nullopt;
    int64_t step = a.strides.empty() ? 1 : a.strides[0], at = a.starts[0].value();
    Dims out;
    for (int64_t i = 0; i < element_count(shape_of(type.dims)); ++i)
      out.push_back((*x)[static_cast<size_t>(at + i * step)]);
    return out;
  }
  if (n.op == &op::take) {
    auto x = known(g, n.operands[0], depth), at = known(g, n.operands[1], depth);
    if (!x || !at) return {};
    Dims out;
    for (const Dim& i : *at) {
      if (!i.is_static() || i.value() < 0 || i.value() >= static_cast<int64_t>(x->size())) return {};
      out.push_back((*x)[static_cast<size_t>(i.value())]);
    }
    return out;
  }
  if (n.op == &op::reverse) {
    auto x = known(g, n.operands[0], depth);
    if (x) std::reverse(x->begin(), x->end());
    return x;
  }
  if (n.op == &op::add) return joined(g, n, depth, [](const Dim& a, const Dim& b) { return a + b; });
  if (n.op == &op::sub) return joined(g, n, depth, [](const Dim& a, const Dim& b) { return a - b; });
  if (n.op == &op::mul) return joined(g, n, depth, [](const Dim& a, const Dim& b) { return a * b; });
  if (n.op == &op::div || n.op == &op::floor_div)
    return joined(g, n, depth, [](const Dim& a, const Dim& b) { return a / b; });
  if (n.op == &op::reduce) {
    const auto& a = n.attrs.as<ReduceAttrs>();
    auto x = known(g, n.operands[0], depth);
    if (!x || type.rank() != 0 || (a.kind != Reduction::prod && a.kind != Reduction::sum)) return {};
    Dim all = a.kind == Reduction::prod ? 1 : 0;
    for (const Dim& d : *x) all = a.kind == Reduction::prod ? all * d : all + d;
    return Dims{all};
  }
  return {};
}

}  // namespace

std::optional<Dims> known_dims(const Graph& g, Ref r) { return known(g, r, kDeepest); }

}  // namespace rlx::mlprogram
