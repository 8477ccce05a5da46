// See the header.
#include "tools/compare_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "io/mlpackage.h"
#include "ir/leaves.h"
#include "rlx/element.h"
#include "tools/coreml/package_inputs.h"
#include "tools/output.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

ComparedValue compared(const Trace::Step& a, const Trace::Step& b) {
  ComparedValue c;
  c.name = a.name, c.op = a.op;
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
  auto results = compiled.run(inputs);
  Trace trace;
  for (size_t i = 0; i < parts.size(); ++i)
    if (is_number(results[own + i].dtype()))
      trace.steps.push_back({g.nodes()[parts[i]].name, std::string(g.nodes()[parts[i]].op->name), results[own + i]});
  for (size_t i = 0; i < own; ++i)
    if (is_number(results[i].dtype())) trace.steps.push_back({graph.outputs()[i].name, "output", results[i]});
  return trace;
}

std::vector<ComparedValue> compare_traces(const Trace& a, const Trace& b) {
  std::map<std::string, const Trace::Step*> others;
  for (const Trace::Step& step : b.steps) others[step.name] = &step;
  std::vector<ComparedValue> all;
  for (const Trace::Step& step : a.steps)
    if (auto it = others.find(step.name); it != others.end()) all.push_back(compared(step, *it->second));
  if (all.empty()) fail(ErrorCode::invalid_argument, "the two models have no value of the same name to compare");
  return all;
}

std::string comparison_text(const std::vector<ComparedValue>& compared, double bound, size_t most) {
  std::vector<const ComparedValue*> sorted;
  for (const ComparedValue& c : compared) sorted.push_back(&c);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* x, const auto* y) { return x->relative > y->relative; });
  TextTable table("llrrrl");
  table.add({"value", "op", "apart", "of largest", "cosine", "worst element"});
  for (size_t i = 0; i < std::min(most, sorted.size()); ++i) {
    const ComparedValue& c = *sorted[i];
    table.add({c.name, c.op, text_of(c.apart), text_of(c.relative), text_of(c.cosine), c.where});
  }
  std::string text = table.text();
  if (sorted.size() > most) text += text_of("... and ", sorted.size() - most, " more; --all shows them\n");
  for (const ComparedValue& c : compared)
    if (c.relative > bound)
      return text + text_of("first beyond ", bound, ": '", c.name, "' of ", c.op, ", ", c.relative, "\n");
  return text + text_of("all ", compared.size(), " values within ", bound, "\n");
}

std::string comparison_json(const std::vector<ComparedValue>& compared, double bound, bool made_up_inputs) {
  std::string first = "null", values;
  for (const ComparedValue& c : compared) {
    if (first == "null" && c.relative > bound) first = json_text(c.name);
    values += text_of(values.empty() ? "" : ",\n ", "{\"name\": ", json_text(c.name), ", \"op\": ", json_text(c.op),
                      ", \"apart\": ", number_text(c.apart), ", \"relative\": ", number_text(c.relative),
                      ", \"cosine\": ", number_text(c.cosine), ", \"where\": ", json_text(c.where), "}");
  }
  return text_of("{\"bound\": ", number_text(bound), ", \"made_up_inputs\": ", made_up_inputs ? "true" : "false",
                 ", \"first_beyond\": ", first, ", \"values\": [", values, "]}\n");
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
