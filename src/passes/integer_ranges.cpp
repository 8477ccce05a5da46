// See the header. Interval arithmetic on numbers of 128 bits, in which no sum and no product of two dtypes' numbers
// overflows unseen. Loops are run on intervals until these no longer grow; an end that keeps growing is let go as far
// as the dtype allows, and the loop's condition brings it back (Cousot, Cousot, POPL 1977).
#include "passes/integer_ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/leaves.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx {

__extension__ using WideInteger = __int128;

namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
constexpr int kDeepest = 6;     // graphs in graphs that are looked into; deeper ones may be anything
constexpr int kTripsTried = 3;  // before the ends that grow are let go

bool is_tracked(DType t) { return is_integer(t) || t == boolean; }

/// Both ends as numbers, those of u64 too.
struct Ends {
  WideInteger least, most;
};
Ends ends_of(DType t) {
  if (t == boolean) return {0, 1};
  const int bits = info(t).bits;
  if (kind_of(t) == Kind::unsigned_int) return {0, (static_cast<WideInteger>(1) << bits) - 1};
  return {-(static_cast<WideInteger>(1) << (bits - 1)), (static_cast<WideInteger>(1) << (bits - 1)) - 1};
}
Ends ends_of(const IntegerRange& r, DType t) {
  return {r.least, t == u64 && r.most == kMost ? ends_of(u64).most : static_cast<WideInteger>(r.most)};
}
/// The numbers from `least` to `most` as they are in a dtype: all of it where some would wrap.
IntegerRange in_dtype(Ends e, DType t) {
  const Ends all = ends_of(t);
  if (e.least < all.least || e.most > all.most) e = all;
  const auto number = [](WideInteger v) { return v > kMost ? kMost : static_cast<int64_t>(v); };
  return {number(e.least), number(e.most)};
}
Ends hull(std::initializer_list<WideInteger> numbers) { return {std::min(numbers), std::max(numbers)}; }
Ends joined(Ends a, Ends b) { return {std::min(a.least, b.least), std::max(a.most, b.most)}; }

/// Products of every pair of ends; nothing where one is beyond 128 bits.
std::optional<Ends> product(Ends a, Ends b) {
  Ends result{0, 0};
  bool is_first = true;
  for (WideInteger x : {a.least, a.most})
    for (WideInteger y : {b.least, b.most}) {
      WideInteger xy;
      if (__builtin_mul_overflow(x, y, &xy)) return std::nullopt;
      result = is_first ? Ends{xy, xy} : joined(result, {xy, xy});
      is_first = false;
    }
  return result;
}
WideInteger magnitude(WideInteger v) { return v < 0 ? -v : v; }

/// A number of elements that is known up to the sizes of a run.
Ends count_of(const std::vector<IntegerRange>& extents) {
  constexpr WideInteger kEnough = static_cast<WideInteger>(1) << 96;  // so that a product with a number stays within
  Ends count{1, 1};
  for (const IntegerRange& e : extents) {
    count.least = count.least > kEnough / std::max<int64_t>(e.least, 1) ? kEnough : count.least * e.least;
    count.most = count.most > kEnough / std::max<int64_t>(e.most, 1) ? kEnough : count.most * e.most;
  }
  return count;
}

/// `count` numbers of `each`, added up.
std::optional<Ends> sum_of(Ends count, Ends each) { return product(count, each); }

/// Numbers of two's complement with as many bits as either operand needs.
Ends same_bits(Ends a, Ends b) {
  const Ends both = joined(a, b);
  WideInteger end = 1;
  while (both.most >= end || both.least < -end) end *= 2;
  return {both.least < 0 ? -end : 0, end - 1};
}

bool is_one_of(const OpDef* op, std::initializer_list<const OpDef*> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

}  // namespace

// ---- ranges as values ----

