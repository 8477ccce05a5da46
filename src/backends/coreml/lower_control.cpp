// Control flow. Blocks see the values around them, so what a sub-graph captures is used by its outer name.
#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> can_scan(const Question& q) {
  for (const Type& t : q.node.types)
    if (t.rank() > 5) return "its results have more than 5 dims";
  return std::nullopt;
}
}  // namespace when

namespace {

/// A value as a result of a block: one that the block itself emits.
Var own(Emitter& e, const Var& v) { return e.emit("identity", {{"x", v}}, v.dtype, v.shape); }

/// A scalar of rank 0, as conditions want it.
Var scalar_of(Emitter& e, const Var& v) {
  return e.emit("squeeze", {{"x", v}, {"axes", e.integers({0})}}, v.dtype, {});
}

std::vector<Var> named(Emitter& e, const std::vector<Var>& like, std::string_view hint) {
  std::vector<Var> vars;
  for (const Var& v : like) vars.push_back({e.fresh(hint), v.dtype, v.shape});
  return vars;
}

/// `test` and `step` on the variables of a loop, from `initial` on.
std::vector<Var> loop(Emitter& e, const std::vector<Var>& initial,
                      const std::function<Var(const std::vector<Var>&)>& test,
                      const std::function<std::vector<Var>(const std::vector<Var>&)>& step) {
  std::vector<mil::Block> blocks;
  std::vector<Var> inside = named(e, initial, "loop");
  e.begin_block(inside);
  Var goes_on = test(inside);
  blocks.push_back(e.end_block({goes_on}));
  inside = named(e, initial, "loop");
  e.begin_block(inside);
  std::vector<Var> next = step(inside);
  for (Var& v : next) v = own(e, v);
  blocks.push_back(e.end_block(next));
  std::vector<Var> results = initial;
  for (Var& v : results) v.name.clear();
  return e.emit_many("while_loop", {{"loop_vars", initial}}, results, std::move(blocks));
}

}  // namespace

Lowered lower_if(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<IfAttrs>();
  std::vector<Var> captured;
  for (size_t i = 1; i < l.types.size(); ++i) captured.push_back(l.operand(i));
  Var condition = scalar_of(e, l.operand(0));
  std::vector<mil::Block> blocks;
  std::vector<Var> results;
  for (const Subgraph* branch : {&a.then_branch, &a.else_branch}) {
    e.begin_block();
    results = l.body(**branch, captured);
    for (Var& v : results) v = own(e, v);
    blocks.push_back(e.end_block(results));
  }
  for (Var& v : results) v.name.clear();
  return e.emit_many("cond", {{"pred", condition}}, results, std::move(blocks));
}

Lowered lower_while(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<WhileAttrs>();
  auto carries = static_cast<size_t>(a.carries);
  std::vector<Var> initial, captured;
  for (size_t i = 0; i < l.types.size(); ++i) (i < carries ? initial : captured).push_back(l.operand(i));
  if (a.max_trips) initial.push_back(e.constant(Tensor(i32, {1})));
  auto with_captured = [&](const std::vector<Var>& vars) {
    std::vector<Var> all(vars.begin(), vars.begin() + static_cast<std::ptrdiff_t>(carries));
    all.insert(all.end(), captured.begin(), captured.end());
    return all;
  };
  auto results = loop(
      e, initial,
      [&](const std::vector<Var>& vars) {
        Var goes_on = l.body(*a.condition, with_captured(vars))[0];
        if (a.max_trips) goes_on = e.both(goes_on, e.test("less", vars.back(), static_cast<double>(*a.max_trips)));
        return scalar_of(e, goes_on);
      },
      [&](const std::vector<Var>& vars) {
        std::vector<Var> next = l.body(*a.body, with_captured(vars));
        if (a.max_trips) next.push_back(e.add(vars.back(), 1.0));
        return next;
      });
  results.resize(carries);
  return results;
}

Lowered lower_scan(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ScanAttrs>();
  auto carries = static_cast<size_t>(a.carries), slices = static_cast<size_t>(a.xs);
  int64_t length = e.extent(a.length);
  // The loop's variables: the trip, the carries, and the stacked results so far.
  std::vector<Var> initial{e.constant(Tensor(i32, {1}))}, xs, captured;
  for (size_t i = 0; i < l.types.size(); ++i)
    (i < carries ? initial : i < carries + slices ? xs : captured).push_back(l.operand(i));
  for (size_t i = carries; i < l.node.types.size(); ++i) {
    DType dtype = l.dtype(i) == boolean ? i32 : l.dtype(i);
    initial.push_back(e.broadcast(e.reshape(e.number(dtype, 0), Shape(l.shape(i).size(), 1)), l.shape(i)));
  }
  for (Var& x : xs)
    if (x.dtype == boolean) x = e.cast(x, i32);
  auto results = loop(
      e, initial, [&](const std::vector<Var>& vars) { return scalar_of(e, e.test("less", vars[0], e.size(length))); },
      [&](const std::vector<Var>& vars) {
        Var at = a.reverse ? e.sub(e.sub(e.size(length), vars[0]), 1.0) : vars[0];
        std::vector<Var> in(vars.begin() + 1, vars.begin() + 1 + static_cast<std::ptrdiff_t>(carries));
        for (size_t i = 0; i < xs.size(); ++i) {
          const Type& whole = l.types[carries + i];
          Shape one = xs[i].shape;
          one[0] = 1;
          Var slice = e.emit("gather", {{"x", xs[i]}, {"indices", at}, {"axis", e.integer(0)}}, xs[i].dtype, one);
          Shape shape(one.begin() + 1, one.end());
          slice = e.reshape(slice, shape.empty() ? Shape{1} : shape);
          in.push_back(whole.dtype == boolean ? e.cast(slice, boolean) : slice);
        }
        in.insert(in.end(), captured.begin(), captured.end());
        std::vector<Var> out = l.body(*a.body, in), next{e.add(vars[0], 1.0)};
        for (size_t i = 0; i < out.size(); ++i) {
          if (i < carries) {
            next.push_back(out[i]);
            continue;
          }
          const Var& stacked = vars[1 + i];
          Shape one = stacked.shape;
          one[0] = 1;
          Var slice = e.reshape(out[i].dtype == boolean ? e.cast(out[i], i32) : out[i], one);
          next.push_back(e.emit("scatter",
                                {{"data", stacked},
                                 {"indices", at},
                                 {"updates", slice},
                                 {"axis", e.integer(0)},
                                 {"mode", e.text("update")}},
                                stacked.dtype, stacked.shape));
        }
        return next;
      });
  results.erase(results.begin());
  for (size_t i = carries; i < results.size(); ++i)
    if (l.dtype(i) == boolean) results[i] = e.cast(results[i], boolean);
  return results;
}

}  // namespace rlx::coreml
