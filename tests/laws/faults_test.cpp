// A law that cannot fail proves nothing. Each fault here is one that a contributor might make; the law named beside it
// must find it, and must find nothing in a copy without the fault. The storage planner's own is in tests/plan.
#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/laws.h"

using namespace rlx;

namespace {

/// Of all devices the one that suites run on stands for the others: they have one judge.
const std::string kBackendLaw = "backend_agrees(" + Device::from_environment().name() + ")";

struct Fault {
  std::string_view law, story;
  OpDef op;
};
OpDef spoiled(const OpDef& op, void (*spoil)(OpDef&)) {
  OpDef copy = op;
  spoil(copy);
  return copy;
}

struct RoundedAttrs {  // prints fewer digits than it holds
  double epsilon = 0.125;
  RLX_FIELDS(RoundedAttrs, field("epsilon", &RoundedAttrs::epsilon));
};
void print(std::ostream& out, const RoundedAttrs& a) { out << "{epsilon = " << static_cast<int64_t>(a.epsilon) << "}"; }

std::vector<Fault> faults() {
  std::vector<Fault> all = {
      {"infer_agrees", "reduce keeps the axis in its type",
       spoiled(op::reduce, [](OpDef& d) { d.infer = [](Types in, const Attrs&) { return in[0]; }; })},
      {"infer_agrees", "compare says that it gives its operands' dtype",
       spoiled(op::compare, [](OpDef& d) { d.infer = [](Types in, const Attrs&) { return in[0]; }; })},
      {"infer_agrees", "top_k forgets its second result",
       spoiled(
           op::top_k,
           [](OpDef& d) { d.infer = [](Types in, const Attrs& a) { return Many<Type>(op::top_k.infer(in, a)[0]); }; })},
      {"decompose_agrees", "a kernel for silu that forgets the factor x",
       spoiled(op::silu,
               [](OpDef& d) {
                 d.reference = [](Tensors in, const Attrs&, const Run& run) {
                   return op::logistic.reference(in, {}, run);
                 };
               })},
      {"decompose_agrees", "gelu is decomposed into its approximation by tanh",
       spoiled(op::gelu,
               [](OpDef& d) {
                 d.decompose = [](Graph&, Values in, const Attrs&) { return Many<Value>(gelu_tanh(in[0])); };
               })},
      {"round_trips", "attributes that print fewer digits than they hold",
       define<RoundedAttrs>({.name = "rounded",
                             .operands = {"x"},
                             .infer = [](Types in, const RoundedAttrs&) { return in[0]; },
                             .decompose = [](Values in, const RoundedAttrs& a) { return in[0] + a.epsilon; },
                             .samples = {{.dims = {{2}}}}})},
      {"symbols_agree", "concatenate that counts its first operand twice where that is a symbol",
       spoiled(op::concatenate,
               [](OpDef& d) {
                 d.infer = [](Types in, const Attrs& a) {
                   auto types = op::concatenate.infer(in, a);
                   size_t axis = static_cast<size_t>(valid_axis(a.as<AxisAttrs>().axis, in[0].rank()));
                   Dim& extent = types[0].dims[axis];
                   if (!extent.is_static()) extent = extent + in[0].dims[axis];
                   return types;
                 };
               })},
      {"passes_agree", "softmax is decomposed along the first axis whatever is asked for",
       spoiled(op::softmax,
               [](OpDef& d) {
                 d.decompose = [](Graph&, Values in, const Attrs&) { return Many<Value>(exp(log_softmax(in[0], 0))); };
               })},
      {"vjp_is_gradient", "the derivative of tanh with the wrong sign",
       spoiled(op::tanh,
               [](OpDef& d) {
                 d.vjp = [](Values, Values out, Values cts, const Attrs&, const Transforms&) {
                   return Many<Value>(cts[0] * (1.0 + out[0] * out[0]));
                 };
               })},
      {"vjp_is_gradient", "moments forgets the cotangent of the variance",
       spoiled(op::moments,
               [](OpDef& d) {
                 d.vjp = [](Values in, Values, Values cts, const Attrs& a, const Transforms&) -> Many<Value> {
                   if (!cts[0]) return zeros_like(in[0]);
                   const auto& axes = a.as<ReduceDimsAttrs>().axes;
                   Dims kept = in[0].dims();
                   for (int64_t axis : axes) kept[size_t(valid_axis(axis, kept.size()))] = 1;
                   return broadcast_to(reshape(cts[0], kept), in[0].dims()) *
                          (double(element_count(kept).value()) / double(element_count(in[0].dims()).value()));
                 };
               })},
      {"jvp_transposes_vjp", "forward mode of exp counts its tangent twice",
       spoiled(op::exp,
               [](OpDef& d) {
                 d.jvp = [](Values in, Values tangents, const Attrs&, const Transforms&) {
                   Value y = exp(in[0]);
                   return Many<Value>{y, y * tangents[0] * 2.0};
                 };
               })},
      {"batch_is_loop", "a batched softmax runs along the axis that stands one place before its own",
       spoiled(op::softmax,
               [](OpDef& d) {
                 d.batch = [](Values in, const Mask&, const Attrs& a, const Transforms&) {
                   return Many<Value>(softmax(in[0], a.as<AxisAttrs>().axis));
                 };
               })},
      {"gradient_transforms", "the derivative of exp is right and has none itself",
       spoiled(op::exp,
               [](OpDef& d) {
                 d.vjp = [](Values, Values out, Values cts, const Attrs&, const Transforms&) {
                   return Many<Value>(cts[0] * stop_gradient(out[0]));
                 };
               })},
      {kBackendLaw, "softsign is decomposed without the absolute value",
       spoiled(op::softsign,
               [](OpDef& d) {
                 d.decompose = [](Graph&, Values in, const Attrs&) { return Many<Value>(in[0] / (1 + in[0] * in[0])); };
               })},
  };
  return all;
}

bool breaks(std::string_view law, const OpDef& op, std::string& why) {
  for (const Sample& s : op.samples())
    if (auto f = laws::examine(laws::find_law(law), op, s); f.outcome == laws::Outcome::broken) {
      why = f.why;
      return true;
    }
  return false;
}

}  // namespace