bool IntegerRange::fits(DType dtype) const {
  const Ends all = ends_of(dtype);
  return least >= all.least && most <= all.most;
}
IntegerRange all_numbers_of(DType dtype) { return in_dtype(ends_of(dtype), dtype); }
IntegerRange united(const IntegerRange& a, const IntegerRange& b) {
  return {std::min(a.least, b.least), std::max(a.most, b.most)};
}
std::ostream& operator<<(std::ostream& out, const IntegerRange& r) {
  const auto end = [&](int64_t v) -> std::ostream& {
    if (v == kLeast) return out << "-2^63";
    if (v == kMost) return out << "2^63-1";
    return out << v;
  };
  out << "[";
  end(r.least) << ", ";
  return end(r.most) << "]";
}

// ---- rules ----

/// The ranges of one node's results.
class RangeRules {
 public:
  RangeRules(const Graph& g, const Node& node, size_t index, IntegerRanges& all, int depth)
      : g_(g), node_(node), index_(index), all_(all), depth_(depth) {}

  std::vector<IntegerRange> results() {
    std::vector<IntegerRange> known(node_.types.size());
    for (size_t i = 0; i < known.size(); ++i)
      if (is_tracked(dtype(i))) known[i] = all_numbers_of(dtype(i));
    const auto is_float_alone = [](const Type& t) { return !is_tracked(t.dtype); };
    const bool has_entries = is_one_of(node_.op, {&op::if_else, &op::while_loop, &op::scan});
    if (!has_entries && std::all_of(node_.types.begin(), node_.types.end(), is_float_alone)) return known;
    for (size_t i = 0; i < known.size(); ++i)
      if (dtype(i) == boolean && !has_entries) return known;  // 0 and 1
    if (auto found = has_entries ? control(known) : several(known)) return *found;
    if (node_.types.size() == 1)
      if (auto one = single()) return {*one};
    return node_.op->decompose ? decomposed(known) : known;
  }

 private:
  DType dtype(size_t i = 0) const { return node_.types[i].dtype; }
  const Type& type(size_t i) const { return g_.type(node_.operands[i]); }
  const IntegerRange& range(size_t i) const { return all_.of(node_.operands[i]); }
  Ends ends(size_t i) const { return ends_of(range(i), type(i).dtype); }
  IntegerRange made(Ends e) const { return in_dtype(e, dtype()); }
  IntegerRange made(const std::optional<Ends>& e) const { return e ? made(*e) : all_numbers_of(dtype()); }

