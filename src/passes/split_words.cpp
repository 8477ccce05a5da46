// See the header. Multiplication goes by halves of words, division bit by bit (Knuth, TAOCP 2, 4.3.1).
#include "passes/split_words.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "ir/leaves.h"
#include "passes/subgraphs.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

constexpr bool is_double_word(DType t) { return t == i64 || t == u64; }

struct Words {
  Value high, low;  ///< u32
};

Value as_i32(Value x) { return convert(x, i32); }
Value as_word(Value x) { return convert(x, u32); }
Value shifted_right(Value x, int64_t by) { return shift_right_logical(x, full_like(x, static_cast<double>(by))); }
Value shifted_left(Value x, int64_t by) { return shift_left(x, full_like(x, static_cast<double>(by))); }
Words choose(Value c, Words a, Words b) { return {select(c, a.high, b.high), select(c, a.low, b.low)}; }
/// Copies of the sign of the word's number.
Value sign_of_word(Value x) {
  Value number = as_i32(x);
  return as_word(shift_right_arithmetic(number, full_like(number, 31)));
}
Words zeros(Value like) { return {zeros_like(like), zeros_like(like)}; }

Words sum(Words a, Words b) {
  Value low = a.low + b.low, carry = as_word(compare(low, a.low, Comparison::lt));
  return {a.high + b.high + carry, low};
}
Words difference(Words a, Words b) {
  Value borrow = as_word(compare(a.low, b.low, Comparison::lt));
  return {a.high - b.high - borrow, a.low - b.low};
}
Words negated(Words x) { return difference(zeros(x.low), x); }
Value is_negative(Words x) { return compare(as_i32(x.high), full_like(as_i32(x.high), 0), Comparison::lt); }
/// All 64 bits of a product of words.
Words full_product(Value a, Value b) {
  Value a1 = shifted_right(a, 16), b1 = shifted_right(b, 16);
  Value a0 = a - shifted_left(a1, 16), b0 = b - shifted_left(b1, 16);
  Value low = a0 * b0, middle = a1 * b0 + shifted_right(low, 16);  // below 2^32
  Value m1 = shifted_right(middle, 16), m0 = middle - shifted_left(m1, 16);
  Value other = a0 * b1 + m0;
  return {a1 * b1 + m1 + shifted_right(other, 16), a * b};
}
Words product(Words a, Words b) {
  Words p = full_product(a.low, b.low);
  return {p.high + a.low * b.high + a.high * b.low, p.low};
}
Value equal(Words a, Words b) {
  return bitwise_and(compare(a.high, b.high, Comparison::eq), compare(a.low, b.low, Comparison::eq));
}
Value below(Words a, Words b, bool is_signed) {
  Value high =
      is_signed ? compare(as_i32(a.high), as_i32(b.high), Comparison::lt) : compare(a.high, b.high, Comparison::lt);
  Value same = compare(a.high, b.high, Comparison::eq);
  return bitwise_or(high, bitwise_and(same, compare(a.low, b.low, Comparison::lt)));
}
Value compared(Words a, Words b, Comparison direction, bool is_signed) {
  switch (direction) {
    case Comparison::eq: return equal(a, b);
    case Comparison::ne: return bitwise_not(equal(a, b));
    case Comparison::lt: return below(a, b, is_signed);
    case Comparison::gt: return below(b, a, is_signed);
    case Comparison::le: return bitwise_not(below(b, a, is_signed));
    default: return bitwise_not(below(a, b, is_signed));
  }
}

/// A number of places that is known, and the same for all.
std::optional<int64_t> known_count(const Graph& g, Ref r) {
  while (g.node(r).op == &op::broadcast_in_dim || g.node(r).op == &op::reshape || g.node(r).op == &op::convert)
    r = g.node(r).operands[0];
  const Node& node = g.node(r);
  if (node.op != &op::constant) return std::nullopt;
  const Tensor& t = node.attrs.as<ConstantAttrs>().value;
  if (t.element_count() != 1 || !is_integer(t.dtype())) return std::nullopt;
  double n = load_number(t, 0);
  return n >= 0 && n < 64 ? std::optional(static_cast<int64_t>(n)) : 64;
}

