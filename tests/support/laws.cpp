// The generated laws; see the header.
#include "support/laws.h"

#include <deque>

#include "backends/registry.h"
#include "compile/pipeline.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/legalize.h"
#include "reference/interpreter.h"
#include "rlx/session.h"
#include "support/compare.h"

namespace rlx::laws {

namespace {

Finding infer_agrees(const OpDef& op, const Sample& s) {
  for (const Case& c : cases_of(op, s)) {
    Graph g = c.graph(op);
    auto out = interpret(g, c.inputs());
    auto types = g.output_types();
    if (out.size() != types.size())
      return finding(text_of("infer gives ", types.size(), " results, the reference ", out.size()));
    for (size_t r = 0; r < out.size(); ++r)
      if (out[r].type() != types[r])
        return finding(text_of("infer says ", types[r], ", the reference made ", out[r].type()));
  }
  return {};
}

/// An op with a reference of its own and a decomposition: they agree in f64, and in low precision round alike.
Finding decompose_agrees(const OpDef& op, const Sample& s) {
  if (!op.decompose || !op.reference) return kNotApplicable;
  for (const Case& c : cases_of(op, s)) {
    auto inputs = c.inputs();
    Graph parts = trace(c.types, [&](Graph& g, Values in) { return decompose(g, op, in, c.attrs); });
    double tolerance = c.types.empty() || c.types[0].dtype == f64 ? 1e-12 : -1;
    if (auto why = difference(interpret(parts, inputs), interpret(c.graph(op), inputs), tolerance); !why.empty())
      return finding(text_of(c.types.empty() ? Type{} : c.types[0], ": ", why));
  }
  return {};
}

Finding round_trips(const OpDef& op, const Sample& s) {
  for (const Case& c : cases_of(op, s)) {
    std::vector<Graph> graphs = {c.graph(op)};
    if (op.decompose)
      graphs.push_back(trace(c.types, [&](Graph& g, Values in) { return decompose(g, op, in, c.attrs); }));
    for (const Graph& g : graphs) {
      verify(g);
      std::string printed = text(g);
      Graph again = parse_graph(printed, &op);
      if (!(again == g) || hash_of(again) != hash_of(g))
        return finding("printed:\n" + printed + "read again:\n" + text(again));
    }
  }
  return {};
}

/// Where an op takes symbols for its extents, they give the types and the numbers that numbers give.
Finding symbols_agree(const OpDef& op, const Sample& s) {
  Case c = case_of(s), symbolic = c;
  Bindings sizes;
  for (Type& t : symbolic.types)
    for (Dim& d : t.dims)
      if (int64_t n = d.value(); n > 1) {
        std::string name = text_of("S", n);
        sizes[name] = n;
        d = Dim::symbol(name);
      }
  if (sizes.empty()) return kNotApplicable;
  std::optional<Graph> g;
  try {
    g = symbolic.graph(op);
  } catch (const Error&) {
    return kNotApplicable;  // its attributes hold numbers
  }
  Graph bound = substitute(*g, sizes), wanted = c.graph(op);
  if (!(bound == wanted)) return finding("types differ: " + text(bound));
  // `substitute` infers again from numbers; the types that were inferred from symbols are what this law is about.
  auto inferred = g->output_types(), numbers = wanted.output_types();
  for (size_t r = 0; r < inferred.size(); ++r)
    for (Dim& d : inferred[r].dims) d = d.bound(sizes);
  if (inferred != numbers) {
    std::ostringstream out;
    print(out << "symbols give ", g->output_types());
    print(out << ", numbers ", numbers);
    return finding(out.str());
  }
  if (op.decompose) {
    std::optional<Graph> parts;
    try {
      parts = trace(symbolic.types, [&](Graph& to, Values in) { return decompose(to, op, in, c.attrs); });
    } catch (const Error& e) {
      if (e.code() == ErrorCode::unsupported) return kNotApplicable;
      throw;
    }
    return finding(difference(interpret(*parts, c.inputs()), interpret(c.graph(op), c.inputs())));
  }
  return {};
}

/// Every pass leaves the numbers alone, whatever the target; so does the common form.
Finding passes_agree(const OpDef& op, const Sample& s) {
  Case c = case_of(s);
  Graph g = c.graph(op);
  auto inputs = c.inputs(), wanted = interpret(g, inputs);
  for (const auto& backend : all_backends())
    for (KernelDispatch dispatch : {KernelDispatch::native, KernelDispatch::common}) {
      CompileOptions options;
      options.kernel_dispatch = dispatch;
      Pipelined made = run_pipeline(g, backend->target(), options);
      if (made.report.count(Verdict::missing) > 0) continue;  // that it is refused is for the law backend_agrees
      // Below f64 the parts of an op round where its reference, which computes in f64, does not.
      bool wide = c.types.empty() || std::all_of(c.types.begin(), c.types.end(), [](const Type& t) {
                    return !(is_float(t.dtype) && info(t.dtype).bits < 64);
                  });
      if (auto why = difference(interpret(made.graph, inputs), wanted, wide ? 1e-11 : -1); !why.empty())
        return finding(text_of("on ", backend->name(), ": ", why));
    }
  return {};
}

}  // namespace

Finding runs_like_the_reference(const OpDef& op, const Sample& s, const Runner& run) {
  for (const Case& c : cases_of(op, s))
    if (Judged judged = judge(c.graph(op), c.inputs(), run); judged.judgement != Judgement::agrees)
      return finding(text_of(judged.why, " for ", c.text()));
  return {};
}

namespace {

/// Whether there are devices that do not have one of its dtypes, or shapes of such rank, and take them apart.
bool is_taken_apart_somewhere(const Case& c) {
  return std::any_of(c.types.begin(), c.types.end(), [](const Type& t) {
    return (is_integer(t.dtype) && info(t.dtype).bits == 64) || is_complex(t.dtype) || t.rank() > 5;
  });
}

/// With one thread and with several, which split their work; and what a device may take apart with params for inputs,
/// of which it learns the values after it has said whether it takes them.
Finding agrees_on(const Device& device, const OpDef& op, const Sample& s) {
  constexpr int kThreads[] = {1, 3};
  for (const Case& c : cases_of(op, s)) {
    if (Judged judged = judge(c.graph(op), c.inputs(), device, kThreads); judged.judgement == Judgement::wrong)
      return finding(text_of(judged.why, " for ", c.text()));
    if (!is_taken_apart_somewhere(c)) continue;
    const Judged judged =
        judge(c.graph(op), c.inputs(), device, std::span(kThreads, 1), HeldTo::reference, GivenAs::params);
    if (judged.judgement == Judgement::wrong) return finding(text_of(judged.why, " for params ", c.text()));
  }
  return {};
}

}  // namespace

const std::vector<Law>& all_laws() {
  static const std::vector<Law> laws = [] {
    std::vector<Law> all = {
        {"infer_agrees", "inferred type = the type that the reference produced", infer_agrees},
        {"decompose_agrees", "the op = its decomposition, in f64 to 1e-12", decompose_agrees},
        {"round_trips", "parse(print(g)) = g", round_trips},
        {"symbols_agree", "symbolic dims give the types and numbers that numbers give", symbols_agree},
        {"passes_agree", "passes keep the numbers", passes_agree},
    };
    for (Law& law : gradient_laws()) all.push_back(std::move(law));
    static std::deque<std::string> names;  // a law's name is a view
    for (const DeviceInfo& d : devices())
      if (d.available)
        all.push_back(
            {names.emplace_back("backend_agrees(" + d.device.name() + ")"),
             "what a device's report takes, runs there like the reference; what it refuses, compiling refuses",
             [device = d.device](const OpDef& op, const Sample& s) { return agrees_on(device, op, s); }});
    return all;
  }();
  return laws;
}
const Law& find_law(std::string_view name) {
  for (const Law& law : all_laws())
    if (law.name == name) return law;
  fail(ErrorCode::not_found, "there is no law '", name, "'");
}

Finding examine(const Law& law, const OpDef& op, const Sample& s) {
  try {
    return law.check(op, s);
  } catch (const std::exception& e) {
    return {Outcome::broken, e.what()};
  }
}

}  // namespace rlx::laws
