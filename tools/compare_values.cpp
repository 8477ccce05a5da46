// See the header.
#include "tools/compare_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "io/mlpackage.h"
#include "ir/leaves.h"
#include "rlx/element.h"
#include "tools/compare_alignment.h"
#include "tools/coreml/package_inputs.h"
#include "tools/output.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

constexpr const char* kOutput = "output";  // the op of a graph's output, in traces

ComparedValue compared(const Trace::Step& a, const Trace::Step& b) {
  ComparedValue c;
  c.name = a.name, c.op = a.op, c.other_name = b.name, c.other_op = b.op;
  if (a.value.shape() != b.value.shape()) {
    c.relative = c.apart = std::numeric_limits<double>::infinity();
    c.where = text_of(a.value.type(), " and ", b.value.type());
    return c;
  }
  double largest = 0, both = 0, first = 0, second = 0;
  size_t worst = 0;
  for (size_t i = 0; i < a.value.element_count(); ++i) {
    double x = load_number(a.value, i), y = load_number(b.value, i);
    if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
    both += x * y, first += x * x, second += y * y;
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    double apart = std::abs(x - y);
    if (!std::isfinite(apart)) apart = std::numeric_limits<double>::infinity();
    if (apart > c.apart) c.apart = apart, worst = i;
  }
  if (c.apart == 0) return c;
  c.cosine = both / std::sqrt(first * second);
  c.relative = largest > 0 ? c.apart / largest : std::numeric_limits<double>::infinity();
  c.where = text_of("[", worst, "] ", load_number(a.value, worst), " and ", load_number(b.value, worst));
  return c;
}

}  // namespace

Trace trace_package(const std::string& path, const std::string& function, bool f32, int threads,
                    const std::vector<NamedTensor>& inputs) {
  CoremlOptions options;
  options.function = function, options.f32 = f32, options.threads = threads, options.seed = 0;
  options.all_values = true;
  CoremlModel model = CoremlModel::load(path, options);
  std::map<std::string, std::string> ops;
  MlPackage package = MlPackage::open(path);
  for (const mil::Operation& op : package.model().program.functions.at(model.function()).body().operations)
    for (const mil::NamedType& output : op.outputs) ops[output.name] = op.type;
  CoremlState state = model.make_state();
  Trace trace;
  trace.structure = structure_of(package, model.function());
  for (auto& [name, value] : model.predict(as_wanted(model, inputs), &state))
    if (is_number(value.dtype())) trace.steps.push_back({name, ops[name], std::move(value)});
  return trace;
}

Trace trace_graph(const Graph& graph, const NamedTensors& params, int threads, const std::vector<NamedTensor>& inputs,
                  const CompileOptions& options) {
  Graph g = graph;
  std::map<std::string, size_t> last;  // of each named part
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    bool leaf = node.op == &op::input || node.op == &op::param || node.op == &op::constant;
    if (!leaf && !node.name.empty()) last[node.name] = n;
  }
  std::vector<size_t> parts;
  for (const auto& [name, n] : last) parts.push_back(n);
  std::sort(parts.begin(), parts.end());
  size_t own = g.outputs().size();
  for (size_t n : parts) g.output(g.value({static_cast<int32_t>(n), 0}), text_of("part:", n));
  CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g, options);
  for (const auto& param : compiled.signature().params) {
    auto it = params.find(param.name);
    if (it == params.end()) fail(ErrorCode::invalid_argument, "param '", param.name, "' has no value: --params FILE");
    compiled.set_param(param.name, it->second);
  }
  auto results = compiled.run(as_wanted(compiled.signature().inputs, inputs));  // a package has no bytes
  Trace trace;
  for (size_t i = 0; i < parts.size(); ++i)
    if (is_number(results[own + i].dtype()))
      trace.steps.push_back({g.nodes()[parts[i]].name, std::string(g.nodes()[parts[i]].op->name), results[own + i]});
  for (size_t i = 0; i < own; ++i)
    if (is_number(results[i].dtype())) trace.steps.push_back({graph.outputs()[i].name, kOutput, results[i]});
  return trace;
}

