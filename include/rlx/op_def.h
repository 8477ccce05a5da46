// An op is a table entry. `OpSpec<A>` is what its author writes; `define` erases the attributes' type into the `OpDef`
// which everything else reads. A rule is a lambda: the adaptors know which arguments it leaves off and what it returns.
#ifndef RLX_TRANSFORM  // a library without transforms (cmake/choices.cmake) drops the rule that stands behind it
#define RLX_TRANSFORM erased
#endif
#pragma once

#include <sstream>

#include "rlx/element.h"
#include "rlx/graph.h"

namespace rlx {

/// Runs a sub-graph: what the reference of an op with sub-graphs is handed, for `ops` includes no interpreter.
using Run = std::function<std::vector<Tensor>(const Graph&, Tensors)>;

/// For each of some values, whether it is meant: differentiated, batched, given.
using Mask = std::vector<bool>;
/// What rules of ops with sub-graphs are handed of the transforms (src/autodiff), which `ops` does not include. They
/// take closed graphs (no params) and nest.
struct Transforms {
  /// Inputs of g, then cotangents of the outputs in `given` -> cotangents of the inputs in `wrt`.
  Graph (*vjp)(const Graph& g, const Mask& wrt, const Mask& given);
  /// Inputs of g, then tangents of the inputs in `active` -> outputs, then tangents of the float outputs.
  Graph (*jvp)(const Graph& g, const Mask& active);
  /// The `batched` inputs of g have a new dim 0 of extent `size`; so have all outputs.
  Graph (*batch)(const Graph& g, const Mask& batched, const Dim& size);
};

/// Operands that exercise an op. The laws run over every sample, in each dtype that `infer` accepts.
struct Sample {
  std::vector<Dims> dims = {};
  std::vector<DType> dtypes = {};  ///< f64 where left out; f64 stands for "any float" in the laws
  Attrs attrs = {};                ///< the op's defaults when left out
  double lo = -2, hi = 2;          ///< of the random operands
};
/// A list, or a function that makes it: sub-graphs are built from ops that must be initialized first.
struct Samples {
  Samples() = default;
  Samples(std::initializer_list<Sample> list) : make([all = std::vector(list)] { return all; }) {}
  template <class F>
  requires std::is_invocable_r_v<std::vector<Sample>, F> Samples(F f) : make(f) {}
  std::function<std::vector<Sample>()> make;
};

struct AttrInfo {
  std::string name, kind, default_text;
};

struct OpDef {
  std::string_view name, doc, source;
  std::vector<std::string_view> operands;  ///< "x"; "mask?" may be left out, "xs..." repeats
  std::vector<std::string_view> covers;    ///< names of the published op list that it stands for, or helps to
  bool elementwise = false;                ///< each result element depends on the operands' elements at its index alone
  bool moves_data = false;                 ///< no arithmetic: bits of operands arrive unchanged, whatever their dtype
  bool differentiable = true;              ///< false: the gradient is zero, by nature (sign) or on request
  bool surrogate_gradient = false;         ///< `vjp` is no derivative but stands for one: a straight-through estimator
  std::optional<size_t> overwrites;        ///< result 0 may take the buffer of this operand
  std::function<Many<Type>(Types, const Attrs&)> infer;
  std::function<Many<Tensor>(Tensors, const Attrs&, const Run&)> reference;
  std::function<Many<Value>(Graph&, Values, const Attrs&)> decompose;
  std::function<Many<Value>(Values, const Attrs&)> save;
  std::function<Many<Value>(Values in, Values out, Values cts, const Attrs&, const Transforms&)> vjp;
  std::function<Many<Value>(Values in, Values tangents, const Attrs&, const Transforms&)> jvp;
  std::function<Many<Value>(Values, const Mask&, const Attrs&, const Transforms&)> batch;
  bool batch_takes_unbatched = false;
  std::function<Attrs(Scanner&)> parse_attrs;
  std::function<bool(const Attrs&)> takes;  ///< are these attributes of this op's struct?
  std::function<std::vector<AttrInfo>()> describe_attrs;
  std::function<std::vector<Sample>()> samples;

