// Claims, and the walk over a legal graph that writes its program.
#include "backends/coreml/coreml.h"

#include "backends/coreml/lowerings.h"
#include "backends/coreml/take_apart.h"
#include "backends/coreml/weights.h"
#include "ir/leaves.h"
#include "passes/collapse_rank.h"
#include "passes/integer_ranges.h"
#include "passes/narrow_integers.h"
#include "passes/spell_out_combiners.h"
#include "passes/split_complex.h"
#include "passes/split_words.h"
#include "passes/subgraphs.h"
#include "rlx/fields.h"
#include "rlx/ops.h"

namespace rlx::coreml {
namespace {

constexpr int kOldestOpset = 5, kFirstSpecification = 6;  // specification 6 has CoreML5

/// `whole`: of a graph whose complex numbers, dims beyond kMostDims and integers of 64 bits are still to be taken
/// apart.
std::optional<std::string> refusal_of(const Question& q, const Options& options, bool whole) {
  if (q.node.op == &op::input || q.node.op == &op::param) return std::nullopt;
  TypeRules rules{options.narrow, options.open_dims};
  // Of blocks that are constants, which the graph behind it tells.
  if (packing_of(q.node.op).operands > 0 && is_block(q.operands[0].dtype)) {
    if (auto why = not_carried(q.node.types[0], rules)) return why;
    std::string why;
    if (!find_row(q, options, &why)) return why;
    return std::nullopt;
  }
  if (whole) {
    bool any_complex = false, any_wide = false, any_empty = false, any_words = false;
    for (const auto& list : {std::span<const Type>(q.operands), std::span<const Type>(q.node.types)})
      for (Type t : list) {
        any_complex |= is_complex(t.dtype);
        any_wide |= is_wide(t, kMostDims);
        t.dtype = real_part(t.dtype);
        // Taken apart into words: where they are not narrowed, or where half of one does not answer.
        if (t.dtype == i64 || t.dtype == u64) any_words = true, t.dtype = i32;
        t.dims.resize(std::min(t.dims.size(), kMostDims));
        // What has no elements may be joined to what has: nothing is left of it then.
        bool empty = std::find(t.dims.begin(), t.dims.end(), Dim(0)) != t.dims.end();
        any_empty |= empty;
        if (empty) t.dims.clear();
        if (auto why = not_carried(t, rules)) return why;
      }
    if (any_complex)
      if (auto why = cannot_split_complex(q)) return why;
    if (any_wide)
      if (auto why = cannot_collapse(q, kMostDims)) return why;
    if (any_words && !any_complex && !any_wide && !any_empty) {
      std::string why;
      if (options.narrow && find_row(q, options, &why)) return std::nullopt;
      auto no_rule = cannot_split_words(q);
      if (!no_rule) return std::nullopt;
      if (options.narrow) return why;
      // The next stage knows whether i32 holds its numbers, which then is written as it is.
      Options narrowed = options;
      narrowed.narrow = true;
      if (q.node.op->is_primitive() && find_row(q, narrowed)) return std::nullopt;
    }
    // Only primitives are written in parts; what others are made of may be complex or wide itself.
    if (any_empty && !q.node.op->is_primitive()) return "parts of it have no elements, and Core ML no such tensors";
    if (any_complex || any_wide || any_empty) return std::nullopt;
  }
  for (const Type& t : q.operands)
    if (auto why = not_carried(t, rules)) return why;
  for (const Type& t : q.node.types)
    if (auto why = not_carried(t, rules)) return why;
  std::string why;
  if (!find_row(q, options, &why)) return why;
  return std::nullopt;
}

/// What the report says of an op that is taken and written in parts.
std::string how_taken_apart(const Question& q) {
  bool any_complex = false, any_wide = false;
  for (const auto& list : {std::span<const Type>(q.operands), std::span<const Type>(q.node.types)})
    for (const Type& t : list) any_complex |= is_complex(t.dtype), any_wide |= is_wide(t, kMostDims);
  if (any_complex)
    return text_of("complex numbers are pairs of real ones", any_wide ? "; of more than 5 dims some are joined" : "");
  return any_wide ? "of more than 5 dims some are joined" : "";
}

/// Ops whose results are rounded by what they are made of, or that round nothing.
bool rounds_by_itself(const OpDef* op) {
  return op->moves_data || op == &op::if_else || op == &op::while_loop || op == &op::scan;
}

class Walk {
 public:
  Walk(Emitter& e, const Options& options) : e_(e), options_(options) {}