namespace {

using Steps = std::map<std::string, const Trace::Step*>;
Steps by_name(const Trace& t) {
  Steps all;
  for (const Trace::Step& step : t.steps) all[step.name] = &step;
  return all;
}

/// The values of a trace by name, outputs and others apart: an output and a part of a graph may share a name, and be
/// two values.
class NamedSteps {
 public:
  explicit NamedSteps(const Trace& t) : trace_(t) {
    for (const Trace::Step& step : t.steps) (is_output(step) ? outputs_ : parts_)[step.name] = &step;
  }
  bool is_output(const Trace::Step& step) const {
    if (!trace_.structure) return step.op == kOutput;
    const auto& all = trace_.structure->outputs;
    return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.name == step.name; });
  }
  /// What `step` of the trace `own` is here; null if nothing is. Where there is no other value of the name, an output
  /// may be a part of the other model.
  const Trace::Step* counterpart_of(const Trace::Step& step, const NamedSteps& own) const {
    const bool is_out = own.is_output(step);
    if (const Trace::Step* same = find(is_out ? outputs_ : parts_, step.name)) return same;
    const Trace::Step* twin = find(is_out ? own.parts_ : own.outputs_, step.name);
    if (twin && !(twin->value == step.value)) return nullptr;
    return find(is_out ? parts_ : outputs_, step.name);
  }

 private:
  static const Trace::Step* find(const Steps& steps, const std::string& name) {
    const auto found = steps.find(name);
    return found == steps.end() ? nullptr : found->second;
  }
  const Trace& trace_;
  Steps outputs_, parts_;
};

/// How far apart two values are, by a part of their elements; nothing if they are not of one shape.
std::optional<double> distance_of(const Tensor& x, const Tensor& y) {
  constexpr size_t kLooked = 4096;
  if (x.shape() != y.shape()) return std::nullopt;
  const size_t step = std::max<size_t>(1, x.element_count() / kLooked);
  double apart = 0, largest = 0;
  for (size_t i = 0; i < x.element_count(); i += step) {
    const double a = load_number(x, i), b = load_number(y, i);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    apart = std::max(apart, std::abs(a - b)), largest = std::max(largest, std::abs(b));
  }
  return apart == 0 ? 0 : apart / std::max(largest, 1e-30);
}

Comparison aligned(const Trace& a, const Trace& b) {
  const ProgramStructure &x = *a.structure, &y = *b.structure;
  const Steps steps_a = by_name(a), steps_b = by_name(b);
  const auto step_of = [](const ProgramStructure& s, const Steps& steps, size_t value) -> const Trace::Step* {
    auto found = steps.find(s.values[value].name);
    return found == steps.end() ? nullptr : found->second;
  };
  const Likeness distance = [&](size_t in_a, size_t in_b) -> std::optional<double> {
    const Trace::Step *one = step_of(x, steps_a, in_a), *other = step_of(y, steps_b, in_b);
    return one && other ? distance_of(one->value, other->value) : std::nullopt;
  };
  const Alignment found = align(x, y, distance);
  // An output is known by its name, whatever casts stand before it.
  const auto label = [](const ProgramStructure& s, size_t value) {
    for (const auto& output : s.outputs)
      if (output.value == value) return output.name;
    return s.values[value].name;
  };
  const auto is_output = [](const ProgramStructure& s, size_t value) {
    return std::any_of(s.outputs.begin(), s.outputs.end(), [&](const auto& each) { return each.value == value; });
  };
  Comparison all;
  for (size_t v = 0; v < x.values.size(); ++v) {
    const Trace::Step* one = step_of(x, steps_a, v);
    if (!one) continue;
    const Trace::Step* other = found.b_of_a[v] ? step_of(y, steps_b, *found.b_of_a[v]) : nullptr;
    // Of declared shapes that are open the sizes are those of the run.
    if (!other || one->value.shape() != other->value.shape()) {
      all.only_a.push_back({label(x, v), one->op, is_output(x, v)});
      if (other) all.only_b.push_back({label(y, *found.b_of_a[v]), other->op, is_output(y, *found.b_of_a[v])});
      continue;
    }
    ComparedValue c = compared(*one, *other);
    c.name = label(x, v), c.other_name = label(y, *found.b_of_a[v]);
    all.values.push_back(std::move(c));
  }
  for (size_t v = 0; v < y.values.size(); ++v)
    if (const Trace::Step* other = step_of(y, steps_b, v); other && !found.a_of_b[v])
      all.only_b.push_back({label(y, v), other->op, is_output(y, v)});
  // Outputs of one name are to be the same, and are as far apart as can be if they are of different shapes.
  for (const auto& output : x.outputs) {
    const auto is_it = [&](const Comparison::Alone& each) { return each.is_output && each.name == output.name; };
    const auto lone_a = std::find_if(all.only_a.begin(), all.only_a.end(), is_it);
    const auto lone_b = std::find_if(all.only_b.begin(), all.only_b.end(), is_it);
    const auto in_b =
        std::find_if(y.outputs.begin(), y.outputs.end(), [&](const auto& each) { return each.name == output.name; });
    if (lone_a == all.only_a.end() || lone_b == all.only_b.end() || in_b == y.outputs.end()) continue;
    ComparedValue c = compared(*step_of(x, steps_a, output.value), *step_of(y, steps_b, in_b->value));
    c.name = c.other_name = output.name;
    all.values.push_back(std::move(c));
    all.only_a.erase(lone_a), all.only_b.erase(lone_b);
  }
  return all;
}