/// Right, with copies of the sign if `arithmetic`.
Words moved_right(Words x, int64_t by, bool arithmetic) {
  Value fill = arithmetic ? sign_of_word(x.high) : zeros_like(x.high);
  auto down = [&](Value v, int64_t n) {
    if (!arithmetic) return shifted_right(v, n);
    Value number = as_i32(v);
    return as_word(shift_right_arithmetic(number, full_like(number, static_cast<double>(n))));
  };
  if (by == 0) return x;
  if (by >= 64) return {fill, fill};
  if (by == 32) return {fill, x.high};
  if (by > 32) return {fill, down(x.high, by - 32)};
  return {down(x.high, by), shifted_left(x.high, 32 - by) + shifted_right(x.low, by)};
}
Words moved_left(Words x, int64_t by) {
  if (by == 0) return x;
  if (by >= 64) return zeros(x.low);
  if (by == 32) return {x.low, zeros_like(x.low)};
  if (by > 32) return {shifted_left(x.low, by - 32), zeros_like(x.low)};
  return {shifted_left(x.high, by) + shifted_right(x.low, 32 - by), shifted_left(x.low, by)};
}
/// By a number of places for each element: by powers of two, those whose bit the number has.
Words moved(Words x, Words count, const std::function<Words(Words, int64_t)>& by) {
  Value beyond = bitwise_or(compare(count.high, zeros_like(count.high), Comparison::ne),
                            compare(count.low, full_like(count.low, 64), Comparison::ge));
  for (int64_t places : {32, 16, 8, 4, 2, 1}) {
    Value half = shifted_right(count.low, static_cast<int64_t>(std::log2(places)));
    Value odd = compare(half - shifted_left(shifted_right(half, 1), 1), zeros_like(half), Comparison::ne);
    x = choose(odd, by(x, places), x);
  }
  return choose(beyond, by(x, 64), x);
}

struct Division {
  Words quotient, rest;
};
/// Without signs, by the schoolbook's method: one bit of the quotient a trip.
Division divided(Words x, Words y) {
  Graph& g = x.low.graph();
  Value none = zeros_like(x.low);
  // Carried: the trip, the dividend that is left with the quotient's bits behind it, the rest. Captured: the divisor.
  std::vector<Value> operands{g.constant(Tensor(i32, {})), x.high, x.low, none, none, y.high, y.low};
  std::vector<Type> types;
  for (const Value& v : operands) types.push_back(v.type());
  Graph goes_on = trace(types, [](Graph& to, Values v) -> Many<Value> {
    return compare(v[0], to.constant(full(i32, {}, 64)), Comparison::lt);
  });
  Graph step = trace(types, [](Graph& to, Values v) -> Many<Value> {
    Words left{v[1], v[2]}, rest{v[3], v[4]}, divisor{v[5], v[6]};
    Value top = shifted_right(left.high, 31), lost = shifted_right(rest.high, 31);
    Words next = moved_left(rest, 1);
    next.low = next.low + top;
    // A bit that leaves the rest makes it larger than any divisor.
    Value fits = bitwise_or(compare(lost, zeros_like(lost), Comparison::ne), bitwise_not(below(next, divisor, false)));
    Words reduced = choose(fits, difference(next, divisor), next), shifted = moved_left(left, 1);
    shifted.low = shifted.low + as_word(fits);
    return {v[0] + to.constant(full(i32, {}, 1)), shifted.high, shifted.low, reduced.high, reduced.low};
  });
  auto out = while_loop(operands, {5, goes_on, step, 64});
  return {{out[1], out[2]}, {out[3], out[4]}};
}
/// Quotient towards zero or remainder of the dividend's sign; by zero all bits set, and the dividend.
Words quotient_or_rest(Words x, Words y, bool is_signed, bool rest) {
  Value x_negative = is_negative(x), y_negative = is_negative(y);
  Division d =
      is_signed ? divided(choose(x_negative, negated(x), x), choose(y_negative, negated(y), y)) : divided(x, y);
  Words r = rest ? d.rest : d.quotient;
  if (is_signed) r = choose(rest ? x_negative : bitwise_xor(x_negative, y_negative), negated(r), r);
  Value by_zero = equal(y, zeros(y.low)), ones = bitwise_not(zeros_like(y.low));
  return choose(by_zero, rest ? x : Words{ones, ones}, r);
}

