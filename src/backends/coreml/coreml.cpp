// Claims, and the walk over a legal graph that writes its program.
#include "backends/coreml/coreml.h"

#include "backends/coreml/lowerings.h"
#include "ir/leaves.h"
#include "rlx/fields.h"
#include "rlx/ops.h"

namespace rlx::coreml {
namespace {

constexpr int kOldestOpset = 5, kFirstSpecification = 6;  // specification 6 has CoreML5

std::optional<std::string> refusal_of(const Question& q, const Options& options) {
  if (q.node.op == &op::input || q.node.op == &op::param) return std::nullopt;
  TypeRules rules{options.narrow};
  for (const Type& t : q.operands)
    if (auto why = not_carried(t, rules)) return why;
  for (const Type& t : q.node.types)
    if (auto why = not_carried(t, rules)) return why;
  std::string why;
  if (!find_row(q, options.newest_opset, &why)) return why;
  return std::nullopt;
}

class CoreML final : public Backend {
 public:
  explicit CoreML(Options options) : options_(options) {}
  std::string name() const override { return "coreml"; }
  std::string description() const override { return "writes ML Programs"; }
  std::string unavailable() const override {
    return "CoreML.framework is on Apple's systems only; packages are written here";
  }
  Target target() const override {
    return {"coreml", [options = options_](const Question& q) { return refusal_of(q, options); }};
  }
  std::unique_ptr<Program> lower(Graph) const override {
    fail(ErrorCode::unsupported, "an ML Program is written to a package, not run here: see `rlx convert`");
  }

 private:
  Options options_;
};

/// A constant in a dtype that programs compute with.
Tensor carried_constant(const Tensor& t) {
  DType dtype = *carried(t.dtype());
  Shape shape = t.rank() == 0 ? Shape{1} : t.shape();
  if (dtype == t.dtype()) return t.reshaped(shape);
  Tensor converted = Tensor::uninitialized(dtype, shape);
  for (size_t i = 0; i < t.element_count(); ++i) {
    if (is_float(dtype)) store<double>(converted, i, load_number(t, i));
    else store<int64_t>(converted, i, load_index(t, i));
  }
  return converted;
}

class Walk {
 public:
  Walk(Emitter& e, const Options& options) : e_(e), options_(options) {}

  /// Writes the nodes of g; its inputs are `inputs`. Returns its outputs.
  std::vector<Var> write(const Graph& g, const std::vector<Var>& inputs) {
    Values values(g.nodes().size());
    for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(g.inputs()[i].node)] = {{inputs[i], {}}};
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (node.op == &op::input) continue;
      if (node.op == &op::param)
        fail(ErrorCode::invalid_argument, "the param '", node.name,
             "' has no value; a package holds its weights: bind it first");
      if (node.op == &op::constant) {
        const Tensor& t = node.attrs.as<ConstantAttrs>().value;
        note_narrowed(t);
        values[n] = {{e_.constant(carried_constant(t)), {}}};
        continue;
      }
      with_context([&] { return text_of("writing ", node.op->name, node.name.empty() ? "" : " '" + node.name + "'"); },
                   [&] { write_node(g, n, values); });
    }
    std::vector<Var> outputs;
    for (const Output& out : g.outputs()) outputs.push_back(whole(values, out.ref));
    return outputs;
  }

  int opset() const { return opset_; }
  const std::string& needed_by() const { return needed_by_; }
  const std::vector<std::string>& notes() const { return notes_; }
  void note(std::string text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
  }

 private:
  /// A value, and the shape to which it is still to be repeated, if it is.
  struct Held {
    Var var;
    Shape repeated;
  };
  using Values = std::vector<std::vector<Held>>;

  static Held& held(Values& values, Ref r) {
    return values[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)];
  }
  Var whole(Values& values, Ref r) {
    Held& h = held(values, r);
    if (!h.repeated.empty()) h = {e_.broadcast(h.var, h.repeated), {}};
    return h.var;
  }

  void note_narrowed(const Tensor& t) {
    if (t.dtype() != i64) return;
    for (int64_t v : t.values<int64_t>())
      if (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max())
        return note(text_of("a constant holds ", v, ", which i32 cannot: it wraps"));
  }

  void write_node(const Graph& g, size_t n, Values& values) {
    const Node& node = g.nodes()[n];
    std::vector<Type> types;
    for (Ref r : node.operands) types.push_back(g.type(r));
    std::string why;
    const Row* row = find_row({node, types}, options_.newest_opset, &why);
    if (!row) fail(ErrorCode::unsupported, "an ML Program cannot hold it: ", why);
    if (row->opset > opset_) opset_ = row->opset, needed_by_ = node.op->name;
    for (const Type& t : node.types)
      if (info(t.dtype).bits > 32) note(text_of(t.dtype, " is narrowed to ", *carried(t.dtype)));
    Lowering l{e_,
               node,
               types,
               [&](size_t i) { return whole(values, node.operands[i]); },
               [&](size_t i) { return held(values, node.operands[i]).var; },
               [&](size_t i) { return number_of(g, node.operands[i]); },
               [&](size_t i) { return g.node(node.operands[i]).op == &op::constant; },
               [&](const Graph& body, const std::vector<Var>& inputs) { return write(body, inputs); }};
    std::vector<Var> results = row->lower(l);
    values[n].clear();
    for (size_t i = 0; i < results.size(); ++i) {
      Shape shape = l.shape(i);
      // Of fewer elements: what only repeats (broadcast_in_dim, iota) leaves that to its users.
      bool repeats = results[i].shape != shape;
      values[n].push_back({results[i], repeats ? shape : Shape{}});
    }
  }

  static std::optional<double> number_of(const Graph& g, Ref r) {
    const Node& node = g.node(r);
    if (node.op != &op::constant) return std::nullopt;
    const Tensor& t = node.attrs.as<ConstantAttrs>().value;
    if (t.element_count() != 1 || is_complex(t.dtype())) return std::nullopt;
    return load_number(t, 0);
  }

  Emitter& e_;
  const Options& options_;
  int opset_ = kOldestOpset;
  std::string needed_by_;
  std::vector<std::string> notes_;
};

