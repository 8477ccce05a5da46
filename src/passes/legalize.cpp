// The walk that asks the target about every node; see the header.
#include "passes/legalize.h"

#include <algorithm>
#include <set>

#include "base/growth_limit.h"
#include "ir/leaves.h"
#include "passes/bound_values.h"
#include "passes/subgraphs.h"

namespace rlx {
namespace {

/// The dtypes of `types`, each once, in their order. Without a stream, as every node of every compile has them.
std::string dtypes_text(std::span<const Type> types) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) {
    size_t first = 0;
    while (types[first].dtype != types[i].dtype) ++first;
    if (first == i) text.append(text.empty() ? "" : ", ").append(name_of(types[i].dtype));
  }
  return text;
}
/// As DispatchLine::dtypes says.
std::string dtypes_text(std::span<const Type> operands, std::span<const Type> results) {
  std::string from = dtypes_text(operands), to = dtypes_text(results);
  return from.empty() || from == to ? to : from + " -> " + to;
}

struct Legalizer {
  const Target& target;
  const LegalizeOptions& options;
  const std::function<std::vector<Target>()>& ask_others;
  std::optional<std::vector<Target>> others = {};  // once one was asked for
  std::vector<DispatchLine> report = {};
  std::vector<const OpDef*> decomposed = {};  // whose parts are being lowered, the outermost first
  std::set<std::string> by_reference = {};    // names of ops that are interpreted

  Graph legal(const Graph& g) {
    return rewritten(g, [&](const Site& site) { return lower(site); });
  }

  /// The parts of a node, whose line is the last one, each lowered in turn.
  std::vector<Value> inlined(const Site& site, const Graph& parts) {
    std::vector<DispatchLine> kept = std::exchange(report, {});  // the user sees the node, not its parts
    std::set<std::string> known = std::exchange(by_reference, {});
    auto result = replay(site.to, parts, site.operands, [&](const Site& part) { return lower(part); });
    std::vector<DispatchLine> inner = std::exchange(report, std::move(kept));
    if (!by_reference.empty()) {
      std::string names;
      for (const std::string& name : by_reference) names += text_of(names.empty() ? "" : ", ", name);
      report.back().reason += text_of("; of its parts these run by their reference: ", names);
    }
    by_reference.merge(known);
    for (DispatchLine& line : inner)
      if (line.verdict == Verdict::missing) report.push_back(std::move(line));
    return result;
  }

  /// While a node is composed of others: its op is in the list.
  struct Nested {
    Nested(std::vector<const OpDef*>& to, const OpDef* op) : ops(to) { ops.push_back(op); }
    ~Nested() { ops.pop_back(); }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    std::vector<const OpDef*>& ops;
  };
  /// An op from outside may be made of itself for ever. (An op may also be made of smaller ones of its kind.)
  void require_end(const OpDef& op) const {
    constexpr auto kMostWithinItself = 32;
    if (std::count(decomposed.begin(), decomposed.end(), &op) < kMostWithinItself) return;
    const auto last = std::find(decomposed.rbegin(), decomposed.rend(), &op);
    std::string path;
    for (auto each = last.base() - 1; each != decomposed.end(); ++each) path += text_of((*each)->name, " > ");
    fail(ErrorCode::invalid_argument, "the decomposition of '", op.name, "' uses '", op.name, "' again (", path,
         op.name, ")");
  }

  std::optional<std::vector<Value>> lower(const Site& site) {
    const Node& node = site.node;
    std::vector<Ref> operands;
    for (const Value& v : site.operands) operands.push_back(v.ref());
    const GrowthLimit limit(room_to_grow(site.to, node, operands), [&] {
      std::ostringstream text;
      text << "'" << node.op->name << "(";
      for (size_t i = 0; i < site.operands.size(); ++i) text << (i ? ", " : "") << site.operands[i].type();
      text << ")";
      if (!node.attrs.empty() && node.op != &op::constant) print(text << " ", node.attrs);
      text << "'";
      if (!node.name.empty()) text << " of '" << node.name << "'";
      return text.str();
    });
    return lower_node(site);
  }