bool moves(const OpDef* op) {
  for (const OpDef* each : {&op::broadcast_in_dim, &op::reshape, &op::transpose, &op::slice, &op::pad, &op::concatenate,
                            &op::reverse, &op::select, &op::stop_gradient})
    if (op == each) return true;
  return false;
}
bool has_rule(const OpDef* op) {
  if (moves(op)) return true;
  for (const OpDef* each : {&op::constant,
                            &op::iota,
                            &op::gather,
                            &op::convert,
                            &op::add,
                            &op::sub,
                            &op::mul,
                            &op::neg,
                            &op::abs,
                            &op::sign,
                            &op::div,
                            &op::rem,
                            &op::bitwise_and,
                            &op::bitwise_or,
                            &op::bitwise_xor,
                            &op::bitwise_not,
                            &op::shift_left,
                            &op::shift_right_logical,
                            &op::shift_right_arithmetic,
                            &op::compare,
                            &op::maximum,
                            &op::minimum})
    if (op == each) return true;
  return false;
}
bool reads_high(const Node& node, DType x) {
  if (!is_double_word(x)) return false;
  if (node.op == &op::shift_right_logical || node.op == &op::shift_right_arithmetic) return true;
  return x == u64 && (node.op == &op::div || node.op == &op::rem);
}

/// Which values become words: those that hang together with a node that reads high ones.
class Together {
 public:
  Together(const Graph& g, bool all) : parent_(g.nodes().size()), wanted_(g.nodes().size(), all) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (!has_rule(node.op) || node.operands.empty()) continue;
      bool is_joined = is_double_word(node.types[0].dtype);
      size_t with = n;
      for (Ref r : node.operands) {
        auto from = static_cast<size_t>(r.node);
        if (!is_double_word(g.type(r).dtype) || !has_rule(g.node(r).op)) continue;
        if (is_joined) parent_[root(from)] = root(with);
        is_joined = true, with = from;
      }
    }
    if (all) return;
    std::vector<bool> roots(g.nodes().size());
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (node.operands.empty() || !reads_high(node, g.type(node.operands[0]).dtype)) continue;
      roots[root(n)] = true;
    }
    for (size_t n = 0; n < g.nodes().size(); ++n) wanted_[n] = roots[root(n)];
  }
  bool wanted(size_t n) const { return wanted_[n]; }

 private:
  size_t root(size_t n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }
  std::vector<size_t> parent_;
  std::vector<bool> wanted_;
};

class WordSplitter {
 public:
  WordSplitter(const Graph& from, bool all, bool is_body)
      : from_(from), all_(all), is_body_(is_body), together_(from, all), words_(from.nodes().size()) {}

  Graph run() {
    return rewritten(from_, [&](const Site& site) -> std::optional<std::vector<Value>> {
      const Node& node = site.node;
      if (!has_rule(node.op) || node.types.size() != 1) return std::nullopt;
      bool wide = is_double_word(node.types[0].dtype), any = wide;
      for (Ref r : node.operands) any |= is_double_word(from_.type(r).dtype);
      if (!any || !is_wanted(site)) return std::nullopt;
      if (!wide) return std::vector{narrow(site)};
      Words made = split(site);
      words_[site.index] = made;
      return std::vector{joined(made, node.types[0].dtype)};
    });
  }

