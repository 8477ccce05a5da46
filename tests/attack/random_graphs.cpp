// Drawing graphs; see the header.
#include "attack/random_graphs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops.h"
#include "support/compare.h"

namespace rlx::attack {

const std::vector<const OpDef*>& drawable_ops() {
  static const std::vector<const OpDef*> ops = [] {
    std::vector<const OpDef*> all;
    for (const OpDef* op : all_ops())
      if (op != &op::input && op != &op::param && op != &op::constant && !op->samples().empty()) all.push_back(op);
    return all;
  }();
  return ops;
}

namespace {

double largest_of(DType t) {
  return t == f16 ? 65504.0 : t == f64 || t == c128 ? 1e300 : is_float(t) || is_complex(t) ? 3e38 : 0;
}
double smallest_of(DType t) { return t == f16 ? 0x1p-24 : t == f64 || t == c128 ? 0x1p-1074 : 0x1p-149; }

double moody(double v, DType t, Mood mood, Random& random) {
  switch (mood) {
    case Mood::own: return v;
    case Mood::ties: return std::round(v);
    case Mood::zeros: return std::copysign(0.0, v);
    case Mood::tiny: return v * smallest_of(t) * std::ldexp(1.0, static_cast<int>(random.below(12)));
    case Mood::huge: return v * largest_of(t) / 4;
    case Mood::wide: return v * std::ldexp(1.0, static_cast<int>(random.below(33)) - 16);
    case Mood::special: break;
  }
  if (!random.chance(6)) return v;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double specials[] = {std::numeric_limits<double>::quiet_NaN(),
                             kInfinity,
                             -kInfinity,
                             0.0,
                             -0.0,
                             largest_of(t),
                             -largest_of(t),
                             smallest_of(t),
                             1.0,
                             -1.0};
  return random.of(specials);
}
int64_t moody(int64_t v, DType t, Mood mood, Random& random) {
  if (mood == Mood::zeros) return 0;
  if (mood == Mood::wide) return v + static_cast<int64_t>(random.below(9)) - 4;
  if ((mood != Mood::special && mood != Mood::huge) || !random.chance(5)) return v;
  const int bits = info(t).bits;
  const auto highest = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  const int64_t specials[] = {highest, -highest - 1, 0, -1, 1};
  return random.of(specials);
}

}  // namespace

Tensor drawn_tensor(const Type& type, double lo, double hi, Mood mood, Random& random) {
  Tensor t = random_tensor(type.dtype, shape_of(type.dims), random.bits(), lo, hi);
  if (mood == Mood::own || is_block(type.dtype) || type.dtype == boolean) return t;
  with_element_type(type.dtype, [&]<class T>() {
    for (size_t i = 0; i < t.element_count(); ++i) {
      const T v = load<T>(t, i);
      if constexpr (std::is_same_v<T, Complex>)
        store<T>(t, i, {moody(v.real(), type.dtype, mood, random), moody(v.imag(), type.dtype, mood, random)});
      else if constexpr (std::is_same_v<T, double>) store<T>(t, i, moody(v, type.dtype, mood, random));
      else store<T>(t, i, static_cast<T>(moody(static_cast<int64_t>(v), type.dtype, mood, random)));
    }
  });
  return t;
}

namespace {

/// Builds a graph, or the body of a loop or a branch, which is closed: it has constants in place of inputs.
class Builder {
 public:
  Builder(Graph& g, Random& random, Mood mood, Fed* fed, int depth = 0)
      : g_(g), random_(random), mood_(mood), fed_(fed), depth_(depth) {}

  void add(Value v) { pool_.push_back(v); }
  const std::vector<Value>& pool() const { return pool_; }