/// "7 of B alone: 'x' (add), ..."
std::string alone_text(const char* side, const std::vector<Comparison::Alone>& alone, size_t most) {
  if (alone.empty()) return "";
  std::string text = text_of(alone.size(), alone.size() == 1 ? " value" : " values", " of ", side,
                             alone.size() == 1 ? " has" : " have", " no counterpart:");
  for (size_t i = 0; i < std::min(most, alone.size()); ++i)
    text += text_of(i ? ", '" : " '", alone[i].name, "' (", alone[i].op, ")");
  return text + (alone.size() > most ? ", ...; --all shows them\n" : "\n");
}

}  // namespace

Comparison compare_traces(const Trace& a, const Trace& b) {
  Comparison all;
  if (a.structure && b.structure) {
    all = aligned(a, b);
    if (all.values.empty())
      fail(ErrorCode::invalid_argument,
           "the two packages have no value that is the same by their structure: ", all.only_a.size(), " and ",
           all.only_b.size(), " values were looked at");
    return all;
  }
  const NamedSteps own(a), others(b);
  for (const Trace::Step& step : a.steps) {
    const Trace::Step* other = others.counterpart_of(step, own);
    if (other) all.values.push_back(compared(step, *other));
    else all.only_a.push_back({step.name, step.op, own.is_output(step)});
  }
  for (const Trace::Step& step : b.steps)
    if (!own.counterpart_of(step, others)) all.only_b.push_back({step.name, step.op, others.is_output(step)});
  if (all.values.empty()) fail(ErrorCode::invalid_argument, "the two models have no value of the same name to compare");
  return all;
}

std::vector<std::string> Comparison::lone_outputs() const {
  std::vector<std::string> names;
  for (const std::vector<Alone>* side : {&only_a, &only_b})
    for (const Alone& each : *side)
      if (each.is_output) names.push_back(each.name);
  return names;
}

std::string comparison_text(const Comparison& compared, double bound, size_t most) {
  std::vector<const ComparedValue*> sorted;
  for (const ComparedValue& c : compared.values) sorted.push_back(&c);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* x, const auto* y) { return x->relative > y->relative; });
  TextTable table("llrrrl");
  table.add({"value", "op", "apart", "of largest", "cosine", "worst element"});
  for (size_t i = 0; i < std::min(most, sorted.size()); ++i) {
    const ComparedValue& c = *sorted[i];
    table.add({c.name, c.op == c.other_op ? c.op : c.op + "/" + c.other_op, text_of(c.apart), text_of(c.relative),
               text_of(c.cosine), c.where});
  }
  std::string text = table.text();
  if (sorted.size() > most) text += text_of("... and ", sorted.size() - most, " more; --all shows them\n");
  text += alone_text("the first model", compared.only_a, most) + alone_text("the second model", compared.only_b, most);
  for (const ComparedValue& c : compared.values)
    if (c.relative > bound)
      return text + text_of("first beyond ", bound, ": '", c.name, "' of ", c.op, ", ", c.relative, "\n");
  text += text_of("all ", compared.values.size(), " values within ", bound);
  const std::vector<std::string> lone = compared.lone_outputs();
  for (size_t i = 0; i < lone.size(); ++i)
    text += text_of(i ? ", '" : ", but outputs were compared with nothing: '", lone[i], "'");
  return text + "\n";
}