  std::optional<std::vector<Value>> lower_node(const Site& site) {
    const Node& node = site.node;
    if (node.op == &op::constant) return std::nullopt;
    std::vector<Type> types;
    for (const Value& v : site.operands) types.push_back(v.type());
    const Question asked{node, types, [&](size_t i) { return is_weight(site.to, site.operands[i].ref()); }};
    std::string name(node.op->name);
    const auto add_line = [&](Verdict verdict, std::string reason) {
      report.push_back({node.name, name, verdict, std::move(reason), {}, dtypes_text(types, node.types)});
    };
    bool common = node.op->decompose && (options.common || options.force_common.contains(name));
    std::optional<std::string> refusal = common ? "the common form was asked for" : target.refuses(asked);
    bool interpreted = !refusal && target.interprets && target.interprets(asked);
    if (interpreted && options.force_native.contains(name)) refusal = "it would run by its reference";
    if (!refusal) {
      if (interpreted) {
        by_reference.insert(name);
        add_line(Verdict::interpreted, "no kernel and no decomposition: its reference runs, on one thread");
      } else add_line(Verdict::native, target.remark ? target.remark(asked) : std::string());
      if (node.attrs.empty()) return std::nullopt;
      Attrs attrs = with_subgraphs(node.attrs, [&](const Graph& body) { return legal(body); });
      return site.to.emit(*node.op, {site.operands.begin(), site.operands.end()}, std::move(attrs));
    }
    if (options.force_native.contains(name)) {
      add_line(Verdict::missing, text_of("it was to be native, but ", *refusal));
      return std::nullopt;
    }
    if (!common)
      for (const Rewriting& r : target.rewritings)
        if (r.op == node.op && r.applies(asked)) {
          add_line(Verdict::rewritten, text_of(*refusal, "; ", r.what));
          return inlined(site, trace(types, [&](Graph& g, Values v) { return r.build(g, v, node.attrs); }));
        }
    if (node.op->decompose) try {
        require_end(*node.op);
        const Nested nested(decomposed, node.op);
        Graph parts = trace(types, [&](Graph& g, Values v) { return decompose(g, *node.op, v, node.attrs); });
        add_line(Verdict::composed, *refusal);
        return inlined(site, parts);
      } catch (const Error& e) {
        if (e.code() != ErrorCode::unsupported) throw;
        *refusal += text_of("; ", e.what());
      }
    if (!others) others = ask_others ? ask_others() : std::vector<Target>{};
    for (const Target& other : *others)
      if (!other.refuses(asked)) *refusal += text_of("; ", other.name, " would take it");
    add_line(Verdict::missing, *refusal);
    return std::nullopt;
  }
};

}  // namespace

Legalized legalize(const Graph& g, const Target& target, const LegalizeOptions& options,
                   const std::function<std::vector<Target>()>& others) {
  Legalizer legalizer{target, options, others};
  Graph result = legalizer.legal(g);
  const auto check = [&](const std::string& name, const char* what, const Type& type) {
    std::optional<std::string> why = target.limits.refusal(type);
    if (!why && target.boundary_refusal) why = target.boundary_refusal(type);
    if (why) legalizer.report.push_back({name, what, Verdict::missing, *why});
  };
  for (Ref r : result.inputs()) check(result.node(r).name, "input", result.type(r));
  for (const Output& output : result.outputs()) check(output.name, "output", result.type(output.ref));
  const std::string said = target.detail.empty() ? target.name : text_of(target.name, " (", target.detail, ")");
  return {std::move(result), {said, std::move(legalizer.report)}};
}

void require_complete(const DispatchReport& report, bool strict) {
  std::string list;
  for (const DispatchLine& line : report.lines) {
    if (line.verdict == Verdict::native || (!strict && line.verdict != Verdict::missing)) continue;
    list += text_of("\n  ", line.op, line.node.empty() ? "" : " '" + line.node + "'", ": ",
                    names_of(line.verdict)[size_t(line.verdict)], ", ", line.reason);
  }
  if (!list.empty() && !report.is_split() && report.count(Verdict::missing) > 0)
    list +=
        "\n  name devices that may run what this one does not take, to allow it: CompileOptions::fallback, --fallback, "
        "RLX_FALLBACK";
  if (list.empty()) return;
  const std::string device = report.target.substr(0, report.target.find(" ("));  // without the instruction set
  throw CompileError(
      text_of(device, strict ? " cannot run all of this graph natively:" : " cannot run this graph:", list), report);
}

}  // namespace rlx