  bool is_primitive() const { return !decompose; }
};

/// Calls `f` with as many of the trailing arguments as it takes.
template <class F, class Tuple, size_t... First>
auto call_first(const F& f, const Tuple& args, std::index_sequence<First...>) {
  if constexpr (std::is_invocable_v<F, std::tuple_element_t<First, Tuple>...>) return f(std::get<First>(args)...);
  else return call_first(f, args, std::make_index_sequence<sizeof...(First) - 1>());
}
template <class F, class... Args>
auto call_with(const F& f, const Args&... args) {
  return call_first(f, std::tie(args...), std::index_sequence_for<Args...>());
}

// Each holds the erased function. (Deriving from std::function instead would hide emptiness: assigning an empty
// derived object to a std::function gives a full one that throws.)
template <class A>
struct Rules {
  struct Infer {
    decltype(OpDef::infer) erased;
    Infer() = default;
    template <class F>
    Infer(F f) : erased([f](Types in, const Attrs& a) { return Many<Type>(call_with(f, in, a.as<A>())); }) {}
  };
  struct Reference {
    decltype(OpDef::reference) erased;
    Reference() = default;
    template <class F>
    Reference(F f)
        : erased([f](Tensors in, const Attrs& a, const Run& run) {
            return Many<Tensor>(call_with(f, in, a.as<A>(), run));
          }) {}
  };
  struct Decompose {
    decltype(OpDef::decompose) erased;
    Decompose() = default;
    template <class F>
    Decompose(F f)
        : erased([f](Graph& g, Values in, const Attrs& a) {
            if constexpr (std::is_invocable_v<F, Graph&, Values, const A&>) return Many<Value>(f(g, in, a.as<A>()));
            else return Many<Value>(call_with(f, in, a.as<A>()));
          }) {}
  };
  struct Save {
    decltype(OpDef::save) erased;
    Save() = default;
    template <class F>
    Save(F f) : RLX_TRANSFORM([f](Values in, const Attrs& a) { return Many<Value>(call_with(f, in, a.as<A>())); }) {}
  };
  struct Vjp {
    decltype(OpDef::vjp) erased;
    Vjp() = default;
    template <class F>
    Vjp(F f)
        : RLX_TRANSFORM([f](Values in, Values out, Values cts, const Attrs& a, const Transforms& t) {
            if constexpr (std::is_invocable_v<F, Values, Value, Value, const A&>)
              return Many<Value>(f(in, out[0], cts[0], a.as<A>()));
            else if constexpr (std::is_invocable_v<F, Values, Value, Value>) return Many<Value>(f(in, out[0], cts[0]));
            else return Many<Value>(call_with(f, in, out, cts, a.as<A>(), t));
          }) {}
  };
  struct Jvp {
    decltype(OpDef::jvp) erased;
    Jvp() = default;
    template <class F>
    Jvp(F f)
        : RLX_TRANSFORM([f](Values in, Values tangents, const Attrs& a, const Transforms& t) {
            return Many<Value>(call_with(f, in, tangents, a.as<A>(), t));
          }) {}
  };
  struct Batch {
    decltype(OpDef::batch) erased;
    bool takes_unbatched = false;
    Batch() = default;
    template <class F>
    Batch(F f)
        : RLX_TRANSFORM([f](Values in, const Mask& batched, const Attrs& a, const Transforms& t) {
            if constexpr (std::is_invocable_v<F, Values, const A&>) return Many<Value>(f(in, a.as<A>()));
            else if constexpr (std::is_invocable_v<F, Values>) return Many<Value>(f(in));
            else return Many<Value>(call_with(f, in, batched, a.as<A>(), t));
          }),
          takes_unbatched(!std::is_invocable_v<F, Values, const A&> && !std::is_invocable_v<F, Values>) {}
  };
};

/// What the author of an op writes; see STYLE in CONTRIBUTING.md, "Add an op in ten minutes".
template <Attributes A>
struct OpSpec {
  std::string_view name = {}, doc = {}, source = {};
  std::vector<std::string_view> operands = {};
  std::vector<std::string_view> covers = {};
  bool elementwise = false;
  bool moves_data = false;
  bool differentiable = true;
  bool surrogate_gradient = false;
  std::optional<size_t> overwrites = {};
  typename Rules<A>::Infer infer = {};  ///< (Types) or (Types, const A&) -> Type or Types
  typename Rules<A>::Reference reference =
      {};  ///< (Tensors), (Tensors, const A&) or with a Run; required of primitives
  typename Rules<A>::Decompose decompose = {};  ///< (Values), (Values, const A&) or (Graph&, Values, const A&)
  /// (Values) or (Values, const A&) -> the results, then what `vjp` wants kept beside them.
  typename Rules<A>::Save save = {};
  /// (Values in, Value out, Value ct, const A&) for one result, or (Values in, Values out, Values cts, const A&, const
  /// Transforms&) -> a cotangent for each operand; empty where it is zero. An absent cotangent is an empty Value, and
  /// means zero. Linear in the cotangents. `out` holds the results, then what `save` kept.
  typename Rules<A>::Vjp vjp = {};
  /// (Values in, Values tangents, const A&, const Transforms&) -> the results, then the tangents of the float ones.
  typename Rules<A>::Jvp jvp = {};
  /// (Values, const A&), all operands batched, or (Values, const Mask&, const A&, const Transforms&) -> the results.
  /// The batch is dim 0. To decline, return nothing: the op is then looped over.
  typename Rules<A>::Batch batch = {};
  Samples samples = {};
};

template <Attributes A = NoAttrs>
OpDef define(OpSpec<A> s) {
  OpDef op;
  op.name = s.name, op.doc = s.doc, op.source = s.source;
  op.operands = std::move(s.operands), op.covers = std::move(s.covers);
  op.elementwise = s.elementwise, op.moves_data = s.moves_data, op.differentiable = s.differentiable;
  op.surrogate_gradient = s.surrogate_gradient;
  op.overwrites = s.overwrites;
  op.infer = std::move(s.infer.erased);
  op.reference = std::move(s.reference.erased);
  op.decompose = std::move(s.decompose.erased);
  op.save = std::move(s.save.erased), op.vjp = std::move(s.vjp.erased), op.jvp = std::move(s.jvp.erased);
  op.batch = std::move(s.batch.erased), op.batch_takes_unbatched = s.batch.takes_unbatched;
  op.parse_attrs = [](Scanner& in) -> Attrs {
    A a;
    parse(in, a);
    return a;
  };
  op.takes = [](const Attrs& a) { return a.empty() || a.holds<A>(); };
  op.describe_attrs = [] {
    std::vector<AttrInfo> all;
    A defaults{};
    for_each_field<A>([&](auto f) {
      std::ostringstream text;
      if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(defaults.*f.member)>, Subgraph>)
        print(text, defaults.*f.member);
      all.push_back({std::string(f.name), kind_name(defaults.*f.member), text.str()});
    });
    return all;
  };
  op.samples = [make = s.samples.make] {
    auto all = make ? make() : std::vector<Sample>{};
    for (Sample& sample : all)
      if (sample.attrs.empty()) sample.attrs = A{};
    return all;
  };
  return op;
}

