// Control flow without loops: branches, calls, functions with derivatives of their own, barriers. Every rule here
// transforms the bodies by `Transforms` and emits the same op, or a cousin, around them.
#include "rlx/ops/control.h"

#include "ops/control/subgraph_rules.h"

namespace rlx {

std::vector<Value> if_else(Value condition, std::vector<Value> captured, Graph then_branch, Graph else_branch) {
  captured.insert(captured.begin(), condition);
  return condition.graph().emit(op::if_else, std::move(captured),
                                IfAttrs{Subgraph(std::move(then_branch)), Subgraph(std::move(else_branch))});
}
static std::vector<Value> emit_with(const OpDef& op, std::vector<Value> operands, Attrs attrs) {
  if (operands.empty()) fail(ErrorCode::invalid_argument, op.name, " needs an operand to know its graph");
  Graph& g = operands[0].graph();
  return g.emit(op, std::move(operands), std::move(attrs));
}
std::vector<Value> call(std::vector<Value> operands, Graph body) {
  return emit_with(op::call, std::move(operands), CallAttrs{Subgraph(std::move(body))});
}
std::vector<Value> remat(std::vector<Value> operands, Graph body) {
  return emit_with(op::remat, std::move(operands), CallAttrs{Subgraph(std::move(body))});
}
std::vector<Value> custom_fn(std::vector<Value> operands, CustomFnAttrs attrs) {
  return emit_with(op::custom_fn, std::move(operands), std::move(attrs));
}
std::vector<Value> optimization_barrier(std::vector<Value> xs) {
  if (xs.empty()) return xs;
  return emit_with(op::optimization_barrier, std::move(xs), {});
}

OpDef define_if_else() {
  return define<IfAttrs>({
      .name = "if_else",
      .doc = "what `then_branch` makes of the captured operands where the condition holds, else what `else_branch` "
             "does; the other branch does not run",
      .source = "StableHLO specification, if",
      .operands = {"condition", "captured..."},
      .covers = {"If"},
      .infer =
          [](Types in, const IfAttrs& a) {
            if (in[0] != Type{boolean, {}})
              fail(ErrorCode::shape_mismatch, "the condition must be bool[], got ", in[0]);
            const Graph &on_true = required(a.then_branch, "then_branch"),
                        &on_false = required(a.else_branch, "else_branch");
            require_types("then_branch's input", in.subspan(1), on_true.input_types());
            require_types("else_branch's input", in.subspan(1), on_false.input_types());
            require_types("else_branch's result", on_true.output_types(), on_false.output_types());
            return Many<Type>(on_true.output_types());
          },
      .reference =
          [](Tensors in, const IfAttrs& a, const Run& run) {
            return run(load<uint64_t>(in[0], 0) ? *a.then_branch : *a.else_branch, in.subspan(1));
          },
      .vjp =
          [](Values in, Values, Values cts, const IfAttrs& a, const Transforms& t) {
            Mask wrt = floats(in.subspan(1)), given = mask_of(cts);
            auto result = if_else(in[0], joined(in.subspan(1), present(cts)), t.vjp(*a.then_branch, wrt, given),
                                  t.vjp(*a.else_branch, wrt, given));
            wrt.insert(wrt.begin(), false);
            return spread(result, wrt);
          },
      .jvp =
          [](Values in, Values tangents, const IfAttrs& a, const Transforms& t) {
            Mask active = mask_of(tangents.subspan(1));
            return Many<Value>(if_else(in[0], joined(in.subspan(1), present(tangents)), t.jvp(*a.then_branch, active),
                                       t.jvp(*a.else_branch, active)));
          },
      .batch = [](Values in, const Mask& batched, const IfAttrs& a, const Transforms& t) -> Many<Value> {
        Mask captured(batched.begin() + 1, batched.end());
        Dim size = batch_size(in, batched);
        Graph then_branch = t.batch(*a.then_branch, captured, size),
              else_branch = t.batch(*a.else_branch, captured, size);
        if (!batched[0]) return if_else(in[0], {in.begin() + 1, in.end()}, then_branch, else_branch);
        // A condition per lane: both branches run, and each lane takes its own.
        Graph& g = in[0].graph();
        auto on_true = inlined(g, then_branch, in.subspan(1)), on_false = inlined(g, else_branch, in.subspan(1));
        for (size_t i = 0; i < on_true.size(); ++i) on_true[i] = lanes_where(in[0], on_true[i], on_false[i]);
        return on_true;
      },
      .samples =
          [] {
            std::vector<Type> types = {{f64, {3}}, {f64, {3}}};
            Graph left = trace(types, [](Values v) { return std::vector{v[0] + v[1], exp(v[0])}; });
            Graph right = trace(types, [](Values v) { return std::vector{v[0] * v[1], v[1]}; });
            auto one = [](const Type& type) {
              std::vector<Type> in = {type};
              return IfAttrs{trace(in, [](Values v) { return v[0] * 2.0; }), trace(in, [](Values v) { return -v[0]; })};
            };
            return std::vector<Sample>{{.dims = {{}, {3}, {3}}, .dtypes = {boolean}, .attrs = IfAttrs{left, right}},
                                       {.dims = {{}, {}}, .dtypes = {boolean}, .attrs = one({f64, {}})},
                                       {.dims = {{}, {0, 2}}, .dtypes = {boolean}, .attrs = one({f64, {0, 2}})},
                                       {.dims = {{}, {5}}, .dtypes = {boolean, bf16}, .attrs = one({bf16, {5}})}};
          },
  });
}

namespace {

OpSpec<CallAttrs> call_spec(std::string_view name, std::string_view doc) {
  return {
      .name = name,
      .doc = doc,
      .operands = {"operands..."},
      .infer =
          [](Types in, const CallAttrs& a) {
            require_types("body's input", in, required(a.body, "body").input_types());
            return Many<Type>(a.body->output_types());
          },
      .decompose = [](Graph& g, Values in, const CallAttrs& a) { return Many<Value>(inlined(g, *a.body, in)); },
      .samples =
          [] {
            Graph body = trace(std::vector<Type>{{f64, {3}}, {f64, {2, 3}}}, [](Values v) {
              return std::vector{sin(v[0]) * v[1], exp(v[0])};
            });
            Graph narrow = trace(std::vector<Type>{{f16, {5}}, {i32, {}}}, [](Values v) {
              return std::vector{exp(v[0]) * v[0], v[1] + 1.0};
            });
            Graph square = trace(std::vector<Type>{{f64, {}}}, [](Values v) { return v[0] * v[0]; });
            Graph nothing = trace(std::vector<Type>{{f64, {0, 3}}}, [](Values v) { return tanh(v[0]); });
            return std::vector<Sample>{{.dims = {{3}, {2, 3}}, .attrs = CallAttrs{body}},
                                       {.dims = {{5}, {}}, .dtypes = {f16, i32}, .attrs = CallAttrs{narrow}},
                                       {.dims = {{}}, .attrs = CallAttrs{square}},
                                       {.dims = {{0, 3}}, .attrs = CallAttrs{nothing}}};
          },
  };
}

}  // namespace

OpDef define_call() { return define(call_spec("call", "the results of `body` on the operands")); }
OpDef define_remat() {
  auto spec = call_spec("remat", "the results of `body` on the operands; reverse mode computes what is inside again");
  spec.source = "Griewank, Walther, ACM TOMS 26 (2000)";
  // The barrier keeps the second computation apart from the first, with which it would be merged.
  spec.vjp = [](Values in, Values, Values cts, const CallAttrs& a, const Transforms& t) {
    Mask wrt = floats(in);
    auto held = optimization_barrier(joined(in, present(cts)));
    return spread(inlined(in[0].graph(), t.vjp(*a.body, wrt, mask_of(cts)), held), wrt);
  };
  spec.batch = [](Values in, const Mask& batched, const CallAttrs& a, const Transforms& t) {
    return Many<Value>(remat({in.begin(), in.end()}, t.batch(*a.body, batched, batch_size(in, batched))));
  };
  return define(std::move(spec));
}

OpDef define_custom_fn() {
  return define<CustomFnAttrs>({
      .name = "custom_fn",
      .doc = "`forward`, with derivatives given by its author",
      .operands = {"inputs..."},
      .covers = {"CustomFn", "Custom"},  // Custom with kernels of its own is an OpDef from outside: rlx/op_def.h
      .infer =
          [](Types in, const CustomFnAttrs& a) {
            std::vector<Type> inputs(in.begin(), in.end()), outputs = required(a.forward, "forward").output_types();
            auto of_floats = [](const std::vector<Type>& all) {
              std::vector<Type> some;
              for (const Type& t : all)
                if (is_float(t.dtype) || is_complex(t.dtype)) some.push_back(t);
              return some;
            };
            require_types("forward's input", in, a.forward->input_types());
            if (!a.backward && !a.tangent)
              fail(ErrorCode::invalid_argument,
                   "custom_fn needs a `backward` or a `tangent`; use `call` without either");
            if (a.backward) {
              require_types("backward's input", joined(inputs, outputs, of_floats(outputs)), a.backward->input_types());
              require_types("backward's result", of_floats(inputs), a.backward->output_types());
            }
            if (a.tangent) {
              require_types("tangent's input", joined(inputs, of_floats(inputs)), a.tangent->input_types());
              require_types("tangent's result", of_floats(outputs), a.tangent->output_types());
            }
            return Many<Type>(outputs);
          },
      .decompose = [](Graph& g, Values in, const CustomFnAttrs& a) { return Many<Value>(inlined(g, *a.forward, in)); },
      .vjp =
          [](Values in, Values out, Values cts, const CustomFnAttrs& a, const Transforms& t) {
            Graph& g = in[0].graph();
            Mask wrt = floats(in), moving = floats(out);
            std::vector<Value> all;
            for (size_t i = 0; i < cts.size(); ++i)
              if (moving[i]) all.push_back(or_zero(cts[i], out[i]));
            if (a.backward) return spread(inlined(g, *a.backward, joined(in, out, all)), wrt);
            // `tangent` is linear in the tangents: its transpose, taken at zero, maps cotangents back.
            std::vector<Value> zero;
            for (const Value& v : where(in, wrt)) zero.push_back(zeros_like(v));
            Mask tangents = joined(Mask(in.size(), false), Mask(zero.size(), true));
            return spread(inlined(g, t.vjp(*a.tangent, tangents, Mask(all.size(), true)), joined(in, zero, all)), wrt);
          },
      .jvp =
          [](Values in, Values tangents, const CustomFnAttrs& a, const Transforms& t) {
            Graph& g = in[0].graph();
            Mask moving = floats(in);
            auto out = g.emit(op::custom_fn, {in.begin(), in.end()}, a);
            std::vector<Value> all;
            for (size_t i = 0; i < in.size(); ++i)
              if (moving[i]) all.push_back(or_zero(tangents[i], in[i]));
            if (a.tangent) return Many<Value>(joined(out, inlined(g, *a.tangent, joined(in, all))));
            std::vector<Value> zero;
            for (const Value& v : where(out, floats(out))) zero.push_back(zeros_like(v));
            Mask cts = joined(Mask(in.size() + out.size(), false), Mask(zero.size(), true));
            Graph transposed = t.vjp(*a.backward, cts, Mask(all.size(), true));
            return Many<Value>(joined(out, inlined(g, transposed, joined(in, out, zero, all))));
          },
      // All operands batched: a cotangent per lane belongs to each. The decomposition would lose the derivatives.
      .batch =
          [](Values in, const Mask& batched, const CustomFnAttrs& a, const Transforms& t) {
            Dim size = batch_size(in, batched);
            auto wide = [&](const Subgraph& g) {
              return g ? Subgraph(t.batch(*g, Mask(g->inputs().size(), true), size)) : Subgraph();
            };
            return Many<Value>(
                custom_fn(all_batched(in, batched), {wide(a.forward), wide(a.backward), wide(a.tangent)}));
          },
      .samples =
          [] {
            std::vector<Type> in = {{f64, {3}}}, back = {in[0], in[0], in[0]}, forth = {in[0], in[0]};
            Graph forward = trace(in, [](Values v) { return exp(v[0]); });
            Graph backward = trace(back, [](Values v) { return v[1] * v[2]; });
            Graph tangent = trace(forth, [](Values v) { return exp(v[0]) * v[1]; });
            Graph narrow = trace(std::vector<Type>{{f16, {1, 5}}}, [](Values v) { return v[0] * v[0]; });
            Graph pulled = trace(std::vector<Type>(3, {f16, {1, 5}}), [](Values v) { return v[0] * v[2] * 2.0; });
            return std::vector<Sample>{{.dims = {{3}}, .attrs = CustomFnAttrs{forward, backward, {}}},
                                       {.dims = {{3}}, .attrs = CustomFnAttrs{forward, {}, tangent}},
                                       {.dims = {{3}}, .attrs = CustomFnAttrs{forward, backward, tangent}},
                                       {.dims = {{1, 5}}, .dtypes = {f16}, .attrs = CustomFnAttrs{narrow, pulled, {}}}};
          },
  });
}

OpDef define_optimization_barrier() {
  return define<>({
      .name = "optimization_barrier",
      .doc = "the operands, unchanged; no pass moves, merges or removes anything across it",
      .source = "StableHLO specification, optimization_barrier",
      .operands = {"xs..."},
      .moves_data = true,
      .infer = [](Types in) { return Many<Type>(in.begin(), in.end()); },
      .reference = [](Tensors in) { return Many<Tensor>(in.begin(), in.end()); },
      .vjp =
          [](Values, Values, Values cts) {
            auto held = optimization_barrier(present(cts));
            return spread(held, mask_of(cts));
          },
      .batch = [](Values in, const Mask& batched,
                  const NoAttrs&) { return Many<Value>(optimization_barrier(all_batched(in, batched))); },
      .samples = {{.dims = {{3}, {2, 2}}},
                  {.dims = {{}}},
                  {.dims = {{0, 2}, {1}}, .dtypes = {f64, i32}},
                  {.dims = {{5}, {}}, .dtypes = {f16, boolean}}},
  });
}

}  // namespace rlx
