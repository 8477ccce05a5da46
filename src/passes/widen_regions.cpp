// See the header. A body is emitted again: each value that was of low precision stands there in f32.
#include "passes/widen_regions.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

bool is_narrow(DType t) { return t == f16 || t == bf16; }

/// A low-precision constant holds its values in f32 too: nothing is lost.
Tensor widened(const Tensor& t) {
  Tensor wide(f32, t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) store<double>(wide, i, load<double>(t, i));
  return wide;
}

class Widener {
 public:
  explicit Widener(const Graph& body) : body_(body), to_(body.name()), values_(body.nodes().size()) {}

  Graph run() {
    for (size_t n = 0; n < body_.nodes().size(); ++n) values_[n] = emitted(body_.nodes()[n]);
    for (const Output& o : body_.outputs()) {
      Value v = value(o.ref);
      to_.output(is_narrow(body_.type(o.ref).dtype) ? convert(v, body_.type(o.ref).dtype) : v, o.name);
    }
    return std::move(to_);
  }

 private:
  std::vector<Value> emitted(const Node& node) {
    if (node.op == &op::input) return {to_.input(node.name, node.types[0])};
    if (node.op == &op::constant) {
      const Tensor& t = node.attrs.as<ConstantAttrs>().value;
      return {to_.constant(is_narrow(t.dtype()) ? widened(t) : t)};
    }
    if (node.op == &op::broadcast_in_dim) {  // of an input or a constant; backends read it without a copy
      Ref from = node.operands[0];
      Value source = is_narrow(body_.type(from).dtype) ? as_it_came(from) : value(from);
      return to_.emit(*node.op, {source}, node.attrs);
    }
    std::vector<Value> operands;
    for (Ref r : node.operands) operands.push_back(value(r));
    // To f16 or bf16 no more, and from there the value is wide already.
    if (node.op == &op::convert && (is_narrow(node.types[0].dtype) || node.types[0].dtype == f32))
      return {convert(operands[0], f32)};
    return to_.emit(*node.op, std::move(operands), node.attrs);
  }
  Value as_it_came(Ref r) { return values_[size_t(r.node)][size_t(r.result)]; }
  /// In f32 if it was narrow.
  Value value(Ref r) {
    Value& v = values_[size_t(r.node)][size_t(r.result)];
    if (!is_narrow(v.dtype())) return v;
    auto [found, is_new] = wide_.try_emplace(r);
    if (is_new) found->second = convert(v, f32);
    return found->second;
  }

  const Graph& body_;
  Graph to_;
  std::vector<std::vector<Value>> values_;  // by node of the old body
  std::map<Ref, Value> wide_;               // of inputs, and of broadcasts of them
};

bool has_narrow_values(const Graph& body) {
  return std::any_of(body.nodes().begin(), body.nodes().end(), [](const Node& node) {
    return std::any_of(node.types.begin(), node.types.end(), [](const Type& t) { return is_narrow(t.dtype); });
  });
}

/// A result that is computed there, as backends want it.
bool is_computed(const Graph& body, const Output& o) {
  const OpDef* op = body.node(o.ref).op;
  return op != &op::input && op != &op::constant && op != &op::broadcast_in_dim;
}

}  // namespace

Graph widen_regions(const Graph& g) {
  return rewritten(g, [](const Site& site) -> std::optional<std::vector<Value>> {
    if (site.node.op != &op::elementwise_region) return std::nullopt;
    const Graph& body = *site.node.attrs.as<ElementwiseRegionAttrs>().body;
    if (!has_narrow_values(body)) return std::nullopt;
    Graph wide = Widener(body).run();
    // Of a region that only rounds an f32 operand nothing is left that a region could do.
    for (const Output& o : wide.outputs())
      if (!is_computed(wide, o)) return std::nullopt;
    return elementwise_region({site.operands.begin(), site.operands.end()}, std::move(wide));
  });
}

}  // namespace rlx