TEST_CASE("one planted mistake per law is shown to be caught (a test of the tests)") {
  for (const Fault& fault : faults()) {
    std::string why;
    CHECK_MESSAGE(breaks(fault.law, fault.op, why), fault.law, " does not find this fault: ", fault.story);
  }
}

TEST_CASE("a sound copy of an op breaks no law, so that it was the fault that broke one") {
  for (const Fault& fault : faults()) {
    std::string_view name = fault.op.name;
    if (name == "rounded") continue;
    const OpDef copy = find_op(name);
    // A backend knows its ops by their address: a copy of a primitive is an op that it does not have.
    if (copy.is_primitive() && fault.law.starts_with("backend")) continue;
    std::string why;
    CHECK_MESSAGE(!breaks(fault.law, copy, why), "a sound copy of ", name, " breaks ", fault.law, ": ", why);
  }
}

TEST_CASE("every law has a planted fault") {
  auto all = faults();
  for (const laws::Law& law : laws::all_laws()) {
    std::string_view name = law.name.starts_with("backend_agrees") ? kBackendLaw : law.name;
    bool planted = std::any_of(all.begin(), all.end(), [&](const Fault& f) { return f.law == name; });
    CHECK_MESSAGE(planted, law.name, " has no planted fault");
  }
}

TEST_CASE("a backend that computes another op, another dtype's rounding or too few results is found out") {
  auto found = [](const OpDef& op, const laws::Runner& runner) {
    for (const Sample& s : op.samples())
      if (laws::runs_like_the_reference(op, s, runner).outcome == laws::Outcome::broken) return true;
    return false;
  };
  Session session;
  auto sound = [&](const Graph& g, Tensors in) { return session.compile(g).run_ordered(in); };
  CHECK(!found(op::exp, sound));
  CHECK(!found(op::top_k, sound));

  CHECK_MESSAGE(found(op::exp,
                      [&](const Graph& g, Tensors in) {
                        Graph other = trace(g.input_types(), [](Values v) { return tanh(v[0]); });
                        return session.compile(other).run_ordered(in);
                      }),
                "a kernel of another op");
  CHECK_MESSAGE(found(op::exp,
                      [&](const Graph& g, Tensors in) {
                        auto out = sound(g, in);
                        if (is_float(out[0].dtype()) && out[0].element_count() > 0)
                          store<double>(out[0], 0, load<double>(out[0], 0) * (1 + 0x1p-6));
                        return out;
                      }),
                "one element that is off by 1.6 %");
  CHECK_MESSAGE(found(op::top_k,
                      [&](const Graph& g, Tensors in) {
                        auto out = sound(g, in);
                        out.pop_back();
                        return out;
                      }),
                "a result that is missing");
  CHECK_MESSAGE(found(op::neg,
                      [&](const Graph& g, Tensors in) -> std::vector<Tensor> {
                        auto out = sound(g, in);
                        return {Tensor(f64, out[0].shape())};
                      }),
                "a result of another dtype");
}
