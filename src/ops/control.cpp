// Control flow. The bodies are closed sub-graphs in the attributes; what they capture is an operand.
#include "rlx/ops/control.h"

#include "ops/elementwise_rules.h"

namespace rlx {

std::vector<Value> if_else(Value condition, std::vector<Value> captured, Graph then_branch, Graph else_branch) {
  captured.insert(captured.begin(), condition);
  return condition.graph().emit(op::if_else, std::move(captured),
                                IfAttrs{Subgraph(std::move(then_branch)), Subgraph(std::move(else_branch))});
}
std::vector<Value> optimization_barrier(std::vector<Value> xs) {
  if (xs.empty()) return xs;
  Graph& g = xs[0].graph();
  return g.emit(op::optimization_barrier, std::move(xs));
}

OpDef define_if_else() {
  return define<IfAttrs>({
      .name = "if_else",
      .doc = "what `then_branch` makes of the captured operands where the condition holds, else what `else_branch` "
             "does; the other "
             "branch does not run",
      .operands = {"condition", "captured..."},
      .infer =
          [](Types in, const IfAttrs& a) {
            if (in[0] != Type{boolean, {}})
              fail(ErrorCode::shape_mismatch, "the condition must be bool[], got ", in[0]);
            std::vector<Type> captured(in.begin() + 1, in.end());
            for (const Subgraph* branch : {&a.then_branch, &a.else_branch})
              if ((*branch)->input_types() != captured) {
                std::ostringstream out;
                print(out << "a branch takes ", (*branch)->input_types());
                print(out << ", but is handed ", captured);
                fail(ErrorCode::shape_mismatch, out.str());
              }
            if (a.then_branch->output_types() != a.else_branch->output_types()) {
              std::ostringstream out;
              print(out << "the branches differ in their results: ", a.then_branch->output_types());
              print(out << " and ", a.else_branch->output_types());
              fail(ErrorCode::shape_mismatch, out.str());
            }
            return Many<Type>(a.then_branch->output_types());
          },
      .reference =
          [](Tensors in, const IfAttrs& a, const Run& run) {
            return run(load<uint64_t>(in[0], 0) ? *a.then_branch : *a.else_branch, in.subspan(1));
          },
      .samples =
          [] {
            std::vector<Type> types = {{f64, {3}}, {f64, {3}}};
            Graph left = trace(types, [](Values v) { return std::vector{v[0] + v[1], exp(v[0])}; });
            Graph right = trace(types, [](Values v) { return std::vector{v[0] * v[1], v[1]}; });
            return std::vector<Sample>{{.dims = {{}, {3}, {3}}, .dtypes = {boolean}, .attrs = IfAttrs{left, right}}};
          },
  });
}

OpDef define_optimization_barrier() {
  return define<>({
      .name = "optimization_barrier",
      .doc = "the operands, unchanged; no pass moves, merges or removes anything across it",
      .operands = {"xs..."},
      .moves_data = true,
      .infer = [](Types in) { return Many<Type>(in.begin(), in.end()); },
      .reference = [](Tensors in) { return Many<Tensor>(in.begin(), in.end()); },
      .samples = {{.dims = {{3}, {2, 2}}}},
  });
}

}  // namespace rlx