  /// A dim of a value: no larger than any is.
  IntegerRange extent(const Dim& d) const {
    if (d.is_static()) return {d.value(), d.value()};
    IntegerRange r = polynomial(d);
    return {std::clamp<int64_t>(r.least, 0, all_.facts_.most_extent),
            std::clamp<int64_t>(r.most, 0, all_.facts_.most_extent)};
  }
  /// A dim that need not be one of a value. Where no symbol stands in it twice, its ends are where those of its symbols
  /// are.
  IntegerRange polynomial(const Dim& d) const {
    if (d.is_static()) return {d.value(), d.value()};
    constexpr size_t kMostSymbols = 8;
    std::vector<std::string> symbols;
    d.for_each_symbol([&](const std::string& s) { symbols.push_back(s); });
    std::vector<std::string> sorted = symbols;
    std::sort(sorted.begin(), sorted.end());
    if (symbols.size() > kMostSymbols || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return {};
    std::optional<IntegerRange> result;
    for (size_t corner = 0; corner < size_t{1} << symbols.size(); ++corner) {
      Bindings at;
      for (size_t s = 0; s < symbols.size(); ++s) {
        const auto known = all_.facts_.symbols.find(symbols[s]);
        const IntegerRange r =
            known != all_.facts_.symbols.end() ? known->second : IntegerRange{0, all_.facts_.most_extent};
        at[symbols[s]] = (corner >> s & 1) != 0 ? r.most : r.least;
      }
      try {
        const int64_t v = d.bound(at).value();
        result = result ? united(*result, {v, v}) : IntegerRange{v, v};
      } catch (const Error&) {
        return {};  // beyond 64 bits
      }
    }
    return *result;
  }
  Ends count(const Dims& dims) const {
    std::vector<IntegerRange> extents;
    for (const Dim& d : dims) extents.push_back(extent(d));
    return count_of(extents);
  }
  Ends count_along(const Dims& dims, const Axes& axes) const {
    Dims along;
    for (int64_t a : axes) along.push_back(dims[static_cast<size_t>(a)]);
    return count(along);
  }

  IntegerRange united_operands(size_t from = 0) const {
    IntegerRange all = range(from);
    for (size_t i = from + 1; i < node_.operands.size(); ++i) all = united(all, range(i));
    return all;
  }

  /// Ops whose results stand for operands one by one; nothing for others.
  std::optional<std::vector<IntegerRange>> several(std::vector<IntegerRange> known) const {
    const bool is_sorted = node_.op == &op::sort || node_.op == &op::optimization_barrier;
    if (is_sorted) {
      for (size_t i = 0; i < known.size(); ++i) known[i] = range(i);
      return known;
    }
    if (node_.op == &op::top_k) {
      const int64_t axis = valid_axis(node_.attrs.as<TopKAttrs>().axis, type(0).rank());
      if (is_tracked(dtype(0))) known[0] = range(0);
      known[1] = place_along(type(0).dims[static_cast<size_t>(axis)]);
      return known;
    }
    return std::nullopt;
  }
  IntegerRange place_along(const Dim& d) const { return {0, std::max<int64_t>(0, extent(d).most - 1)}; }

  std::optional<IntegerRange> single() const {
    const OpDef* op = node_.op;
    if (op == &op::constant) return of_constant(node_.attrs.as<ConstantAttrs>().value);
    if (op == &op::iota) {
      const auto& a = node_.attrs.as<IotaAttrs>();
      const IntegerRange r = place_along(a.type.dims[static_cast<size_t>(a.axis)]);
      return made({r.least, r.most});
    }
    if (op == &op::extent) {
      // It need not be the extent of a value, and may be negative. What is beyond 64 bits is an error of the run.
      const IntegerRange r = polynomial(node_.attrs.as<ExtentAttrs>().dim);
      return made({r.least, r.most});
    }
    if (is_one_of(op, {&op::argmax, &op::argmin})) {
      const int64_t axis = valid_axis(node_.attrs.as<ArgReduceAttrs>().axis, type(0).rank());
      return place_along(type(0).dims[static_cast<size_t>(axis)]);
    }
    if (op == &op::argsort) {
      const int64_t axis = valid_axis(node_.attrs.as<OrderAttrs>().axis, type(0).rank());
      return type(0).rank() == 0 ? IntegerRange{0, 0} : place_along(type(0).dims[static_cast<size_t>(axis)]);
    }
    if (op == &op::convert) {
      if (!is_tracked(type(0).dtype)) return all_numbers_of(dtype());
      return made(ends(0));
    }
    if (is_one_of(op, {&op::broadcast_in_dim, &op::reshape, &op::transpose, &op::slice, &op::reverse,
                       &op::stop_gradient, &op::dynamic_slice, &op::sort_values}))
      return range(0);
    if (is_one_of(op, {&op::pad, &op::concatenate})) return united_operands();
    if (op == &op::select) return united_operands(1);
    if (op == &op::dynamic_update_slice) return united(range(0), range(1));
    if (op == &op::gather) return gathered();
    if (op == &op::scatter) return scattered();
    if (op == &op::reduce) return reduced();
    if (op == &op::reduce_window) return windowed();
    if (op == &op::dot_general || op == &op::convolution) return contracted();
    if (op == &op::select_and_scatter) return made(sum_of({0, count(type(1).dims).most}, ends(1)));
    if (is_one_of(op, {&op::popcnt, &op::clz})) return made({0, info(dtype()).bits});
    if (!op->elementwise || node_.operands.empty() || type(0).dtype != dtype()) return std::nullopt;
    return node_.operands.size() == 1 ? unary() : node_.operands.size() == 2 ? binary() : std::nullopt;
  }

  IntegerRange of_constant(const Tensor& t) const {
    if (info(t.dtype()).bits < 32 || t.element_count() == 0) return all_numbers_of(t.dtype());
    Ends e{};
    for (size_t i = 0; i < t.element_count(); ++i) {
      const WideInteger v = kind_of(t.dtype()) == Kind::unsigned_int ? static_cast<WideInteger>(load<uint64_t>(t, i))
                                                                     : static_cast<WideInteger>(load<int64_t>(t, i));
      e = i == 0 ? Ends{v, v} : joined(e, {v, v});
    }
    return made(e);
  }

  std::optional<IntegerRange> unary() const {
    const OpDef* op = node_.op;
    const Ends x = ends(0);
    if (op == &op::neg) return made({-x.most, -x.least});
    if (op == &op::abs) {
      const WideInteger most = std::max(magnitude(x.least), magnitude(x.most));
      return made({x.least <= 0 && x.most >= 0 ? 0 : std::min(magnitude(x.least), magnitude(x.most)), most});
    }
    if (op == &op::sign) return made({x.least < 0 ? -1 : x.least > 0 ? 1 : 0, x.most > 0 ? 1 : x.most < 0 ? -1 : 0});
    if (op == &op::bitwise_not) {
      const WideInteger all = kind_of(dtype()) == Kind::unsigned_int ? ends_of(dtype()).most : -1;
      return made({all - x.most, all - x.least});
    }
    return std::nullopt;
  }

  std::optional<IntegerRange> binary() const {
    const OpDef* op = node_.op;
    const Ends x = ends(0), y = ends(1);
    if (op == &op::add) return made({x.least + y.least, x.most + y.most});
    if (op == &op::sub) return made({x.least - y.most, x.most - y.least});
    if (op == &op::mul) return made(product(x, y));
    if (op == &op::maximum) return made({std::max(x.least, y.least), std::max(x.most, y.most)});
    if (op == &op::minimum) return made({std::min(x.least, y.least), std::min(x.most, y.most)});
    if (op == &op::div) return made(quotient(x, y));
    if (op == &op::rem) return made(remainder(x, y));
    if (op == &op::bitwise_and) {
      if (x.least >= 0 && y.least >= 0) return made({0, std::min(x.most, y.most)});
      if (x.least >= 0 || y.least >= 0) return made({0, x.least >= 0 ? x.most : y.most});
      return made(same_bits(x, y));
    }
    if (op == &op::bitwise_or || op == &op::bitwise_xor) return made(same_bits(x, y));
    return shifted(x, y);
  }
  Ends quotient(Ends x, Ends y) const {
    std::optional<Ends> all;
    const auto add = [&](WideInteger v) { all = all ? joined(*all, {v, v}) : Ends{v, v}; };
    for (WideInteger a : {x.least, x.most}) {
      if (y.most >= 1)
        for (WideInteger b : {std::max<WideInteger>(y.least, 1), y.most}) add(a / b);
      if (y.least <= -1)
        for (WideInteger b : {y.least, std::min<WideInteger>(y.most, -1)}) add(a / b);
    }
    if (y.least <= 0 && y.most >= 0) add(kind_of(dtype()) == Kind::unsigned_int ? ends_of(dtype()).most : -1);
    return *all;
  }
  static Ends remainder(Ends x, Ends y) {
    const WideInteger below = std::max(magnitude(y.least), magnitude(y.most)) - 1;
    const bool by_zero = y.least <= 0 && y.most >= 0;
    const Ends rest{x.least < 0 ? std::max(x.least, -std::max<WideInteger>(below, 0)) : 0,
                    x.most > 0 ? std::min(x.most, std::max<WideInteger>(below, 0)) : 0};
    return by_zero ? joined(rest, x) : rest;
  }
  std::optional<IntegerRange> shifted(Ends x, Ends y) const {
    const OpDef* op = node_.op;
    const int bits = info(dtype()).bits;
    const bool is_known = y.least >= 0 && y.most < bits;
    const auto down = [&](WideInteger v, WideInteger by) { return v >> static_cast<int>(by); };
    if (op == &op::shift_left) {
      if (!is_known) return all_numbers_of(dtype());
      const WideInteger one = 1;
      return made(product(x, {one << static_cast<int>(y.least), one << static_cast<int>(y.most)}));
    }
    const bool is_arithmetic = op == &op::shift_right_arithmetic;
    if (!is_arithmetic && op != &op::shift_right_logical) return std::nullopt;
    const Ends as_signed{-(static_cast<WideInteger>(1) << (bits - 1)), (static_cast<WideInteger>(1) << (bits - 1)) - 1};
    if (is_arithmetic ? x.most > as_signed.most : x.least < 0) return all_numbers_of(dtype());
    if (is_known)
      return made(hull({down(x.least, y.least), down(x.least, y.most), down(x.most, y.least), down(x.most, y.most)}));
    return made({std::min<WideInteger>(x.least, 0), x.most >= 0 ? x.most : -1});
  }

  IntegerRange gathered() const {
    const auto& a = node_.attrs.as<GatherAttrs>();
    if (a.out_of_range == OutOfRange::clip) return range(0);
    const bool is_inside = is_tracked(type(1).dtype) && range(1).least >= 0 &&
                           std::all_of(a.start_index_map.begin(), a.start_index_map.end(), [&](int64_t d) {
                             const auto dim = static_cast<size_t>(d);
                             return range(1).most <= extent(type(0).dims[dim]).least - extent(a.slice_sizes[dim]).most;
                           });
    return is_inside ? range(0) : all_numbers_of(dtype());
  }
  IntegerRange scattered() const {
    const auto& a = node_.attrs.as<ScatterAttrs>();
    if (a.kind == ScatterKind::update || a.kind == ScatterKind::max || a.kind == ScatterKind::min)
      return united(range(0), range(2));
    if (a.kind != ScatterKind::add) return all_numbers_of(dtype());
    const auto added = sum_of({0, count(type(2).dims).most}, ends(2));
    if (!added) return all_numbers_of(dtype());
    const Ends x = ends(0);
    return made({x.least + added->least, x.most + added->most});
  }

  IntegerRange reduced() const {
    const auto& a = node_.attrs.as<ReduceAttrs>();
    const Ends n = count_along(type(0).dims, valid_axes(a.axes, type(0).rank()));
    switch (a.kind) {
      case Reduction::sum: return made(sum_of(n, ends(0)));
      case Reduction::max:
      case Reduction::min: return n.least > 0 ? range(0) : all_numbers_of(dtype());
      case Reduction::all:
      case Reduction::any: return made(same_bits(ends(0), n.least > 0 ? ends(0) : identity_of_bits(a.kind)));
      default: return all_numbers_of(dtype());
    }
  }
  Ends identity_of_bits(Reduction kind) const {
    if (kind == Reduction::any) return {0, 0};
    const WideInteger ones = kind_of(dtype()) == Kind::unsigned_int ? ends_of(dtype()).most : -1;
    return {ones, ones};
  }
  IntegerRange windowed() const {
    const auto& a = node_.attrs.as<ReduceWindowAttrs>();
    const Ends n = count(a.window_dims);
    if (a.kind == Reduction::sum) return made(sum_of({0, n.most}, ends(0)));
    const auto is_zero = [](const Dim& d) { return d == Dim(0); };
    const auto is_one = [](int64_t v) { return v == 1; };
    const bool only_elements = std::all_of(a.padding_low.begin(), a.padding_low.end(), is_zero) &&
                               std::all_of(a.padding_high.begin(), a.padding_high.end(), is_zero) &&
                               std::all_of(a.base_dilation.begin(), a.base_dilation.end(), is_one) && n.least > 0;
    const bool orders = a.kind == Reduction::max || a.kind == Reduction::min;
    return orders && only_elements ? range(0) : all_numbers_of(dtype());
  }
  IntegerRange contracted() const {
    if (!is_tracked(type(0).dtype) || !is_tracked(type(1).dtype)) return all_numbers_of(dtype());
    Ends n{0, 0};
    if (node_.op == &op::dot_general) {
      const DotAxes axes(node_.attrs.as<DotAttrs>(), type(0).rank(), type(1).rank());
      n = count_along(type(0).dims, axes.lhs_contract);
    } else {
      n.most = count(type(1).dims).most;  // at the border fewer
    }
    const auto each = product(ends(0), ends(1));
    return made(each ? sum_of(n, *each) : std::nullopt);
  }

  // ---- graphs in attributes ----

  IntegerRanges looked_into(const Graph& body, const std::vector<IntegerRange>& inputs) const {
    RangeFacts facts = all_.facts_;
    facts.inputs.assign(inputs.begin(), inputs.end());
    return IntegerRanges(body, std::move(facts), depth_ + 1);
  }
  static std::vector<IntegerRange> outputs_of(const Graph& body, const IntegerRanges& ranges) {
    std::vector<IntegerRange> all;
    for (const Output& o : body.outputs()) all.push_back(ranges.of(o.ref));
    return all;
  }
  std::vector<IntegerRange> outputs_of(const Graph& body, const std::vector<IntegerRange>& inputs) const {
    return outputs_of(body, looked_into(body, inputs));
  }
  std::vector<IntegerRange> operand_ranges(size_t from = 0) const {
    std::vector<IntegerRange> all;
    for (size_t i = from; i < node_.operands.size(); ++i) all.push_back(range(i));
    return all;
  }

  std::vector<IntegerRange> decomposed(std::vector<IntegerRange> known) const {
    if (depth_ >= kDeepest) return known;
    std::vector<Type> types;
    for (Ref r : node_.operands) types.push_back(g_.type(r));
    try {
      const Graph parts = trace(types, [&](Graph& to, Values in) { return decompose(to, *node_.op, in, node_.attrs); });
      return outputs_of(parts, operand_ranges());
    } catch (const Error&) {
      return known;  // it cannot be decomposed: anything
    }
  }

  std::optional<std::vector<IntegerRange>> control(std::vector<IntegerRange> known) {
    if (node_.op == &op::if_else) return branches(known);
    return node_.op == &op::while_loop ? trips() : steps();
  }
  std::vector<IntegerRange> branches(std::vector<IntegerRange> known) {
    const auto& a = node_.attrs.as<IfAttrs>();
    const std::vector<IntegerRange> captured = operand_ranges(1);
    all_.entries_[index_] = {captured, captured};
    if (depth_ >= kDeepest) return known;
    const auto one = outputs_of(*a.then_branch, captured), other = outputs_of(*a.else_branch, captured);
    for (size_t i = 0; i < known.size(); ++i) known[i] = united(one[i], other[i]);
    return known;
  }

  /// What the carries are before and after each trip of a loop. `after` gives them after a trip from those before it;
  /// what is no integer is left alone.
  template <class After>
  std::vector<IntegerRange> settled(const Graph& body, std::vector<IntegerRange> carries, const After& after) const {
    const std::vector<IntegerRange> first = carries;
    const auto is_number = [&](size_t i) { return is_tracked(body.type(body.inputs()[i]).dtype); };
    const auto all = [&](size_t i) { return all_numbers_of(body.type(body.inputs()[i]).dtype); };
    if (depth_ >= kDeepest) {
      for (size_t i = 0; i < carries.size(); ++i)
        if (is_number(i)) carries[i] = all(i);
      return carries;
    }
    // Each end is let go once: as many rounds as that takes, and one in which nothing changes.
    const int most_rounds = kTripsTried + 2 * static_cast<int>(carries.size()) + 1;
    for (int round = 0; round < most_rounds; ++round) {
      const std::vector<IntegerRange> made = after(carries);
      bool grows = false;
      for (size_t i = 0; i < carries.size(); ++i) {
        if (!is_number(i)) continue;
        IntegerRange next = united(carries[i], made[i]);
        if (next == carries[i]) continue;
        grows = true;
        if (round >= kTripsTried) {
          if (next.least < carries[i].least) next.least = all(i).least;
          if (next.most > carries[i].most) next.most = all(i).most;
        }
        carries[i] = next;
      }
      if (!grows) break;
      if (round + 1 == most_rounds)
        for (size_t i = 0; i < carries.size(); ++i)
          if (is_number(i)) carries[i] = all(i);
    }
    // They hold in every trip; so does what one more trip makes of them, with what they began as.
    for (int round = 0; round < 2; ++round) {
      const std::vector<IntegerRange> made = after(carries);
      for (size_t i = 0; i < carries.size(); ++i)
        if (is_number(i)) carries[i] = united(first[i], made[i]);
    }
    return carries;
  }

  std::vector<IntegerRange> trips() {
    const auto& a = node_.attrs.as<WhileAttrs>();
    const std::vector<IntegerRange> operands = operand_ranges();
    const auto count = static_cast<size_t>(a.carries);
    const auto with_captured = [&](std::vector<IntegerRange> carries) {
      carries.insert(carries.end(), operands.begin() + static_cast<std::ptrdiff_t>(count), operands.end());
      return carries;
    };
    const auto entered = [&](const std::vector<IntegerRange>& carries) {
      return depth_ >= kDeepest ? with_captured(carries) : where_holds(*a.condition, with_captured(carries));
    };
    std::vector<IntegerRange> carries(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(count));
    carries =
        settled(*a.body, carries, [&](const std::vector<IntegerRange>& c) { return outputs_of(*a.body, entered(c)); });
    all_.entries_[index_] = {with_captured(carries), entered(carries)};
    return carries;
  }

  std::vector<IntegerRange> steps() {
    const auto& a = node_.attrs.as<ScanAttrs>();
    const std::vector<IntegerRange> operands = operand_ranges();
    const auto count = static_cast<std::ptrdiff_t>(a.carries);
    const auto entered = [&](std::vector<IntegerRange> carries) {
      carries.insert(carries.end(), operands.begin() + count, operands.end());
      return carries;
    };
    std::vector<IntegerRange> carries(operands.begin(), operands.begin() + count), ys;
    const auto after = [&](const std::vector<IntegerRange>& c) {
      std::vector<IntegerRange> out = outputs_of(*a.body, entered(c));
      out.resize(static_cast<size_t>(count));
      return out;
    };
    carries = settled(*a.body, carries, after);
    const std::vector<IntegerRange> entry = entered(carries);
    all_.entries_[index_] = {entry};
    std::vector<IntegerRange> results = carries;
    for (size_t i = carries.size(); i < node_.types.size(); ++i)
      results.push_back(is_tracked(dtype(i)) ? all_numbers_of(dtype(i)) : IntegerRange{});
    if (depth_ >= kDeepest) return results;
    ys = outputs_of(*a.body, entry);
    for (size_t i = carries.size(); i < results.size(); ++i) results[i] = ys[i];
    return results;
  }

  /// The inputs of a loop's condition where it holds: those that it compares with something lie on one side of that.
  std::vector<IntegerRange> where_holds(const Graph& condition, std::vector<IntegerRange> inputs) const {
    const IntegerRanges ranges = looked_into(condition, inputs);
    std::vector<Ref> open{condition.outputs()[0].ref};
    while (!open.empty()) {
      const Ref r = open.back();
      open.pop_back();
      const Node& node = condition.node(r);
      if (is_one_of(node.op, {&op::bitwise_and, &op::reshape, &op::broadcast_in_dim}))
        open.insert(open.end(), node.operands.begin(), node.operands.end());
      if (node.op != &op::compare || !is_tracked(condition.type(node.operands[0]).dtype)) continue;
      Comparison direction = node.attrs.as<CompareAttrs>().direction;
      const Ref lhs = node.operands[0], rhs = node.operands[1];
      limit(condition, ranges, lhs, direction, ranges.of(rhs), inputs);
      constexpr Comparison kTurned[] = {Comparison::eq, Comparison::ne, Comparison::gt,
                                        Comparison::ge, Comparison::lt, Comparison::le};
      limit(condition, ranges, rhs, kTurned[static_cast<size_t>(direction)], ranges.of(lhs), inputs);
    }
    return inputs;
  }
  /// `r`, if it is an input, stands in that relation to some number of `other`.
  static void limit(const Graph& condition, const IntegerRanges& ranges, Ref r, Comparison direction,
                    const IntegerRange& other, std::vector<IntegerRange>& inputs) {
    for (;;) {
      const Node& node = condition.node(r);
      const bool moves = is_one_of(node.op, {&op::reshape, &op::broadcast_in_dim});
      const bool keeps_number = node.op == &op::convert && is_tracked(condition.type(node.operands[0]).dtype) &&
                                ranges.of(node.operands[0]).fits(node.types[0].dtype) &&
                                ranges.of(node.operands[0]).most != kMost;  // which may be beyond it
      if (!moves && !keeps_number) break;
      r = node.operands[0];
    }
    const auto& all = condition.inputs();
    const auto at = static_cast<size_t>(std::find(all.begin(), all.end(), r) - all.begin());
    // Of a tensor one element decides nothing about the others.
    const Dims& dims = condition.type(r).dims;
    if (at == all.size() || std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d != Dim(1); })) return;
    IntegerRange& in = inputs[at];
    const auto below = [&](int64_t v) { in.most = std::max(in.least, std::min(in.most, v)); };
    const auto above = [&](int64_t v) { in.least = std::min(in.most, std::max(in.least, v)); };
    switch (direction) {
      case Comparison::lt: below(other.most == kLeast ? kLeast : other.most - (other.most == kMost ? 0 : 1)); break;
      case Comparison::le: below(other.most); break;
      case Comparison::gt: above(other.least == kMost ? kMost : other.least + (other.least == kLeast ? 0 : 1)); break;
      case Comparison::ge: above(other.least); break;
      case Comparison::eq: below(other.most), above(other.least); break;
      case Comparison::ne: break;
    }
  }

  const Graph& g_;
  const Node& node_;
  size_t index_;
  IntegerRanges& all_;
  int depth_;
};

IntegerRanges::IntegerRanges(const Graph& g, RangeFacts facts) : IntegerRanges(g, std::move(facts), 0) {}

IntegerRanges::IntegerRanges(const Graph& g, RangeFacts facts, int depth) : facts_(std::move(facts)) {
  ranges_.reserve(g.nodes().size());
  size_t inputs = 0;
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    const bool is_leaf = node.op == &op::input || node.op == &op::param;
    if (!is_leaf) {
      ranges_.push_back(RangeRules(g, node, n, *this, depth).results());
      continue;
    }
    const DType t = node.types[0].dtype;
    IntegerRange r = is_tracked(t) ? all_numbers_of(t) : IntegerRange{};
    if (node.op == &op::input) {
      if (inputs < facts_.inputs.size() && facts_.inputs[inputs]) r = *facts_.inputs[inputs];
      ++inputs;
    }
    ranges_.push_back({r});
  }
}

const std::vector<std::vector<IntegerRange>>& IntegerRanges::subgraph_inputs(size_t node) const {
  static const std::vector<std::vector<IntegerRange>> kNone;
  const auto found = entries_.find(node);
  return found == entries_.end() ? kNone : found->second;
}

}  // namespace rlx