  void step(const OpDef& op) {
    if (depth_ < 2 && random_.chance(2) && control(op)) return;
    emit_use(drawn_use(op, random_));
  }
  /// A value of that type: one that there is, made to fit, or a new one.
  Value operand(const Type& type, double lo, double hi) {
    if (!pool_.empty() && !is_block(type.dtype) && !random_.chance(3))
      for (int tries = 0; tries < 2; ++tries)
        if (Value v = fitted(any(), type, lo, hi)) return v;
    return leaf(type, lo, hi);
  }
  /// What a body must give.
  Value result(const Type& type) {
    for (int tries = 0; tries < 4 && !pool_.empty(); ++tries)
      if (Value v = fitted(any(), type, -2, 2)) return v;
    return leaf(type, -2, 2);
  }
  Value leaf(const Type& type, double lo, double hi) {
    Tensor value = drawn_tensor(type, lo, hi, random_.chance(2) ? mood_ : Mood::own, random_);
    if (!fed_ || random_.chance(8)) return kept(g_.constant(std::move(value)));
    if (random_.chance(3)) {
      const std::string name = text_of("p", g_.params().size());
      fed_->params.emplace(name, std::move(value));
      return kept(g_.param(name, type));
    }
    fed_->inputs.push_back(std::move(value));
    return kept(g_.input(text_of("x", g_.inputs().size()), type));
  }

 private:
  Value kept(Value v) {
    pool_.push_back(v);
    return v;
  }
  /// Recent values more often, so that graphs grow deep.
  Value any() {
    return random_.chance(2) ? pool_[pool_.size() - 1 - random_.below(std::min<size_t>(pool_.size(), 4))]
                             : random_.of(pool_);
  }
  void keep_all(const std::vector<Value>& values) { pool_.insert(pool_.end(), values.begin(), values.end()); }

  void emit_use(const OpUse& use) {
    std::vector<Value> operands;
    for (const Type& t : use.types) operands.push_back(operand(t, use.lo, use.hi));
    if (random_.chance(4)) g_.set_scope(text_of("part.", random_.below(3)));
    try {
      keep_all(g_.emit(*use.op, std::move(operands), use.attrs));
    } catch (const Error& e) {
      throw Broken(text_of("'", use.op->name, "' was inferred, and cannot be emitted: ", e.what()));
    }
    g_.set_scope("");
  }

  /// v as a value of that type, with what it takes of converts, slices and reshapes; nothing if it cannot be.
  Value fitted(Value v, const Type& type, double lo, double hi) {
    try {
      if (is_block(v.dtype())) return {};
      if (v.dtype() != type.dtype) v = converted(v, type.dtype);
      if (!random_.chance(4)) v = bounded(v, lo, hi);
      return shaped(v, type.dims);
    } catch (const Error& e) {
      if (is_our_mistake(e)) throw Broken(text_of("fitting ", v.type(), " to ", type, ": ", e.what()));
      return {};  // a dtype without arithmetic
    }
  }
  Value converted(Value v, DType to) {
    if (is_complex(v.dtype()) && !is_complex(to)) v = real(v);
    return convert(v, to);
  }
  /// Near enough to [lo, hi] for an op that wants its operands there.
  Value bounded(Value v, double lo, double hi) {
    const DType t = v.dtype();
    if (is_complex(t) || t == boolean) return v;
    if (is_float(t) && info(t).bits >= 16) {
      const double middle = (lo + hi) / 2, half = (hi - lo) / 2;
      switch (random_.below(4)) {
        case 0: return clamp(v, lo, hi);
        case 1: return sin(v) * half + middle;
        default: return tanh(v) * half + middle;
      }
    }
    if (!is_integer(t) || info(t).bits < 8) return v;
    const auto low = static_cast<int64_t>(std::ceil(lo)), high = static_cast<int64_t>(std::floor(hi));
    if (high <= low || (kind_of(t) == Kind::unsigned_int && low < 0)) return v;
    const double limit = std::ldexp(1.0, info(t).bits - 1) - 1;
    if (static_cast<double>(high - low) > limit || std::abs(lo) > limit || std::abs(hi) > limit) return v;
    return floor_mod(v, broadcast_to(scalar(g_, static_cast<double>(high - low), t), v.dims())) +
           static_cast<double>(low);
  }
  Value shaped(Value v, const Dims& dims) {
    if (v.dims() == dims) return v;
    const int64_t have = element_count(v.dims()).value(), wanted = element_count(dims).value();
    if (have != wanted) {
      if (have == 0 || wanted > 8 * have) return {};
      v = reshape(v, {have});
      if (wanted > have) v = concatenate(std::vector<Value>(static_cast<size_t>((wanted + have - 1) / have), v), 0);
      if (v.dim(0) != Dim(wanted)) v = slice(v, {0}, {wanted});
    }
    return v.dims() == dims ? v : reshape(v, dims);
  }

