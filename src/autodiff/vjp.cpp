// Reverse mode: record the graph once more, then walk the record backwards.
#include <map>

#include "autodiff/rules.h"
#include "autodiff/transforms.h"
#include "autodiff/widened.h"
#include "ir/rewrite.h"
#include "rlx/ops/elementwise.h"

namespace rlx {

const Transforms kTransforms = {vjp, jvp, batch};

bool has_derivative(DType dtype) { return is_float(dtype) || is_complex(dtype); }
namespace {

Mask differentiable(const std::vector<Type>& types) {
  Mask mask;
  for (const Type& t : types) mask.push_back(has_derivative(t.dtype));
  return mask;
}

/// A node that what we differentiate reaches.
struct Entry {
  const OpDef* op;
  Attrs attrs;
  std::vector<Value> in, out;  // out: the results, then what `save` kept
  size_t results;
  bool wide;
  std::string scope;
};

/// Emits g again and records the nodes that depend on `active` values. An op that has no `vjp` but is made of ops that
/// have one is replaced by them.
struct Recorder {
  Graph& to;
  std::vector<Entry> tape = {};
  std::map<Ref, bool> active = {};

  bool is_active(Value v) const { return active.contains(v.ref()); }

  std::vector<Value> record(const Graph& g, Values inputs) {
    return replay(to, g, inputs, [&](const Site& site) -> std::optional<std::vector<Value>> {
      const Node& node = site.node;
      const OpDef& op = *node.op;
      Values in = site.operands;
      bool reached =
          std::any_of(in.begin(), in.end(), [&](Value v) { return is_active(v); }) &&
          std::any_of(node.types.begin(), node.types.end(), [](const Type& t) { return carries_derivative(t.dtype); });
      if (!reached || !op.differentiable) return std::nullopt;
      if (!op.vjp && op.decompose)
        return with_context(
            [&] { return text_of("differentiating what '", op.name, "' is made of"); },
            [&] {
              return record(
                  trace(types_of(in), [&](Graph& part, Values v) { return decompose(part, op, v, node.attrs); }), in);
            });
      if (!op.vjp)
        fail(ErrorCode::unsupported, "'", op.name, "' has no gradient",
             site.to.scope().empty() ? "" : " (in '" + site.to.scope() + "')",
             "; stop_gradient in front of it says that none is wanted");
      std::vector<Value> out = results_and_kept(to, op, in, node.attrs);
      tape.push_back({&op,
                      node.attrs,
                      {in.begin(), in.end()},
                      out,
                      node.types.size(),
                      computes_widened(op, in, node.attrs),
                      to.scope()});
      out.resize(node.types.size());
      for (const Value& v : out)
        if (has_derivative(v.dtype())) active[v.ref()] = true;
      return out;
    });
  }
};

/// In the values' dtype; floats that are for storage alone have no arithmetic, and are added in f32.
Value sum(Value a, Value b) {
  const DType t = a.dtype();
  if (is_complex(t) || info(t).bits >= 16) return a + b;
  return convert(convert(a, f32) + convert(b, f32), t);
}

/// The cotangents that arrived so far at each value.
struct Cotangents {
  const Recorder& recorder;
  std::map<Ref, Value> sums = {};

  Value of(Value v) const {
    auto found = sums.find(v.ref());
    return found == sums.end() ? Value{} : found->second;
  }
  void add(Value v, Value ct) {
    if (!ct || !recorder.is_active(v)) return;
    if (ct.type() != v.type()) fail(ErrorCode::internal, "a cotangent of ", v.type(), " came as ", ct.type());
    auto [at, fresh] = sums.emplace(v.ref(), ct);
    if (!fresh) at->second = sum(at->second, ct);
  }
};

Graph reverse_mode(const Graph& g, const Mask& wrt, const Mask& given, bool with_outputs) {
  Graph to(g.name());
  std::vector<Value> inputs, seeds;
  for (const Type& t : g.input_types()) inputs.push_back(to.input(text_of("x", inputs.size()), t));
  auto output_types = g.output_types();
  for (size_t i = 0; i < output_types.size(); ++i)
    seeds.push_back(given[i] ? to.input(text_of("ct", i), output_types[i]) : Value{});

  Recorder recorder{to};
  for (size_t i = 0; i < inputs.size(); ++i)
    if (wrt[i] && has_derivative(inputs[i].dtype())) recorder.active[inputs[i].ref()] = true;
  auto outputs = recorder.record(g, inputs);

  Cotangents cts{recorder};
  for (size_t i = 0; i < outputs.size(); ++i) cts.add(outputs[i], seeds[i]);
  for (auto entry = recorder.tape.rbegin(); entry != recorder.tape.rend(); ++entry) {
    std::vector<Value> arrived;
    for (size_t r = 0; r < entry->results; ++r) arrived.push_back(cts.of(entry->out[r]));
    if (std::none_of(arrived.begin(), arrived.end(), [](Value v) { return bool(v); })) continue;
    to.set_scope(entry->scope);
    auto describe = [&] {
      return text_of("differentiating '", entry->op->name, "'",
                     entry->scope.empty() ? "" : " of '" + entry->scope + "'");
    };
    auto d = with_context(describe, [&]() -> std::vector<Value> {
      if (!entry->wide) return cotangents_by_rule(*entry->op, entry->in, entry->out, arrived, entry->attrs);
      std::vector<Value> operands = widened(entry->in), results = widened(entry->out), wide = widened(arrived);
      std::vector<Value> narrow = cotangents_by_rule(*entry->op, operands, results, wide, entry->attrs);
      narrow_to(narrow, entry->in);
      return narrow;
    });
    with_context(describe, [&] {
      for (size_t i = 0; i < d.size(); ++i) cts.add(entry->in.at(i), d[i]);
    });
  }
  to.set_scope("");

  if (with_outputs)
    for (const Value& v : outputs) to.output(v);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (wrt[i]) {
      Value ct = cts.of(inputs[i]);
      to.output(ct ? ct : zeros_like(inputs[i]));
    }
  return prune(to);
}

}  // namespace

Mask differentiable_inputs(const Graph& g) { return differentiable(g.input_types()); }
Mask differentiable_outputs(const Graph& g) { return differentiable(g.output_types()); }

Graph vjp(const Graph& g, const Mask& wrt, const Mask& given) { return reverse_mode(g, wrt, given, false); }
Graph value_and_vjp(const Graph& g, const Mask& wrt, const Mask& given) { return reverse_mode(g, wrt, given, true); }

}  // namespace rlx