  /// Writes the nodes of g; its inputs are `inputs`. Returns its outputs.
  std::vector<Var> write(const Graph& g, const std::vector<Var>& inputs) {
    Values values(g.nodes().size());
    for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(g.inputs()[i].node)] = {{inputs[i], {}}};
    std::vector<bool> packed = read_packed(g);
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (node.op == &op::input) continue;
      if (node.op == &op::param)
        fail(ErrorCode::invalid_argument, "the param '", node.name,
             "' has no value; a package holds its weights: bind it first");
      if (node.op == &op::constant) {
        const Tensor& t = node.attrs.as<ConstantAttrs>().value;
        // Written by what reads it: packed weights, layers of a stack.
        if (is_block(t.dtype()) || packed[n]) {
          values[n] = {{Var{"", f32, {}}, {}}};
          continue;
        }
        note_narrowed(t);
        values[n] = {{weights(carried_constant(t)), {}}};
        continue;
      }
      with_context([&] { return text_of("writing ", node.op->name, node.name.empty() ? "" : " '" + node.name + "'"); },
                   [&] {
                     const GrowthLimit limit(room_to_grow(g, node, node.operands),
                                             [&] { return text_of("'", node.op->name, "'"); });
                     write_node(g, n, values);
                   });
    }
    std::vector<Var> outputs;
    for (const Output& out : g.outputs()) outputs.push_back(whole(g, values, out.ref));
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
  Var whole(const Graph& g, Values& values, Ref r, bool repeated = true) {
    Held& h = held(values, r);
    // A constant that was left to the rows that read it, and is wanted as it is.
    if (h.var.name.empty()) h.var = weights(carried_constant(g.node(r).attrs.as<ConstantAttrs>().value));
    if (repeated && !h.repeated.empty()) h = {e_.broadcast(h.var, h.repeated), {}};
    return h.var;
  }

  /// Nodes that are read by ops alone whose rows write them, in a form of their own.
  static std::vector<bool> read_packed(const Graph& g) {
    std::vector<bool> packed(g.nodes().size()), otherwise = packed;
    for (const Node& node : g.nodes())
      for (size_t i = 0; i < node.operands.size(); ++i) {
        (is_left_to_row(node.op, i) ? packed : otherwise)[static_cast<size_t>(node.operands[i].node)] = true;
      }
    for (size_t n = 0; n < packed.size(); ++n) packed[n] = packed[n] && !otherwise[n];
    return packed;
  }

  /// A constant; of few different elements, from iOS 16 on, a table and places in it.
  Var weights(const Tensor& t) {
    if (e_.opset() > kOldestOpset)
      if (auto palette = palette_of(t)) return looked_up(e_, *palette);
    return e_.constant(t);
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
    auto tensor = [&](size_t i) -> const Tensor* {
      const Node& from = g.node(node.operands[i]);
      return from.op == &op::constant ? &from.attrs.as<ConstantAttrs>().value : nullptr;
    };
    const Row* row = find_row({node, types, [&](size_t i) { return tensor(i) != nullptr; }}, options_, &why);
    if (!row) fail(ErrorCode::unsupported, "an ML Program cannot hold it: ", why);
    if (row->opset > opset_) opset_ = row->opset, needed_by_ = node.op->name;
    for (const Type& t : node.types)
      if (info(t.dtype).bits > 32) note(text_of(t.dtype, " is narrowed to ", *carried(t.dtype)));
    Lowering l{e_,
               node,
               types,
               [&](size_t i) { return whole(g, values, node.operands[i]); },
               [&](size_t i) { return whole(g, values, node.operands[i], false); },
               [&](size_t i) { return number_of(g, node.operands[i]); },
               [&](size_t i) { return tensor(i) != nullptr; },
               tensor,
               [&](std::string text) { note(std::move(text)); },
               options_.nearest,
               [&](const Graph& body, const std::vector<Var>& inputs) { return write(body, inputs); }};
    std::vector<Var> results = row->lower(l);
    values[n].clear();
    for (size_t i = 0; i < results.size(); ++i) {
      Shape shape = l.shape(i);
      if (is_rounded(node.types[i].dtype) && !rounds_by_itself(node.op))
        results[i] = rounded(e_, results[i], node.types[i].dtype);
      // Of fewer elements: what only repeats (broadcast_in_dim, iota) leaves that to its users.
      bool repeats = results[i].shape != shape;
      values[n].push_back({results[i], repeats ? shape : Shape{}});
    }
  }