/// The op's types for these operands and attributes: `infer`, after the count of operands was checked.
std::vector<Type> infer_types(const OpDef& op, Types operands, const Attrs& attrs);

/// Whether a sub-graph is among the attributes: control flow, combiners, comparators. Its types are fixed, so no rule
/// may be run on other dtypes than the op's own.
bool holds_subgraph(const Attrs& attrs);

/// Emits what the op is made of. An op on f16 or bf16 is computed in f32 and rounded once (docs/ir.md, "Low
/// precision"): the converts are added here, so that no entry has to. Fails for a primitive.
std::vector<Value> decompose(Graph& to, const OpDef& op, Values operands, const Attrs& attrs);

/// The library's ops, then those that were registered.
std::vector<const OpDef*> all_ops();
/// The op of that name; an rlx::Error (parse) that names the nearest one if there is none.
const OpDef& find_op(std::string_view name);

/// Makes an op from outside the library known by its name: to the reader of text, and to those who list ops. (Nodes are
/// emitted, inferred and run without it.) The OpDef stays where it is for as long as a graph uses it. Fails if the name
/// is taken, or no word of letters, digits and '_', or if the op has no `infer`, or neither reference nor
/// decomposition.
void register_op(const OpDef& op);
/// Forgets it again; fails if it is not registered.
void unregister_op(const OpDef& op);

}  // namespace rlx
