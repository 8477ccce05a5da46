// The generated laws; see the header.
#include "support/laws.h"

#include "compile/backends.h"
#include "compile/pipeline.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/legalize.h"
#include "reference/interpreter.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace rlx::laws {

std::vector<Tensor> Case::inputs(uint64_t seed) const {
  std::vector<Tensor> all;
  for (const Type& t : types) all.push_back(random_tensor(t.dtype, shape_of(t.dims), seed + all.size(), lo, hi));
  return all;
}
Graph Case::graph(const OpDef& op) const {
  return trace(types, [&](Graph& g, Values in) { return g.emit(op, {in.begin(), in.end()}, attrs); });
}
Case case_of(const Sample& s) {
  Case c{{}, s.attrs, s.lo, s.hi};
  for (size_t i = 0; i < s.dims.size(); ++i) c.types.push_back({i < s.dtypes.size() ? s.dtypes[i] : f64, s.dims[i]});
  return c;
}
std::vector<Case> cases_of(const OpDef& op, const Sample& s) {
  std::vector<Case> all = {case_of(s)};
  bool generic = std::any_of(all[0].types.begin(), all[0].types.end(), [](const Type& t) { return t.dtype == f64; });
  if (!generic) return all;
  for (DType t : {f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean, c64, c128}) {
    Case c = all[0];
    for (Type& type : c.types)
      if (type.dtype == f64) type.dtype = t;
    try {
      infer_types(op, c.types, c.attrs);
    } catch (const Error&) {
      continue;  // not a dtype of this op
    }
    if (is_integer(t)) c.lo = std::min(c.lo, -3.0), c.hi = std::max(c.hi, 9.0);
    if (kind_of(t) == Kind::unsigned_int || op.name == "pow") c.lo = 0;
    all.push_back(std::move(c));
  }
  return all;
}

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
      Pipelined made = run_pipeline(g, *backend, options);
      if (made.report.count(Verdict::missing) > 0)
        return finding(text_of("on ", backend->name(), ": ", made.report.table()));
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
  for (const Case& c : cases_of(op, s)) {
    Graph g = c.graph(op);
    auto inputs = c.inputs();
    std::vector<Tensor> got, wanted = interpret(g, inputs);
    with_context([&] { return text_of("running '", op.name, "' on ", c.types.empty() ? Type{} : c.types[0]); },
                 [&] { got = run(g, inputs); });
    if (auto why = difference(got, wanted); !why.empty()) {
      std::ostringstream out;
      print(out << why << " for ", c.types);
      print(out << " ", c.attrs);
      return finding(out.str());
    }
  }
  return {};
}

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
    for (const DeviceInfo& d : devices())
      if (d.available && d.device.kind() != DeviceKind::coreml)  // tests/coreml knows what no program can hold
        all.push_back({d.device == Device::cpu() ? "backend_agrees(cpu)" : "backend_agrees",
                       "the backend = the reference, within the tolerance of its dtype",
                       [device = d.device](const OpDef& op, const Sample& s) {
                         // Twice: with one thread and with several, which split their work.
                         for (int threads : {1, 3}) {
                           Session session(device, {threads});
                           auto f = runs_like_the_reference(op, s, [&](const Graph& g, Tensors inputs) {
                             return session.compile(g).run_ordered(inputs);
                           });
                           if (f.outcome == Outcome::broken) return f;
                         }
                         return Finding{};
                       }});
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
