// Forward mode: tangents travel with the values.
#include <map>

#include "autodiff/rules.h"
#include "autodiff/transforms.h"
#include "autodiff/widened.h"
#include "ir/rewrite.h"
#include "rlx/ops/elementwise.h"

namespace rlx {
namespace {

/// `op.vjp` is linear in the cotangents: transposing it, by reverse mode over the rule's own graph, takes tangents of
/// the operands to tangents of the results. `out` holds the results, then what `save` kept.
std::vector<Value> transposed_vjp(Graph& to, const OpDef& op, const Attrs& attrs, Values in, Values out, size_t results,
                                  Values tangents) {
  std::vector<Value> args(in.begin(), in.end()), seeds;
  args.insert(args.end(), out.begin(), out.end());
  Mask wrt(args.size()), moving;
  for (size_t r = 0; r < results; ++r) {
    moving.push_back(has_derivative(out[r].dtype()));
    if (moving[r]) args.push_back(zeros_like(out[r]));  // the point does not matter for a linear function
  }
  wrt.resize(args.size(), true);
  Graph rule = trace(types_of(args), [&](Values v) {
    std::vector<Value> cts;
    for (size_t r = 0, next = in.size() + out.size(); r < results; ++r) cts.push_back(moving[r] ? v[next++] : Value{});
    auto d = cotangents_by_rule(op, v.first(in.size()), v.subspan(in.size(), out.size()), cts, attrs);
    std::vector<Value> wanted;
    for (size_t i = 0; i < in.size() && i < d.size(); ++i)
      if (tangents[i] && d[i]) wanted.push_back(d[i]), seeds.push_back(tangents[i]);
    return wanted;
  });
  std::vector<Value> all(results);
  if (seeds.empty()) return all;
  args.insert(args.end(), seeds.begin(), seeds.end());
  auto some = splice(to, vjp(rule, wrt, Mask(seeds.size(), true)), args);
  for (size_t r = 0, next = 0; r < results; ++r)
    if (moving[r]) all[r] = some[next++];
  return all;
}

struct Pusher {
  Graph& to;
  std::map<Ref, Value> tangents = {};

  Value tangent(Value v) const {
    auto found = tangents.find(v.ref());
    return found == tangents.end() ? Value{} : found->second;
  }

  std::vector<Value> push(const Graph& g, Values inputs) {
    return replay(to, g, inputs, [&](const Site& site) -> std::optional<std::vector<Value>> {
      const Node& node = site.node;
      const OpDef& op = *node.op;
      Values in = site.operands;
      std::vector<Value> moving;
      for (const Value& v : in) moving.push_back(tangent(v));
      bool reached =
          std::any_of(moving.begin(), moving.end(), [](Value t) { return bool(t); }) &&
          std::any_of(node.types.begin(), node.types.end(), [](const Type& t) { return carries_derivative(t.dtype); });
      if (!reached || !op.differentiable) return std::nullopt;
      return with_context([&] { return text_of("differentiating '", op.name, "'"); },
                          [&] { return pushed(node, in, moving); });
    });
  }

 private:
  std::vector<Value> pushed(const Node& node, Values in, Values moving) {
    const OpDef& op = *node.op;
    if (op.jvp) {
      std::vector<Value> out = tangents_by_rule(op, in, moving, node);
      for (size_t r = 0, next = node.types.size(); r < node.types.size(); ++r)
        if (has_derivative(node.types[r].dtype)) {
          if (Value t = out[next++]) tangents[out[r].ref()] = t;
        }
      out.resize(node.types.size());
      return out;
    }
    if (!op.vjp && op.decompose)
      return push(trace(types_of(in), [&](Graph& part, Values v) { return decompose(part, op, v, node.attrs); }), in);
    if (!op.vjp)
      fail(ErrorCode::unsupported, "'", op.name, "' has no gradient",
           to.scope().empty() ? "" : " (in '" + to.scope() + "')",
           "; stop_gradient in front of it says that none is wanted");
    std::vector<Value> out = results_and_kept(to, op, in, node.attrs);
    size_t results = node.types.size();
    std::vector<Value> d;
    if (computes_widened(op, in, node.attrs)) {
      auto operands = widened(in), kept = widened(out), wide = widened(moving);
      d = transposed_vjp(to, op, node.attrs, operands, kept, results, wide);
      narrow_to(d, Values(out).first(results));
    } else {
      d = transposed_vjp(to, op, node.attrs, in, out, results, moving);
    }
    out.resize(results);
    for (size_t r = 0; r < results; ++r)
      if (d[r]) tangents[out[r].ref()] = d[r];
    return out;
  }
};

}  // namespace

Graph jvp(const Graph& g, const Mask& active) {
  Graph to(g.name());
  std::vector<Value> inputs;
  for (const Type& t : g.input_types()) inputs.push_back(to.input(text_of("x", inputs.size()), t));
  Pusher pusher{to};
  for (size_t i = 0; i < active.size(); ++i)
    if (active[i]) pusher.tangents[inputs[i].ref()] = to.input(text_of("t", i), inputs[i].type());
  auto outputs = pusher.push(g, inputs);
  for (const Value& v : outputs) to.output(v);
  for (const Value& v : outputs)
    if (has_derivative(v.dtype())) {
      Value t = pusher.tangent(v);
      to.output(t ? t : zeros_like(v));
    }
  return prune(to);
}

}  // namespace rlx