  /// A graph from these types to others, or to some that are drawn.
  Graph body(const std::vector<Type>& types, std::vector<Type>& wanted, bool draw_results, size_t first_fresh = 0) {
    Graph b("body");
    Builder inner(b, random_, mood_, nullptr, depth_ + 1);
    std::vector<Value> in;
    for (const Type& t : types) in.push_back(b.input(text_of("v", in.size()), t));
    for (Value v : in) inner.add(v);
    for (size_t steps = 1 + random_.below(2); steps > 0; --steps) inner.step(*random_.of(drawable_ops()));
    if (draw_results)
      for (size_t count = random_.below(3) + (wanted.empty() ? 1 : 0); count > 0; --count)
        if (Value v = random_.of(inner.pool()); !is_block(v.dtype())) wanted.push_back(v.type());
    for (size_t i = 0; i < wanted.size(); ++i)
      b.output(i < first_fresh ? inner.add_one(in[i]) : inner.result(wanted[i]));
    return prune(b);
  }
  Value add_one(Value counter) { return counter + broadcast_to(scalar(counter.graph(), 1, counter.dtype()), {}); }

  std::vector<Value> some(size_t least, size_t most) {
    std::vector<Value> values;
    for (size_t count = least + random_.below(most - least + 1); count > 0; --count) {
      Value v = pool_.empty() || random_.chance(3) ? leaf({drawn_float(random_), drawn_dims(random_)}, -2, 2) : any();
      if (is_block(v.dtype()) || !is_small({v.type()})) v = leaf({f32, {3}}, -2, 2);
      values.push_back(v);
    }
    return values;
  }
  static std::vector<Type> types_of(const std::vector<Value>& values) {
    std::vector<Type> types;
    for (Value v : values) types.push_back(v.type());
    return types;
  }

  /// An op with sub-graphs that are drawn; false for all others.
  bool control(const OpDef& op) {
    if (&op == &op::if_else) {
      auto captured = some(1, 3);
      std::vector<Type> results;
      Graph left = body(types_of(captured), results, true), right = body(types_of(captured), results, false);
      captured.insert(captured.begin(), operand({boolean, {}}, 0, 1));
      keep_all(g_.emit(op, captured, IfAttrs{Subgraph(left), Subgraph(right)}));
    } else if (&op == &op::call || &op == &op::remat) {
      auto operands = some(1, 3);
      std::vector<Type> results;
      Graph inner = body(types_of(operands), results, true);
      keep_all(g_.emit(op, operands, CallAttrs{Subgraph(inner)}));
    } else if (&op == &op::while_loop) {
      WhileAttrs a;
      auto operands = some(1, 2);
      operands.insert(operands.begin(), g_.constant(Tensor::scalar<int32_t>(0)));
      a.carries = static_cast<int64_t>(operands.size());
      std::vector<Type> carried = types_of(operands);
      operands.push_back(operand({i32, {}}, 0, 6));
      Graph condition("condition");
      std::vector<Value> in;
      for (const Type& t : types_of(operands)) in.push_back(condition.input(text_of("v", in.size()), t));
      Value limit = minimum(in.back(), scalar(condition, 6, i32));
      condition.output(compare(in[0], limit, Comparison::lt));
      a.condition = Subgraph(condition);
      a.body = Subgraph(body(types_of(operands), carried, false, 1));
      if (random_.chance(2)) a.max_trips = static_cast<int64_t>(random_.below(8));
      keep_all(g_.emit(op, operands, a));
    } else if (&op == &op::scan || &op == &op::checkpointed_scan) {
      constexpr int64_t kLengths[] = {0, 1, 2, 3, 5, 7};
      const int64_t length = random_.of(kLengths);
      auto operands = some(0, 2);
      std::vector<Type> results = types_of(operands), inner = results;
      const size_t carries = operands.size(), xs = random_.below(3);
      for (size_t i = 0; i < xs; ++i) {
        Type slice{drawn_float(random_), drawn_dims(random_)};
        if (slice.rank() > 4) slice.dims.pop_back();
        inner.push_back(slice);
        slice.dims.insert(slice.dims.begin(), length);
        operands.push_back(is_small({slice}) ? operand(slice, -2, 2) : leaf(slice, -2, 2));
      }
      for (Value v : some(inner.empty() ? 1 : 0, 1)) operands.push_back(v), inner.push_back(v.type());
      Graph inside = body(inner, results, true);
      if (&op == &op::scan) {
        ScanAttrs a;
        a.carries = static_cast<int64_t>(carries), a.xs = static_cast<int64_t>(xs), a.length = length;
        a.reverse = random_.chance(2), a.body = Subgraph(inside);
        keep_all(g_.emit(op, operands, a));
      } else {
        CheckpointedScanAttrs a;
        a.carries = static_cast<int64_t>(carries), a.xs = static_cast<int64_t>(xs), a.length = length;
        a.reverse = random_.chance(2), a.body = Subgraph(inside);
        a.checkpointing = static_cast<Checkpointing>(random_.below(names_of(Checkpointing{}).size()));
        a.every = static_cast<int64_t>(1 + random_.below(4));
        keep_all(g_.emit(op, operands, a));
      }
    } else {
      return false;
    }
    return true;
  }