 private:
  bool is_wanted(const Site& site) const {
    if (is_double_word(site.node.types[0].dtype)) return together_.wanted(site.index);
    for (Ref r : site.node.operands)
      if (is_double_word(from_.type(r).dtype) && words_[static_cast<size_t>(r.node)]) return true;
    return false;
  }
  /// The low word, as what has no rule takes it.
  static Value joined(Words w, DType dtype) { return convert(dtype == i64 ? as_i32(w.low) : w.low, dtype); }
  /// The words of an operand; of an input its low word and its sign.
  Words words(const Site& site, size_t i) const {
    Ref r = site.node.operands[i];
    if (const auto& held = words_[static_cast<size_t>(r.node)]) return *held;
    // Where integers are narrowed, what lost its high words on the way here is not what was computed.
    const Node& maker = from_.node(r);
    bool is_input = maker.op == &op::input || maker.op == &op::param;
    if (!all_ && is_double_word(from_.type(r).dtype) && (!is_input || is_body_))
      fail(ErrorCode::unsupported, "high words of ", from_.type(r), " are read behind ", site.node.op->name,
           ", which takes it from ", is_input ? "outside its loop or branch" : maker.op->name,
           ", and that hands on the low 32 bits alone: no rule makes pairs of words of it. Convert what it takes to 32 "
           "bits if its numbers fit, or run this on another device");
    return extended(site.operands[i]);
  }
  static Words extended(Value x) {
    if (x.dtype() == boolean || kind_of(x.dtype()) == Kind::unsigned_int) {
      Value low = as_word(x);
      return {zeros_like(low), low};
    }
    Value low = as_word(as_i32(x));
    return {sign_of_word(low), low};
  }

  /// What is no double word itself: comparisons, conversions, and what is read at places that are.
  Value narrow(const Site& site) const {
    DType from = from_.type(site.node.operands[0]).dtype;
    if (site.node.op == &op::gather) return gather(site.operands[0], places(site), site.node.attrs.as<GatherAttrs>());
    if (site.node.op == &op::compare)
      return compared(words(site, 0), words(site, 1), site.node.attrs.as<CompareAttrs>().direction, from == i64);
    Words w = words(site, 0);
    DType to = site.node.types[0].dtype;
    if (to == boolean) return compare(bitwise_or(w.high, w.low), zeros_like(w.low), Comparison::ne);
    if (is_integer(to)) return convert(kind_of(to) == Kind::signed_int ? as_i32(w.low) : w.low, to);
    // Of the magnitude: a small negative number is the difference of two large ones.
    DType real = info(to).bits < 32 ? f32 : to;
    std::optional<Value> negative;
    if (from == i64) {
      negative = is_negative(w);
      w = choose(*negative, negated(w), w);
    }
    Value y = real == f32 ? rounded_once(w, info(to).bits < 32)
                          : convert(w.high, real) * std::ldexp(1.0, 32) + convert(w.low, real);
    return convert(negative ? select(*negative, -y, y) : y, to);
  }
  /// In f32: of the leading 32 bits, the last of which also says whether any of the others is set. For narrower floats
  /// of 24 bits, which f32 holds, so that what narrows them rounds for the first time.
  static Value rounded_once(Words w, bool for_narrower) {
    auto any = [](Value x) { return as_word(compare(x, zeros_like(x), Comparison::ne)); };
    Value scale = full_like(convert(w.high, f32), std::ldexp(1.0, 32));
    for (int64_t places : {32, 16, 8, 4, 2, 1}) {
      Value free = compare(w.high, full_like(w.high, std::ldexp(1.0, 32 - static_cast<int>(places))), Comparison::lt);
      w = choose(free, moved_left(w, places), w);
      scale = select(free, scale * std::ldexp(1.0, -static_cast<int>(places)), scale);
    }
    Value leading = bitwise_or(w.high, any(w.low));
    if (!for_narrower) return convert(leading, f32) * scale;
    Value kept = shifted_right(leading, 8), cut = leading - shifted_left(kept, 8);
    return convert(bitwise_or(kept, any(cut)), f32) * (scale * 256.0);
  }