  static std::optional<double> number_of(const Graph& g, Ref r) {
    while (g.node(r).op == &op::broadcast_in_dim || g.node(r).op == &op::reshape) r = g.node(r).operands[0];
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

/// A feature of one shape; without any where a prediction decides it.
mil::Feature feature_of(const Var& v) {
  return {.name = v.name, .shape = is_open(v.shape) ? Shape{} : v.shape, .dtype = v.dtype};
}

/// The symbols that are dims of an input, which is where their numbers are found.
void define_symbols(Emitter& e, const Type& type, Var input) {
  input.shape.assign(std::max<size_t>(type.rank(), 1), 1);  // of which only the rank counts
  for (size_t d = 0; d < type.rank(); ++d)
    if (!type.dims[d].is_static()) e.define(text_of(type.dims[d]), input, d);
}

/// Whether several inputs have lists of shapes, which iOS 18 is the first to take.
bool has_several_lists(const Graph& g, const Interface& interface) {
  size_t inputs = 0;
  for (const Type& t : g.input_types())
    inputs += std::any_of(t.dims.begin(), t.dims.end(), [&](const Dim& d) {
      auto found = interface.sizes.find(text_of(d));
      return !d.is_static() && found != interface.sizes.end() && !found->second.values.empty();
    });
  return inputs > 1;
}

}  // namespace

void make_flexible(mil::Feature& feature, const Type& type, const Interface& interface) {
  auto sizes_of = [&](const Dim& d) {
    auto found = interface.sizes.find(text_of(d));
    return found == interface.sizes.end() ? Interface::Sizes{} : found->second;
  };
  size_t listed = 0;
  for (const Dim& d : type.dims)
    if (!d.is_static()) listed = std::max(listed, sizes_of(d).values.size());
  std::vector<Shape>& shapes = feature.flexibility.shapes;
  for (size_t k = 0; k < listed; ++k) {
    Shape shape;
    for (const Dim& d : type.dims) shape.push_back(d.is_static() ? d.value() : sizes_of(d).values.at(k));
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(std::move(shape));
  }
  if (listed) {
    feature.shape = shapes.front();
    return;
  }
  for (const Dim& d : type.dims) {
    Interface::Sizes sizes = d.is_static() ? Interface::Sizes{d.value(), d.value(), {}} : sizes_of(d);
    feature.flexibility.ranges.push_back({sizes.least, sizes.most});
    feature.shape.push_back(sizes.least);
  }
}

void make_flexible_image(mil::Feature& feature) {
  auto size_of = [](const Shape& shape) { return Shape{shape.at(2), shape.at(3)}; };
  feature.shape = size_of(feature.shape);
  auto& [shapes, ranges] = feature.flexibility;
  for (Shape& shape : shapes) shape = size_of(shape);
  if (!ranges.empty()) ranges = {ranges.at(3), ranges.at(2)};
}

Target target(const Options& options) {
  Target whole{"coreml", [options](const Question& q) { return refusal_of(q, options, true); }};
  whole.remark = how_taken_apart;
  whole.first = {{"spell_out_combiners", spell_out_combiners}};
  whole.next = std::make_shared<const NextStage>(
      NextStage{options.narrow ? is_taken_apart_where_narrowed : is_taken_apart,
                passes_that_take_apart(options),
                {"coreml", [options](const Question& q) { return refusal_of(q, options, false); }},
                options.narrow ? nullptr : integers_that_stay});
  return whole;
}

namespace {

std::vector<std::string> notes_on_integers(const Graph& g) { return narrow_integers(g, NarrowSignature::yes).notes; }

/// Constants that are others in 32 bits, which was permitted.
std::vector<std::string> notes_on_narrowed(const Graph& g) {
  std::vector<std::string> notes;
  const IntegerRanges ranges(g);
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (node.op != &op::constant || node.types[0].dtype != i64) continue;
    const IntegerRange r = ranges.of({static_cast<int32_t>(n), 0});
    if (!r.fits(i32))
      notes.push_back(text_of("a constant ", node.types[0], " has numbers in ", r,
                              ", which wrap in i32; the least and the greatest of i64 become those of i32"));
  }
  return notes;
}

}  // namespace

Target whole_target(const Options& options) {
  Target whole = target(options);
  NextStage next = *whole.next;
  next.is_only_checked = true;
  // Also for a graph of inputs alone, which no node would refuse.
  next.is_needed = [](const Graph&) { return true; };
  // Params are taken apart by their values, once these are bound; until then they are as good as inputs.
  next.passes.insert(next.passes.begin(), {"with_inputs_for_odd_params", with_inputs_for_odd_params});
  next.target.boundary_refusal = [options](const Type& t) {
    return not_carried(t, TypeRules{options.narrow, options.open_dims});
  };
  whole.next = std::make_shared<const NextStage>(std::move(next));
  whole.notes = options.narrow ? notes_on_narrowed : notes_on_integers;
  return whole;
}

namespace {

/// An input that is an image: bytes of channels, scaled and moved as the graph wants them.
Var image_input(Emitter& e, const Var& in, const Type& type, const Interface::Image& image, mil::Feature& feature) {
  using Color = mil::Feature::ColorSpace;
  bool gray = image.color_space == Color::grayscale || image.color_space == Color::grayscale_f16;
  if (type.rank() != 4 || in.shape[0] != 1 || in.shape[1] != (gray ? 1 : 3) || !is_float(type.dtype))
    fail(ErrorCode::invalid_argument, "the image '", in.name, "' is ", type, " in the graph; it is to be float [1, ",
         gray ? 1 : 3, ", height, width]");
  if (!image.bias.empty() && image.bias.size() != static_cast<size_t>(in.shape[1]))
    fail(ErrorCode::invalid_argument, "the image '", in.name, "' has ", in.shape[1], " channels, and ",
         image.bias.size(), " biases");
  feature.kind = mil::Feature::Kind::image;
  feature.color_space = image.color_space;
  if (is_open(in.shape)) make_flexible_image(feature);
  else feature.shape = {in.shape[2], in.shape[3]};
  Var x = image.scale == 1 ? in : e.mul(in, image.scale);
  if (image.bias.empty()) return x;
  Tensor bias(in.dtype, {1, in.shape[1], 1, 1});
  for (size_t i = 0; i < image.bias.size(); ++i) store<double>(bias, i, image.bias[i]);
  return e.add(x, e.constant(bias));
}

const std::string& known_name(const Interface::State& s, bool output) { return output ? s.output : s.input; }

/// Which state an input or output is, or none. Fails for names that the graph does not have.
std::vector<std::optional<size_t>> states_among(const std::vector<std::string>& names, const Interface& interface,
                                                bool output) {
  std::vector<std::optional<size_t>> found(names.size());
  for (size_t s = 0; s < interface.states.size(); ++s) {
    const std::string& wanted = known_name(interface.states[s], output);
    auto at = std::find(names.begin(), names.end(), wanted);
    if (at == names.end())
      fail(ErrorCode::not_found, "the state '", wanted, "' is no ", output ? "output" : "input", " of the graph");
    auto& place = found[static_cast<size_t>(at - names.begin())];
    if (place)
      fail(ErrorCode::invalid_argument, "two states have the ", output ? "output" : "input", " '", wanted,
           "'; each has its own");
    place = s;
  }
  return found;
}

}  // namespace

void check_open_inputs(const Graph& g) {
  for (Ref r : g.inputs())
    for (const Dim& d : g.type(r).dims)
      if (std::string symbol = text_of(d); !d.is_static() && d != Dim::symbol(symbol))
        fail(ErrorCode::unsupported, "the input '", g.node(r).name, "' is ", g.type(r), ": its dim ", symbol,
             " is no plain symbol, and a package cannot hold a prediction to it");
}

Translated translate(const Graph& claimed, const Options& options, const Interface& interface) {
  const GrowthLimit limit(room_to_grow(claimed), [&] { return text_of("graph '", claimed.name(), "'"); });
  const Graph legal = with_constant_weights(claimed);
  check_open_inputs(legal);
  std::vector<std::string> in_names, out_names;
  for (Ref r : legal.inputs()) in_names.push_back(legal.node(r).name);
  for (const Output& o : legal.outputs()) out_names.push_back(o.name);
  auto in_states = states_among(in_names, interface, false), out_states = states_among(out_names, interface, true);
  for (const auto& [name, image] : interface.images) {
    auto at = std::find(in_names.begin(), in_names.end(), name);
    if (at == in_names.end()) fail(ErrorCode::not_found, "the image '", name, "' is no input of the graph");
    if (in_states[static_cast<size_t>(at - in_names.begin())])
      fail(ErrorCode::invalid_argument, "the input '", name, "' is a state, and cannot be an image too");
  }
  for (const auto& [name, text] : interface.descriptions)
    if (std::find(in_names.begin(), in_names.end(), name) == in_names.end() &&
        std::find(out_names.begin(), out_names.end(), name) == out_names.end())
      fail(ErrorCode::not_found, "the description of '", name, "' is of no input or output of the graph");
  if (interface.classes.empty() && !interface.probabilities.empty())
    fail(ErrorCode::invalid_argument, "'", interface.probabilities, "' is to hold the probabilities of a classifier, ",
         "and no labels are given");
  size_t probabilities = 0;
  if (!interface.classes.empty()) {
    auto at = interface.probabilities.empty() ? out_names.begin()
                                              : std::find(out_names.begin(), out_names.end(), interface.probabilities);
    if (at == out_names.end() || (interface.probabilities.empty() && out_names.size() != 1))
      fail(ErrorCode::not_found, "'", interface.probabilities, "' is none of the ", out_names.size(),
           " outputs; a classifier names the one with the probabilities");
    probabilities = static_cast<size_t>(at - out_names.begin());
    Type t = legal.output_types()[probabilities];
    if (!is_float(t.dtype) || element_count(t.dims) != Dim(static_cast<int64_t>(interface.classes.size())))
      fail(ErrorCode::shape_mismatch, "there are ", interface.classes.size(), " labels, and the probabilities are ", t);
  }
  int oldest = std::max(kOldestOpset, options.oldest_opset);
  const char* newest_for = !interface.states.empty()             ? "states"
                           : has_several_lists(legal, interface) ? "several inputs with lists of shapes"
                                                                 : nullptr;
  if (newest_for) oldest = 8;
  if (oldest > options.newest_opset)
    fail(ErrorCode::unsupported, newest_for ? newest_for : "what was asked for",
         " need iOS 18, and the package is to run on iOS ", options.newest_opset + 10);
  // The first walk finds the opset, on which the types of inputs and outputs depend.
  int opset = oldest;
  bool f16_boundary = false;
  for (const auto& types : {legal.input_types(), legal.output_types()})
    for (const Type& t : types)
      if (t.dtype == f16 && options.newest_opset > kOldestOpset && opset == kOldestOpset)
        opset = kOldestOpset + 1, f16_boundary = true;
  for (int attempt = 0;; ++attempt) {
    Emitter e(opset);
    Walk walk(e, options);
    Translated result;
    mil::Function main;
    std::vector<mil::NamedType> states;
    std::vector<Var> inputs;
    std::vector<std::string> state_names(interface.states.size());
    TypeRules rules{options.narrow, options.open_dims};
    auto described = [&](mil::Feature feature, const std::string& name) {
      auto found = interface.descriptions.find(name);
      if (found != interface.descriptions.end()) feature.doc = found->second;
      return feature;
    };
    auto types = legal.input_types();
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string& name = in_names[i];
      if (auto why = not_carried(types[i], rules)) fail(ErrorCode::unsupported, "the input '", name, "': ", *why);
      DType dtype = *carried(types[i].dtype);
      Var in{e.fresh(name), in_states[i] ? f16 : boundary_dtype(dtype, opset), {}};
      define_symbols(e, types[i], in);
      in.shape = e.carried(types[i]);
      bool open = is_open(in.shape);
      if (open && in_states[i])
        fail(ErrorCode::unsupported, "the state '", name, "' is ", types[i],
             "; it has one shape: give its symbols numbers");
      if (in.name != name) walk.note(text_of("the input '", name, "' is called '", in.name, "'"));
      if (in.dtype != types[i].dtype || types[i].rank() == 0)
        walk.note(text_of("the ", in_states[i] ? "state" : "input", " '", in.name, "' is ", types[i],
                          " in the graph, and ", in.dtype, in.shape.size() == 1 && types[i].rank() == 0 ? "[1]" : "",
                          " in the package"));
      mil::ValueType tensor = type_of(in);
      mil::Feature feature = described(feature_of(in), name);
      if (open) make_flexible(feature, types[i], interface);
      if (in_states[i]) {
        mil::ValueType held;
        held.kind = mil::ValueType::Kind::state;
        held.inner = {tensor};
        states.push_back({in.name, held});
        feature.kind = mil::Feature::Kind::state;
        result.model.main.states.push_back(feature);
        state_names[*in_states[i]] = in.name;
        in = e.emit("read_state", {{"input", in}}, f16, in.shape);
      } else {
        main.inputs.push_back({in.name, tensor});
        if (auto image = interface.images.find(name); image != interface.images.end())
          in = image_input(e, in, types[i], image->second, feature);
        result.model.main.inputs.push_back(feature);
      }
      inputs.push_back(dtype == boolean ? e.test("not_equal", in, 0.0) : e.cast(in, dtype));
    }
    main.inputs.insert(main.inputs.end(), states.begin(), states.end());
    std::vector<Var> outputs;
    std::vector<Var> computed = walk.write(legal, inputs);
    for (size_t i = 0; i < computed.size(); ++i) {
      const std::string& name = out_names[i];
      if (auto why = not_carried(legal.output_types()[i], rules))
        fail(ErrorCode::unsupported, "the output '", name, "': ", *why);
      Var out = computed[i];
      if (out_states[i]) {
        Shape held = result.model.main.states[0].shape;
        for (size_t s = 0; s < states.size(); ++s)
          if (states[s].name == state_names[*out_states[i]]) held = result.model.main.states[s].shape;
        if (out.shape != held)
          fail(ErrorCode::shape_mismatch, "the output '", name,
               "' is to be the next value of a state of another shape");
        e.emit_effect("write_state",
                      {{"input", Var{state_names[*out_states[i]], f16, {}}}, {"data", e.cast(out, f16)}});
        continue;
      }
      if (!interface.classes.empty() && i == probabilities) {
        std::string label = e.fresh("classLabel"), all = e.fresh("classLabel_probs");
        e.classify(e.cast(out, f32), interface.classes, label, all);
        mil::Feature text{.name = label, .kind = mil::Feature::Kind::string};
        mil::Feature dictionary{.name = all, .kind = mil::Feature::Kind::dictionary, .string_keys = true};
        result.model.main.outputs.push_back(text);
        result.model.main.outputs.push_back(dictionary);
        result.model.main.predicted_feature = label;
        result.model.main.predicted_probabilities = all;
        outputs.push_back({label, f32, {}});
        outputs.push_back({all, f32, {}});
        continue;
      }
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
      outputs.push_back(out);
      result.model.main.outputs.push_back(described(feature_of(out), name));
    }
    if (walk.opset() > opset && attempt == 0) {
      opset = walk.opset();
      continue;
    }
    result.opset = opset;
    result.opset_needed_by = walk.opset() == opset && !walk.needed_by().empty() ? walk.needed_by()
                             : newest_for                                       ? newest_for
                             : f16_boundary                                     ? "inputs or outputs of f16"
                             : opset > kOldestOpset                             ? "what was asked for"
                                                                                : "";
    result.notes = walk.notes();
    main.opset = text_of("CoreML", opset);
    main.blocks[main.opset] = e.end_block(outputs);
    result.model.specification_version = opset - kOldestOpset + kFirstSpecification;
    result.model.program.functions["main"] = std::move(main);
    return result;
  }
}

}  // namespace rlx::coreml