  Graph& g_;
  Random& random_;
  Mood mood_;
  Fed* fed_;
  int depth_;
  std::vector<Value> pool_ = {};
};

/// Symbols for some extents, where the ops take them; else the graph as it is.
Graph with_symbols(Graph g, Random& random) {
  for (const char* name : {"S", "T"}) {
    std::vector<int64_t> extents;
    for (const Type& t : g.input_types())
      for (const Dim& d : t.dims)
        if (d.is_static()) extents.push_back(d.value());
    if (extents.empty()) break;
    const int64_t extent = random.of(extents);
    try {
      Graph made = with_extents(g, [&](const Dim& d) { return d == Dim(extent) ? Dim::symbol(name) : d; });
      Bindings sizes{{name, extent}};
      auto wanted = g.output_types(), got = made.output_types();
      for (Type& t : got)
        for (Dim& d : t.dims) d = d.bound(sizes);
      if (got == wanted) g = std::move(made);
    } catch (const Error& e) {
      if (is_our_mistake(e)) throw Broken(text_of("putting a symbol for ", extent, ": ", e.what()));
    }
  }
  return g;
}

}  // namespace

uint64_t seed_of(uint64_t seed, uint64_t index, uint64_t what) {
  uint64_t z = seed * 0x9e3779b97f4a7c15ull + index * 0xbf58476d1ce4e5b9ull + what * 0x94d049bb133111ebull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  return z ^ (z >> 31);
}

Fed drawn_graph(uint64_t seed, uint64_t index) {
  Random random(seed_of(seed, index, 0));
  Fed fed{Graph("attack")};
  constexpr Mood kMoods[] = {Mood::own,  Mood::own,  Mood::own,  Mood::own,  Mood::own,     Mood::own,  Mood::ties,
                             Mood::ties, Mood::tiny, Mood::huge, Mood::wide, Mood::special, Mood::zeros};
  Builder builder(fed.graph, random, random.of(kMoods), &fed);
  const auto& ops = drawable_ops();
  // Neighbours in the table are of one family: a stride that shares no factor with the count mixes them.
  size_t stride = 89;
  while (std::gcd(stride, ops.size()) != 1) ++stride;
  builder.step(*ops[(index * stride + seed) % ops.size()]);
  constexpr size_t kMore[] = {0, 0, 0, 1, 1, 2, 3, 5, 8};
  for (size_t more = random.of(kMore); more > 0 && fed.graph.nodes().size() < 120; --more)
    builder.step(*random.of(ops));

  Uses uses(fed.graph);
  std::vector<Value> unused;
  for (Value v : builder.pool())
    if (uses.of(v.ref()).empty() && fed.graph.node(v.ref()).op != &op::constant) unused.push_back(v);
  if (unused.empty()) unused.push_back(builder.pool().back());
  constexpr size_t kMostOutputs = 6;
  for (size_t i = unused.size() > kMostOutputs ? unused.size() - kMostOutputs : 0; i < unused.size(); ++i)
    fed.graph.output(unused[i]);
  if (random.chance(4)) fed.graph.output(random.of(builder.pool()));
  if (random.chance(3)) fed.graph = with_symbols(std::move(fed.graph), random);
  return fed;
}

}  // namespace rlx::attack