  /// A gather's indices as 32 bits: what these do not hold as the furthest that they do.
  Value places(const Site& site) const {
    Ref r = site.node.operands[1];
    const auto& held = words_[static_cast<size_t>(r.node)];
    if (!held) return site.operands[1];
    if (from_.type(r).dtype == u64)
      return select(compare(held->high, zeros_like(held->high), Comparison::eq), held->low,
                    bitwise_not(zeros_like(held->low)));
    Value low = as_i32(held->low), sign = as_i32(sign_of_word(held->high));
    Value furthest = bitwise_xor(sign, full_like(sign, std::numeric_limits<int32_t>::max()));
    return select(compare(held->high, sign_of_word(held->low), Comparison::eq), low, furthest);
  }
  Words gathered(const Site& site) const {
    Words x = words(site, 0);
    Value at = places(site);
    const auto& a = site.node.attrs.as<GatherAttrs>();
    Words y{gather(x.high, at, a), gather(x.low, at, a)};
    if (a.out_of_range != OutOfRange::fill || site.node.types[0].dtype == u64) return y;
    // Out of range words without a sign have all bits set, and i64 is the least.
    Value none = zeros_like(y.low), lost = compare(gather(zeros_like(x.low), at, a), none, Comparison::ne);
    return choose(lost, {full_like(none, std::ldexp(1.0, 31)), none}, y);
  }

  Words split(const Site& site) const {
    const Node& node = site.node;
    const OpDef* op = node.op;
    DType dtype = node.types[0].dtype;
    bool is_signed = dtype == i64;
    if (op == &op::constant) return of_constant(site.to, node.attrs.as<ConstantAttrs>().value);
    if (op == &op::iota) {
      IotaAttrs a = node.attrs.as<IotaAttrs>();
      a.type.dtype = u32;
      Value low = site.to.emit(*op, {}, a)[0];
      return {zeros_like(low), low};
    }
    if (op == &op::convert) return converted(site, dtype);
    if (op == &op::gather) return gathered(site);
    if (moves(op)) {
      std::vector<Value> high, low;
      for (size_t i = 0; i < site.operands.size(); ++i) {
        bool wide = is_double_word(from_.type(node.operands[i]).dtype);
        Words w = wide ? words(site, i) : Words{site.operands[i], site.operands[i]};
        high.push_back(w.high), low.push_back(w.low);
      }
      return {site.to.emit(*op, high, node.attrs)[0], site.to.emit(*op, low, node.attrs)[0]};
    }
    Words x = words(site, 0);
    if (op == &op::neg) return negated(x);
    if (op == &op::bitwise_not) return {bitwise_not(x.high), bitwise_not(x.low)};
    if (op == &op::abs) return choose(is_negative(x), negated(x), x);
    if (op == &op::sign) {
      Value set = as_word(compare(bitwise_or(x.high, x.low), zeros_like(x.low), Comparison::ne));
      Words one{zeros_like(set), set};
      return is_signed ? choose(is_negative(x), negated(one), one) : one;
    }
    Words y = words(site, 1);
    if (op == &op::add) return sum(x, y);
    if (op == &op::sub) return difference(x, y);
    if (op == &op::mul) return product(x, y);
    if (op == &op::bitwise_and) return {bitwise_and(x.high, y.high), bitwise_and(x.low, y.low)};
    if (op == &op::bitwise_or) return {bitwise_or(x.high, y.high), bitwise_or(x.low, y.low)};
    if (op == &op::bitwise_xor) return {bitwise_xor(x.high, y.high), bitwise_xor(x.low, y.low)};
    if (op == &op::maximum) return choose(below(x, y, is_signed), y, x);
    if (op == &op::minimum) return choose(below(y, x, is_signed), y, x);
    if (op == &op::div || op == &op::rem) return quotient_or_rest(x, y, is_signed, op == &op::rem);
    auto by = [&](Words v, int64_t n) {
      return op == &op::shift_left ? moved_left(v, n) : moved_right(v, n, op == &op::shift_right_arithmetic);
    };
    auto count = known_count(from_, node.operands[1]);
    return count ? by(x, *count) : moved(x, y, by);
  }

  static Words of_constant(Graph& to, const Tensor& t) {
    Tensor high = Tensor::uninitialized(u32, t.shape()), low = high;
    for (size_t i = 0; i < t.element_count(); ++i) {
      uint64_t bits = t.dtype() == u64 ? load<uint64_t>(t, i) : static_cast<uint64_t>(load<int64_t>(t, i));
      high.mutable_values<uint32_t>()[i] = static_cast<uint32_t>(bits >> 32);
      low.mutable_values<uint32_t>()[i] = static_cast<uint32_t>(bits);
    }
    return {to.constant(high), to.constant(low)};
  }

