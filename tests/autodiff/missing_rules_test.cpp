// No gradient is silently zero: an op without a rule is an error that names it and where it stands, for every op; one
// whose gradient is zero says so in the table, and stands here with its reason.
#include <doctest/doctest.h>

#include <map>

#include "autodiff/transforms.h"
#include "ir/leaves.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "support/laws.h"

using namespace rlx;

namespace {

constexpr std::string_view kSteps = "piecewise constant: its derivative is zero wherever there is one";
const std::map<std::string_view, std::string_view> kZeroByNature = {
    {"floor", kSteps},
    {"ceil", kSteps},
    {"round_nearest_even", kSteps},
    {"round_nearest_afz", kSteps},
    {"stop_gradient", "on request"},
    {"scaled_quant_scale", "the range that codes are given is chosen, not computed with"},
};

bool any(const Mask& mask) { return std::find(mask.begin(), mask.end(), true) != mask.end(); }

/// The op on the operands of a sample, in a part of a model that has a name.
Graph part_of_model(const OpDef& op, const laws::Case& c) {
  Graph g("model");
  std::vector<Value> in;
  for (const Type& t : c.types) in.push_back(g.input(text_of("x", in.size()), t));
  g.set_scope("encoder.layer.3");
  for (Value v : g.emit(op, in, c.attrs)) g.output(v);
  return g;
}
/// What vjp throws; empty if it does not.
std::string refusal(const Graph& g) {
  try {
    vjp(g, differentiable_inputs(g), differentiable_outputs(g));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool maps_floats(const Graph& g) { return any(differentiable_inputs(g)) && any(differentiable_outputs(g)); }

}  // namespace

TEST_CASE("every op that maps floats to floats, without its rule, is an error that names it and where it stands") {
  size_t ops = 0;
  for (const OpDef* op : all_ops()) {
    bool counted = false;
    for (const Sample& s : op->samples()) {
      laws::Case c = laws::case_of(s);
      OpDef bare = *op;
      bare.vjp = nullptr, bare.jvp = nullptr, bare.decompose = nullptr, bare.differentiable = true;
      Graph g = part_of_model(bare, c);
      if (!maps_floats(g)) continue;
      counted = true;
      std::string wanted = text_of("'", op->name, "' has no gradient (in 'encoder.layer.3')");
      CHECK_MESSAGE(refusal(g).starts_with(wanted), op->name, ": ", refusal(g));
    }
    ops += counted;
  }
  MESSAGE(ops, " ops");
}

TEST_CASE("inside a composite, the path to the op without a rule is told") {
  static const OpDef opaque = define<>({.name = "opaque",
                                        .doc = "x",
                                        .operands = {"x"},
                                        .infer = [](Types in) { return in[0]; },
                                        .reference = [](Tensors in) { return in[0]; }});
  static const OpDef outer = define<>({.name = "outer",
                                       .doc = "opaque(2x)",
                                       .operands = {"x"},
                                       .infer = [](Types in) { return in[0]; },
                                       .decompose = [](Values in) { return emit(opaque, {in[0] * 2.0}); }});
  std::string message = refusal(part_of_model(outer, {{{f32, {3}}}, {}, -1, 1}));
  CHECK(message.starts_with("'opaque' has no gradient (in 'encoder.layer.3')"));
  CHECK(message.find("while differentiating what 'outer' is made of") != std::string::npos);
}

TEST_CASE("every op that maps floats to floats has a gradient, or is an error, or says that it is zero") {
  size_t with = 0, errors = 0, zero = 0;
  for (const OpDef* op : all_ops()) {
    bool reached = false, refused = false;
    for (const Sample& s : op->samples()) {
      laws::Case c = laws::case_of(s);
      Graph g = part_of_model(*op, c);
      if (!maps_floats(g)) continue;
      reached = true;
      std::string why = refusal(g);
      refused = refused || !why.empty();
      if (!why.empty()) CHECK_MESSAGE(why.find("has no gradient") != std::string::npos, op->name, ": ", why);
    }
    if (!reached) continue;
    CHECK_MESSAGE(op->differentiable != kZeroByNature.contains(op->name), op->name,
                  op->differentiable ? std::string(" has a gradient") : std::string(" says that its gradient is zero"));
    (refused ? errors : op->differentiable ? with : zero) += 1;
  }
  MESSAGE(with, " ops have a gradient, ", zero, " say that it is zero, ", errors, " have none");
}

TEST_CASE("what makes blocks of numbers that are differentiated is an error, and not a gradient of zeros") {
  const std::vector<Type> types(3, Type{f32, {1, 1, 4, 32}});
  const auto attended = [&](bool stops) {
    return trace(types, [&](Values v) {
      const auto packed = [&](Value x) { return quantize_blocks(stops ? stop_gradient(x) : x, q8_0); };
      return attention(v[0], packed(v[1]), packed(v[2]), AttentionAttrs{.causal = true});
    });
  };
  const Mask all = {true, true, true}, queries = {true, false, false};
  const auto says = [](auto transform) {
    try {
      transform();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string wanted = "'quantize_blocks' has no gradient";
  CHECK(says([&] { vjp(attended(false), all, {true}); }).starts_with(wanted));
  CHECK(says([&] { jvp(attended(false), all); }).starts_with(wanted));
  CHECK(says([&] { vjp(attended(false), queries, {true}); }).empty());  // keys and values are no part of it
  CHECK(says([&] { vjp(attended(true), all, {true}); }).empty());
  CHECK(says([&] { jvp(attended(true), all); }).empty());
}