std::string comparison_json(const Comparison& compared, double bound, bool made_up_inputs) {
  std::string first = "null", values;
  for (const ComparedValue& c : compared.values) {
    if (first == "null" && c.relative > bound) first = json_text(c.name);
    values += text_of(values.empty() ? "" : ",\n ", "{\"name\": ", json_text(c.name), ", \"op\": ", json_text(c.op),
                      ", \"other_name\": ", json_text(c.other_name), ", \"other_op\": ", json_text(c.other_op),
                      ", \"apart\": ", number_text(c.apart), ", \"relative\": ", number_text(c.relative),
                      ", \"cosine\": ", number_text(c.cosine), ", \"where\": ", json_text(c.where), "}");
  }
  const auto listed = [](const std::vector<Comparison::Alone>& alone) {
    std::string all;
    for (const Comparison::Alone& each : alone)
      all +=
          text_of(all.empty() ? "" : ", ", "{\"name\": ", json_text(each.name), ", \"op\": ", json_text(each.op), "}");
    return "[" + all + "]";
  };
  std::string lone;
  for (const std::string& name : compared.lone_outputs()) lone += (lone.empty() ? "" : ", ") + json_text(name);
  return text_of("{\"bound\": ", number_text(bound), ", \"made_up_inputs\": ", made_up_inputs ? "true" : "false",
                 ", \"first_beyond\": ", first, ", \"lone_outputs\": [", lone,
                 "], \"only_a\": ", listed(compared.only_a), ", \"only_b\": ", listed(compared.only_b),
                 ", \"values\": [", values, "]}\n");
}

std::vector<NamedTensor> as_named_by(const std::vector<Signature::Entry>& entries, std::vector<NamedTensor> given) {
  const auto has = [](const auto& list, const std::string& name, auto name_of) {
    return std::any_of(list.begin(), list.end(), [&](const auto& each) { return name_of(each) == name; });
  };
  const auto entry_name = [](const Signature::Entry& e) { return e.name; };
  const auto given_name_of = [](const NamedTensor& t) { return t.first; };
  std::vector<const Signature::Entry*> missing;
  for (const Signature::Entry& e : entries)
    if (!has(given, e.name, given_name_of)) missing.push_back(&e);
  size_t next = 0;
  for (NamedTensor& each : given) {
    if (has(entries, each.first, entry_name) || next == missing.size()) continue;
    const Signature::Entry& e = *missing[next++];
    const bool same_kind = is_float(e.type.dtype) == is_float(each.second.dtype());
    if (same_kind && e.type.dims.size() == each.second.rank()) each.first = e.name;
  }
  return given;
}

std::vector<NamedTensor> made_up_inputs(const std::vector<Signature::Entry>& entries, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<NamedTensor> inputs;
  for (const Signature::Entry& e : entries) {
    Shape shape;
    for (const Dim& d : e.type.dims) shape.push_back(d.is_static() ? d.value() : 1);
    Tensor t(e.type.dtype, shape);
    for (size_t i = 0; i < t.element_count(); ++i) {
      uint64_t bits = random();
      if (is_float(t.dtype())) store<double>(t, i, static_cast<double>(bits >> 11) * 0x1p-52 - 1);
      else if (t.dtype() == boolean) store<double>(t, i, static_cast<double>(bits & 1));
      else store<int64_t>(t, i, static_cast<int64_t>(bits & 1));
    }
    inputs.emplace_back(e.name, std::move(t));
  }
  return inputs;
}

std::vector<Signature::Entry> package_inputs(const std::string& path, const std::string& function) {
  CoremlOptions options;
  options.function = function;
  CoremlModel model = CoremlModel::load(path, options);
  MlPackage package = MlPackage::open(path);
  const mil::Model& m = package.model();
  const mil::FunctionDescription* description = &m.main;
  for (const mil::FunctionDescription& d : m.functions)
    if (d.name == model.function()) description = &d;
  std::vector<Signature::Entry> entries;
  for (const CoremlFeature& f : model.inputs()) {
    Type type{f.dtype, {}};
    const Shape* usual = nullptr;
    for (const mil::Feature& d : description->inputs)
      if (d.name == f.name && d.kind == mil::Feature::Kind::array) usual = &d.shape;
    for (size_t i = 0; i < f.shape.size(); ++i)
      type.dims.emplace_back(f.shape[i] ? *f.shape[i] : usual && i < usual->size() ? (*usual)[i] : 1);
    entries.push_back({f.name, type});
  }
  return entries;
}

}  // namespace rlx::tools