  Words converted(const Site& site, DType dtype) const {
    DType from = from_.type(site.node.operands[0]).dtype;
    Value x = site.operands[0];
    if (is_double_word(from)) return words(site, 0);
    if (!is_float(from)) return extended(x);
    // The magnitude's words, without what is behind the point; what is no number becomes 0, what lies beyond becomes
    // the nearest there is.
    if (info(from).bits < 32) x = convert(x, f32);
    Value number = select(compare(x, x, Comparison::eq), x, zeros_like(x)), none = zeros_like(x);
    Value negative = compare(number, none, Comparison::lt), magnitude = floor(abs(number));
    double two32 = std::ldexp(1.0, 32);
    Value top = floor(magnitude * (1 / two32));
    Words inside{as_word(top), as_word(magnitude - top * two32)};
    auto of = [&](double high, double low) { return Words{full_like(inside.low, high), full_like(inside.low, low)}; };
    const double all = two32 - 1, sign = std::ldexp(1.0, 31);
    Value beyond = compare(magnitude, full_like(x, std::ldexp(1.0, dtype == i64 ? 63 : 64)), Comparison::ge);
    if (dtype == u64) return choose(negative, of(0, 0), choose(beyond, of(all, all), inside));
    return choose(beyond, choose(negative, of(sign, 0), of(sign - 1, all)), choose(negative, negated(inside), inside));
  }

  const Graph& from_;
  bool all_, is_body_;
  Together together_;
  std::vector<std::optional<Words>> words_;
};

}  // namespace

std::optional<std::string> cannot_split_words(const Question& q) {
  if (!has_rule(q.node.op)) return "no rule makes pairs of words of its integers of 64 bits";
  return std::nullopt;
}

bool reads_high_words(const Graph& g) {
  bool found = false;
  for (const Node& node : g.nodes()) {
    if (!node.operands.empty()) found |= reads_high(node, g.type(node.operands[0]).dtype);
    if (!node.attrs.empty())
      with_subgraphs(node.attrs, [&](const Graph& body) { return found |= reads_high_words(body), body; });
  }
  return found;
}

Graph split_word_signature(const Graph& g) {
  const auto places = [](Value like, double by) { return full_like(like, by); };
  Graph to(g.name());
  const auto joined = [&](Ref r) {
    const Node& leaf = g.node(r);
    const Type& type = leaf.types[0];
    const auto made = [&](const std::string& name, DType dtype) {
      return leaf.op == &op::param ? to.param(name, dtype, type.dims) : to.input(name, dtype, type.dims);
    };
    if (!is_double_word(type.dtype)) return made(leaf.name, type.dtype);
    const Value high = made(leaf.name + "_high", i32), low = made(leaf.name + "_low", i32);
    const Value whole = convert(high, type.dtype), rest = convert(as_word(low), type.dtype);
    return bitwise_or(shift_left(whole, places(whole, 32)), rest);
  };
  const std::vector<Value> outputs = replay(to, g, joined, {});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value y = outputs[i];
    const std::string& name = g.outputs()[i].name;
    if (!is_double_word(y.type().dtype)) {
      to.output(y, name);
      continue;
    }
    to.output(convert(shift_right_logical(y, places(y, 32)), i32), name + "_high");
    to.output(convert(y, i32), name + "_low");
  }
  return to;
}

Graph split_words(const Graph& g, bool all) {
  auto in_body = [&](const Graph& body) { return WordSplitter(body, all, true).run(); };
  Graph outer = rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (!holds_programs(site.node)) return std::nullopt;
    Attrs attrs = with_subgraphs(site.node.attrs, [&](const Graph& body) { return with_bodies(body, in_body); });
    return site.to.emit(*site.node.op, {site.operands.begin(), site.operands.end()}, std::move(attrs));
  });
  return WordSplitter(outer, all, false).run();
}

}  // namespace rlx