/// The dtype in which a value crosses the boundary of a model.
DType boundary_dtype(DType carried_dtype, int opset) {
  if (carried_dtype == boolean) return i32;
  if (carried_dtype == f16 && opset == kOldestOpset) return f32;
  return carried_dtype;
}

mil::Feature feature_of(const Var& v) { return {.name = v.name, .shape = v.shape, .dtype = v.dtype}; }

}  // namespace

std::unique_ptr<Backend> make_backend(const Options& options) { return std::make_unique<CoreML>(options); }

Translated translate(const Graph& legal, const Options& options) {
  // The first walk finds the opset, on which the types of inputs and outputs depend.
  int opset = kOldestOpset;
  for (const Type& t : legal.input_types())
    if (t.dtype == f16 && options.newest_opset > kOldestOpset) opset = kOldestOpset + 1;
  bool f16_boundary = opset > kOldestOpset;
  for (const Type& t : legal.output_types())
    if (t.dtype == f16 && options.newest_opset > kOldestOpset) opset = kOldestOpset + 1, f16_boundary = true;
  for (int attempt = 0;; ++attempt) {
    Emitter e(opset);
    Walk walk(e, options);
    Translated result;
    mil::Function main;
    std::vector<Var> inputs;
    TypeRules rules{options.narrow};
    auto types = legal.input_types();
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string& name = legal.node(legal.inputs()[i]).name;
      if (auto why = not_carried(types[i], rules)) fail(ErrorCode::unsupported, "the input '", name, "': ", *why);
      DType dtype = *carried(types[i].dtype);
      Var in{e.fresh(name), boundary_dtype(dtype, opset), carried_shape(types[i])};
      if (in.name != name) walk.note(text_of("the input '", name, "' is called '", in.name, "'"));
      if (in.dtype != types[i].dtype || types[i].rank() == 0)
        walk.note(text_of("the input '", in.name, "' is ", types[i], " in the graph, and ", in.dtype,
                          in.shape.size() == 1 && types[i].rank() == 0 ? "[1]" : "", " in the package"));
      main.inputs.push_back({in.name, mil::ValueType::tensor(mil::data_type_of(in.dtype), in.shape)});
      result.model.main.inputs.push_back(feature_of(in));
      inputs.push_back(in);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      DType dtype = *carried(types[i].dtype);
      inputs[i] = dtype == boolean ? e.test("not_equal", inputs[i], 0.0) : e.cast(inputs[i], dtype);
    }
    std::vector<Var> outputs = walk.write(legal, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = legal.outputs()[i].name;
      Var& out = outputs[i];
      DType dtype = boundary_dtype(out.dtype, opset);
      Type type = legal.output_types()[i];
      if (dtype != type.dtype || type.rank() == 0)
        walk.note(text_of("the output '", name, "' is ", type, " in the graph, and ", dtype,
                          type.rank() == 0 ? "[1]" : "", " in the package"));
      std::string fresh = e.fresh(name);
      if (fresh != name) walk.note(text_of("the output '", name, "' is called '", fresh, "'"));
      std::string_view as = dtype == f16 ? "fp16" : dtype == f32 ? "fp32" : "int32";
      out = dtype == out.dtype
                ? e.emit_many("identity", {{"x", out}}, {{fresh, dtype, out.shape}})[0]
                : e.emit_many("cast", {{"x", out}, {"dtype", e.text(as)}}, {{fresh, dtype, out.shape}})[0];
      result.model.main.outputs.push_back(feature_of(out));
    }
    if (walk.opset() > opset && attempt == 0) {
      opset = walk.opset();
      continue;
    }
    result.opset = opset;
    result.opset_needed_by = walk.opset() == opset ? walk.needed_by() : f16_boundary ? "inputs or outputs of f16" : "";
    result.notes = walk.notes();
    main.opset = text_of("CoreML", opset);
    main.blocks[main.opset] = e.end_block(outputs);
    result.model.specification_version = opset - kOldestOpset + kFirstSpecification;
    result.model.program.functions["main"] = std::move(main);
    return result;
  }
}

}  // namespace rlx::coreml
