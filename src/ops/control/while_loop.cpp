// `while_loop`. With `max_trips` reverse mode runs it as a scan of an if_else, whose carries are kept; without, there
// is forward mode only.
#include "ops/control/scan_rules.h"

namespace rlx {

std::vector<Value> while_loop(std::vector<Value> operands, WhileAttrs attrs) {
  if (operands.empty()) fail(ErrorCode::invalid_argument, "while_loop needs an operand to know its graph");
  Graph& g = operands[0].graph();
  return g.emit(op::while_loop, std::move(operands), std::move(attrs));
}

namespace {

/// An if_else, not a select: a trip that does not happen must not divide by zero either.
ScanAttrs as_scan(const WhileAttrs& a) {
  if (!a.max_trips)
    fail(ErrorCode::unsupported, "a loop of unknown length has no reverse mode; give it max_trips, or use scan");
  auto n = static_cast<size_t>(a.carries);
  auto types = a.body->input_types();
  Graph stay = trace(types, [&](Values v) { return std::vector<Value>(v.begin(), v.begin() + std::ptrdiff_t(n)); });
  Graph step = trace(types, [&](Graph& b, Values v) {
    return if_else(inlined(b, *a.condition, v)[0], {v.begin(), v.end()}, *a.body, stay);
  });
  return {.carries = a.carries, .xs = 0, .length = *a.max_trips, .reverse = false, .body = step};
}

}  // namespace

OpDef define_while_loop() {
  return define<WhileAttrs>({
      .name = "while_loop",
      .doc = "`body` applied to the carries while `condition` holds; with `max_trips`, at most so often",
      .source = "StableHLO specification, while",
      .operands = {"operands..."},
      .covers = {"While"},
      .infer = [](Types in, const WhileAttrs& a) -> Many<Type> {
        if (a.carries < 1 || in.size() < static_cast<size_t>(a.carries))
          fail(ErrorCode::invalid_argument, "a loop with ", a.carries, " carries got ", in.size(),
               " operands; carries come first, then what the loop captures");
        if (a.max_trips && *a.max_trips < 0)
          fail(ErrorCode::invalid_argument, "max_trips = ", *a.max_trips,
               " is negative; leave it out for a loop without a bound");
        Types carries = in.first(static_cast<size_t>(a.carries));
        require_types("body's input", in, required(a.body, "body").input_types());
        require_types("body's result", carries, a.body->output_types());
        require_types("condition's input", in, required(a.condition, "condition").input_types());
        require_types("condition's result", std::vector<Type>{{boolean, {}}}, a.condition->output_types());
        return std::vector<Type>(carries.begin(), carries.end());
      },
      .reference = [](Tensors in, const WhileAttrs& a, const Run& run) -> Many<Tensor> {
        std::vector<Tensor> state(in.begin(), in.end());
        for (int64_t trip = 0; !a.max_trips || trip < *a.max_trips; ++trip) {
          if (!load<uint64_t>(run(*a.condition, state)[0], 0)) break;
          auto next = run(*a.body, state);
          std::move(next.begin(), next.end(), state.begin());
        }
        state.resize(static_cast<size_t>(a.carries));
        return state;
      },
      .save = [](Values in,
                 const WhileAttrs& a) { return Many<Value>(scan_saving_carries(in[0].graph(), in, as_scan(a))); },
      .vjp =
          [](Values in, Values out, Values cts, const WhileAttrs& a, const Transforms& t) {
            return scan_vjp(in, out.last(static_cast<size_t>(a.carries)), cts, {}, as_scan(a), t);
          },
      .jvp =
          [](Values in, Values tangents, const WhileAttrs& a, const Transforms& t) {
            auto n = static_cast<size_t>(a.carries), all = in.size();
            Values carries = in.first(n), captured = in.subspan(n);
            Mask moving = floats(carries), active = joined(moving, mask_of(tangents.subspan(n)));
            std::vector<Value> d;  // tangents of the float carries
            for (size_t i = 0; i < n; ++i)
              if (moving[i]) d.push_back(or_zero(tangents[i], in[i]));
            auto operands = joined(carries, d, captured, present(tangents.subspan(n)));
            // jvp's order is carries, captured, tangents; the loop's is carries with tangents, then the rest.
            auto primal = [&, moved = d.size()](Values v) { return joined(v.first(n), v.subspan(n + moved, all - n)); };
            auto types = types_of_values(operands);
            Graph step = t.jvp(*a.body, active);
            Graph body = trace(types, [&](Graph& b, Values v) {
              return inlined(b, step, joined(primal(v), v.subspan(n, d.size()), v.subspan(all + d.size())));
            });
            Graph condition = trace(types, [&](Graph& b, Values v) { return inlined(b, *a.condition, primal(v)); });
            return Many<Value>(while_loop(operands, {int64_t(n + d.size()), condition, body, a.max_trips}));
          },
      // The loop runs while any lane does; lanes that are done keep their carries.
      .batch =
          [](Values in, const Mask& batched, const WhileAttrs& a, const Transforms& t) {
            auto n = static_cast<size_t>(a.carries);
            Dim size = batch_size(in, batched);
            Mask lanes = batched;
            std::vector<Value> operands(in.begin(), in.end());
            for (size_t i = 0; i < n; ++i) {
              if (!batched[i]) operands[i] = repeat_front(in[i], size);
              lanes[i] = true;
            }
            Graph running = t.batch(*a.condition, lanes, size), next = t.batch(*a.body, lanes, size);
            auto types = types_of_values(operands);
            Graph condition = trace(
                types, [&](Graph& b, Values v) { return reduce(inlined(b, running, v)[0], Reduction::any, {0}); });
            Graph body = trace(types, [&](Graph& b, Values v) {
              Value lane_runs = inlined(b, running, v)[0];
              auto stepped = inlined(b, next, v);
              for (size_t i = 0; i < n; ++i) stepped[i] = lanes_where(lane_runs, stepped[i], v[i]);
              return stepped;
            });
            return Many<Value>(while_loop(operands, {a.carries, condition, body, a.max_trips}));
          },
      .samples =
          [] {  // (x, count, limit) -> while x < limit: x * x * limit + 0.5, count + 1
            std::vector<Type> in = {{f64, {}}, {i64, {}}, {f64, {}}};
            WhileAttrs bounded{2, trace(in, [](Values v) { return compare(v[0], v[2], Comparison::lt); }),
                               trace(in,
                                     [](Values v) {
                                       return std::vector{v[0] * v[0] * v[2] + 0.5, v[1] + 1.0};
                                     }),
                               6};
            WhileAttrs never = bounded;
            never.max_trips = 0;
            std::vector<Sample> all = {{.dims = {{}, {}, {}}, .dtypes = {f64, i64}, .attrs = bounded, .lo = 1, .hi = 5},
                                       {.dims = {{}, {}, {}}, .dtypes = {f64, i64}, .attrs = never, .lo = 1, .hi = 5}};
            for (int64_t rows : {2, 0}) {  // a, b change places until the counter is 4
              std::vector<Type> types = {{f64, {rows, 3}}, {f64, {rows, 3}}, {i64, {}}, {f64, {1, 3}}};
              Graph condition =
                  trace(types, [](Graph& g, Values v) { return compare(v[2], scalar(g, 4, i64), Comparison::lt); });
              Graph body = trace(types, [&](Values v) {
                return std::vector{sin(v[1]) * broadcast_in_dim(v[3], {rows, 3}, {0, 1}), v[0], v[2] + 1.0};
              });
              all.push_back({.dims = {{rows, 3}, {rows, 3}, {}, {1, 3}},
                             .dtypes = {f64, f64, i64},
                             .attrs = WhileAttrs{3, condition, body, 5}});
            }
            std::vector<Type> low = {{f16, {5}}, {i8, {}}};  // doubled until the counter is 3
            all.push_back(
                {.dims = {{5}, {}},
                 .dtypes = {f16, i8},
                 .attrs = WhileAttrs{
                     2, trace(low, [](Graph& g, Values v) { return compare(v[1], scalar(g, 3, i8), Comparison::lt); }),
                     trace(low,
                           [](Values v) {
                             return std::vector{v[0] * 2.0, v[1] + 1.0};
                           }),
                     9}});
            return all;
          },
  });
}

}  // namespace rlx
