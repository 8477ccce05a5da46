// See the header. A node's level counts the changes of device on the way to it. Nodes of one device and level that hand
// values to one another are a part: values go from lower levels to higher ones, so that parts never wait in a circle.
#include "compile/split.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <unordered_map>

#include "compile/pipeline.h"
#include "ir/leaves.h"
#include "passes/bound_values.h"

namespace rlx {
namespace {

constexpr size_t kNone = SIZE_MAX;
constexpr size_t kSmallConstant = 1024;  // bytes: beyond, comparing questions costs more than asking again

/// '*' stands for any characters, '?' for one.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, tried = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') star = p++, tried = n;
    else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) ++p, ++n;
    else if (star != std::string_view::npos) p = star + 1, n = ++tried;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}
bool names_node(std::string_view pattern, size_t index, const Node& node) {
  if (pattern.starts_with("op:")) return matches(pattern.substr(3), node.op->name);
  if (pattern.starts_with("%")) {
    size_t wanted = 0;
    const auto [end, error] = std::from_chars(pattern.data() + 1, pattern.data() + pattern.size(), wanted);
    return error == std::errc() && end == pattern.data() + pattern.size() && wanted == index;
  }
  return matches(pattern, node.name);
}

std::string text_of_node(const Graph& g, size_t n) {
  const Node& node = g.nodes()[n];
  return text_of(node.op->name, node.name.empty() ? text_of(" (%", n, ")") : " '" + node.name + "'");
}

/// What devices say of single nodes. Equal nodes are asked about once.
class Claims {
 public:
  Claims(const Graph& g, std::span<const SplitDevice> devices, const CompileOptions& options)
      : g_(g), devices_(devices), options_(options), known_(devices.size()),
        asked_(g.nodes().size(), std::vector<const std::string*>(devices.size())) {
    options_.fallback.clear(), options_.placement.clear();
    options_.strict = false;
  }
  bool takes(size_t device, size_t n) { return refusal(device, n).empty(); }
  /// Why the device does not take the node; empty if it does.
  const std::string& refusal(size_t device, size_t n) {
    const std::string*& answer = asked_[n][device];
    if (!answer) answer = &ask(device, n);
    return *answer;
  }

 private:
  const std::string& ask(size_t device, size_t n) {
    bool is_large = false;
    Graph question = question_about(n, is_large);
    auto& known = known_[device][is_large ? n : hash_of(question)];
    for (const auto& [asked, answer] : known)
      if (!is_large && asked == question) return answer;
    const Pipelined made = run_pipeline(question, devices_[device].target, options_, {.is_silent = true});
    std::string why;
    for (const DispatchLine& line : made.report.lines)
      if (line.verdict == Verdict::missing && why.empty()) why = line.reason;
    known.emplace_front(is_large ? Graph("large") : std::move(question), std::move(why));
    return known.front().second;
  }
  /// The node alone: its operands are constants where they are, params where they are weights, else inputs.
  Graph question_about(size_t n, bool& is_large) const {
    const Node& node = g_.nodes()[n];
    Graph q("question");
    std::map<Ref, Value> made;
    std::vector<Value> operands;
    for (Ref r : node.operands) {
      Value& v = made[r];
      if (!v) {
        const std::string name = text_of("x", made.size());
        const Node& from = g_.node(r);
        if (from.op == &op::constant) {
          const Tensor& value = from.attrs.as<ConstantAttrs>().value;
          is_large |= value.byte_count() > kSmallConstant;
          v = q.constant(value);
        } else {
          v = is_weight(g_, r) ? q.param(name, g_.type(r)) : q.input(name, g_.type(r));
        }
      }
      operands.push_back(v);
    }
    for (Value v : q.emit(*node.op, std::move(operands), node.attrs)) q.output(v);
    return q;
  }

  const Graph& g_;
  std::span<const SplitDevice> devices_;
  CompileOptions options_;
  std::vector<std::unordered_map<size_t, std::deque<std::pair<Graph, std::string>>>> known_;  // deques: answers stay
  std::vector<std::vector<const std::string*>> asked_;
};

class Splitter {
 public:
  Splitter(const Graph& g, std::span<const SplitDevice> devices, const CompileOptions& options)
      : g_(g), devices_(devices), options_(options), claims_(g, devices, options), bound_(bound_nodes(g)),
        placed_(g.nodes().size(), kNone), device_(g.nodes().size(), kNone), level_(g.nodes().size()),
        deps_(g.nodes().size()), group_(g.nodes().size()) {}

  Split run() {
    place();
    assign();
    join();
    return build();
  }

 private:
  const Node& node(size_t n) const { return g_.nodes()[n]; }
  static size_t index(Ref r) { return static_cast<size_t>(r.node); }

  [[noreturn]] void refuse(std::string_view what, const std::vector<DispatchLine>& missing) const {
    std::string names, list;
    for (const SplitDevice& d : devices_) names += (names.empty() ? "" : ", ") + d.device.name();
    for (const DispatchLine& line : missing)
      list += text_of("\n  ", line.op, line.node.empty() ? "" : " '" + line.node + "'", ": ", line.reason);
    throw CompileError(text_of(names, " ", what, list), {names, missing});
  }

  /// Which device the user wants for each node.
  void place() {
    std::vector<DispatchLine> wrong;
    for (const Placement& entry : options_.placement) {
      const Device wanted = Device::parse(entry.device);
      const auto at =
          std::find_if(devices_.begin(), devices_.end(), [&](const SplitDevice& d) { return d.device == wanted; });
      const auto d = static_cast<size_t>(at - devices_.begin());
      bool any = false;
      for (size_t n = 0; n < g_.nodes().size(); ++n) {
        if (is_leaf(node(n)) || !names_node(entry.nodes, n, node(n))) continue;
        any = true;
        if (placed_[n] != kNone) continue;
        placed_[n] = d;
        if (const std::string& why = claims_.refusal(d, n); !why.empty())
          wrong.push_back({node(n).name, std::string(node(n).op->name), Verdict::missing,
                           text_of("it was placed on ", entry.device, " by '", entry.nodes, "', but ", why),
                           entry.device});
      }
      if (!any)
        fail(ErrorCode::invalid_argument, "placement '", entry.nodes, "' = ", entry.device, " names no node of '",
             g_.name(), "'; a pattern is of the names of nodes ('*' any characters), op:NAME or %NUMBER");
    }
    if (!wrong.empty()) refuse("cannot run all nodes where they were placed:", wrong);
  }

  /// A bound value is computed by each part that reads it, if the part's device can.
  bool is_cloned(size_t n, size_t device) {
    return bound_[n] && !is_leaf(node(n)) && placed_[n] == kNone && claims_.takes(device, n);
  }
  /// The nodes of other lists that `n`, on this device, needs handed over.
  void add_deps(size_t n, size_t device, std::set<size_t>& deps) {
    for (Ref r : node(n).operands) {
      const size_t o = index(r);
      if (is_leaf(node(o))) continue;
      if (is_cloned(o, device)) add_deps(o, device, deps);
      else deps.insert(o);
    }
  }

  /// A device for each node that some output needs, and that is not computed wherever it is read.
  void assign() {
    std::vector<size_t> open;
    for (const Output& o : g_.outputs())
      if (!is_leaf(g_.node(o.ref))) open.push_back(index(o.ref));
    std::vector<DispatchLine> missing;
    while (!open.empty()) {
      const size_t n = open.back();
      open.pop_back();
      if (is_regular_.contains(n)) continue;
      is_regular_.insert(n);
      size_t& device = device_[n] = placed_[n];
      std::string why;
      for (size_t d = 0; d < devices_.size() && device == kNone; ++d) {
        if (d > 0 && !is_fallback(d)) continue;
        if (claims_.takes(d, n)) device = d;
        else why += text_of(why.empty() ? "" : "; ", devices_[d].device.name(), ": ", claims_.refusal(d, n));
      }
      if (device == kNone) {
        missing.push_back({node(n).name, std::string(node(n).op->name), Verdict::missing, why});
        device = 0;
      }
      add_deps(n, device, deps_[n]);
      open.insert(open.end(), deps_[n].begin(), deps_[n].end());
    }
    if (devices_[0].has_own_memory) {
      const Limits& limits = devices_[0].target.limits;
      const auto check = [&](const std::string& name, const char* what, const Type& type) {
        if (const auto why = limits.refusal(type))
          missing.push_back(
              {name, what, Verdict::missing,
               text_of(*why, "; inputs and outputs are on the graph's own device, ", devices_[0].device.name())});
      };
      for (Ref r : g_.inputs()) check(g_.node(r).name, "input", g_.type(r));
      for (const Output& o : g_.outputs()) check(o.name, "output", g_.type(o.ref));
    }
    if (!missing.empty()) refuse("cannot run this graph together:", missing);
  }
  bool is_fallback(size_t d) const {
    return std::any_of(options_.fallback.begin(), options_.fallback.end(),
                       [&](const std::string& name) { return Device::parse(name) == devices_[d].device; });
  }

  size_t root(size_t n) {
    while (group_[n] != n) n = group_[n] = group_[group_[n]];
    return n;
  }
  /// Levels, and which nodes are in one part.
  void join() {
    std::iota(group_.begin(), group_.end(), size_t{0});
    // The first of each device and level that reads a value from elsewhere, by that value's node.
    std::map<std::tuple<size_t, size_t, size_t>, size_t> readers;
    const auto join_readers = [&](size_t n, size_t from) {
      const auto [at, is_new] = readers.try_emplace({device_[n], level_[n], from}, n);
      if (!is_new) group_[root(n)] = root(at->second);
    };
    for (const size_t n : is_regular_) {
      for (size_t p : deps_[n]) level_[n] = std::max(level_[n], level_[p] + (device_[p] != device_[n]));
      for (size_t p : deps_[n])
        if (device_[p] == device_[n] && level_[p] == level_[n]) group_[root(n)] = root(p);
        else join_readers(n, p);
      for (Ref r : node(n).operands)
        if (node(index(r)).op == &op::input) join_readers(n, index(r));
    }
  }

  /// Parts in the order of their levels.
  std::vector<std::vector<size_t>> members() {
    std::map<size_t, std::vector<size_t>> by_root;
    for (size_t n : is_regular_) by_root[root(n)].push_back(n);
    std::vector<std::vector<size_t>> all;
    for (auto& entry : by_root) all.push_back(std::move(entry.second));
    std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      return std::pair(level_[a[0]], a[0]) < std::pair(level_[b[0]], b[0]);
    });
    return all;
  }

  std::string text_of_value(Ref r) const {
    const Node& n = g_.node(r);
    if (n.op == &op::input) return text_of("input '", n.name, "'");
    return text_of(n.types.size() > 1 ? text_of("result ", r.result, " of ") : "the result of ",
                   text_of_node(g_, index(r)));
  }
  /// A name for a value in the graphs of parts.
  std::string handed_name(Ref r) const {
    std::string name = text_of("%", r.node, r.result ? text_of(".", r.result) : "");
    while (taken_.contains(name)) name += "'";
    return name;
  }

  size_t new_value(Ref r) {
    split_.values.push_back({text_of_value(r), g_.type(r)});
    return split_.values.size() - 1;
  }

  /// What a part's graph is built of.
  struct Building {
    SplitPart part;
    size_t device;  // among `devices_`
    std::map<Ref, Value> values = {};
    std::set<size_t> emitted = {};
    std::set<std::string> told = {};  // symbols
  };

  Value value_in(Building& b, Ref r) {
    if (const auto found = b.values.find(r); found != b.values.end()) return found->second;
    const Node& from = g_.node(r);
    Graph& to = b.part.graph;
    if (from.op == &op::param) return b.values[r] = to.param(from.name, from.types[0]);
    if (from.op == &op::constant) return b.values[r] = to.constant(from.attrs.as<ConstantAttrs>().value);
    if (from.op != &op::input && !is_regular_.contains(index(r))) {
      emit(b, index(r));
      return b.values.at(r);
    }
    if (from.op != &op::input && is_cloned(index(r), b.device)) {  // an output elsewhere, and a weight here
      emit(b, index(r));
      return b.values.at(r);
    }
    b.part.inputs.push_back(handed_.at(r));
    for (const Dim& d : g_.type(r).dims)
      d.for_each_symbol([&](const std::string& s) {
        if (d == Dim::symbol(s)) b.told.insert(s);
      });
    return b.values[r] = to.input(from.op == &op::input ? from.name : handed_name(r), g_.type(r));
  }
  void emit(Building& b, size_t n) {
    if (!b.emitted.insert(n).second) return;
    std::vector<Value> operands;
    for (Ref r : node(n).operands) operands.push_back(value_in(b, r));
    b.part.graph.set_scope(node(n).name);
    const auto made = b.part.graph.emit(*node(n).op, std::move(operands), node(n).attrs);
    for (size_t r = 0; r < made.size(); ++r) b.values[{static_cast<int32_t>(n), static_cast<int32_t>(r)}] = made[r];
    ++b.part.nodes;
    if (b.part.first.empty()) b.part.first = node(n).name;
  }
  /// An input without elements for the symbols that no other input tells.
  void add_extents(Building& b) {
    std::set<std::string> open;
    for (const Node& each : b.part.graph.nodes())
      for_each_symbol(each, [&](const std::string& s) {
        if (!b.told.contains(s)) open.insert(s);
      });
    if (open.empty()) return;
    Dims dims = {0};
    for (const std::string& s : open) dims.push_back(Dim::symbol(s));
    std::string name = "extents";
    while (taken_.contains(name)) name += "'";
    b.part.graph.input(name, boolean, dims);
    b.part.inputs.push_back(SplitPart::kExtents);
  }
  size_t number_of(size_t device) {
    const Device& wanted = devices_[device].device;
    const auto at = std::find(split_.devices.begin(), split_.devices.end(), wanted);
    if (at != split_.devices.end()) return static_cast<size_t>(at - split_.devices.begin());
    split_.devices.push_back(wanted);
    return split_.devices.size() - 1;
  }

  Split build() {
    for (Ref r : g_.inputs()) taken_.insert(g_.node(r).name);
    for (Ref r : g_.params()) taken_.insert(g_.node(r).name);
    for (const Output& o : g_.outputs()) taken_.insert(o.name);
    split_.devices = {devices_[0].device};
    split_.outputs.resize(g_.outputs().size());
    for (Ref r : g_.inputs()) handed_[r] = new_value(r);
    // Which values are handed over, from the nodes that read them.
    std::set<Ref> wanted;
    const auto want = [&](auto self, size_t n, size_t device) -> void {
      for (Ref r : node(n).operands) {
        if (is_leaf(g_.node(r))) continue;
        if (is_cloned(index(r), device)) self(self, index(r), device);
        else wanted.insert(r);
      }
    };
    for (size_t n : is_regular_) want(want, n, device_[n]);

    for (const std::vector<size_t>& nodes : members()) {
      const size_t device = device_[nodes[0]];
      Building b{{number_of(device), Graph(part_name())}, device};
      const std::set<size_t> own(nodes.begin(), nodes.end());
      for (size_t n : nodes) emit_own(b, n);
      for (size_t n : nodes)
        for (size_t r = 0; r < node(n).types.size(); ++r) {
          const Ref ref{static_cast<int32_t>(n), static_cast<int32_t>(r)};
          bool is_there = false;
          for (size_t o = 0; o < g_.outputs().size(); ++o) {
            if (g_.outputs()[o].ref != ref) continue;
            add_output(b, ref, g_.outputs()[o].name);
            split_.outputs[o] = b.part.outputs.back();
            is_there = true;
          }
          if (!is_there && wanted.contains(ref) && is_read_outside(ref, own)) add_output(b, ref, handed_name(ref));
        }
      add_extents(b);
      split_.parts.push_back(std::move(b.part));
    }
    add_given_outputs();
    return std::move(split_);
  }
  /// A member of the part: its operands of this part stand already, as members are in the order of the graph.
  void emit_own(Building& b, size_t n) { emit(b, n); }

  bool is_read_outside(Ref r, const std::set<size_t>& own) {
    return std::any_of(is_regular_.begin(), is_regular_.end(),
                       [&](size_t n) { return !own.contains(n) && deps_[n].contains(index(r)); });
  }
  void add_output(Building& b, Ref r, const std::string& name) {
    const size_t value = new_value(r);
    handed_.try_emplace(r, value);
    b.part.graph.output(b.values.at(r), name);
    b.part.outputs.push_back(value);
  }
  /// Outputs that are inputs, params or constants: a part on the graph's own device gives them.
  void add_given_outputs() {
    Building b{{0, Graph(part_name())}, 0};
    for (size_t o = 0; o < g_.outputs().size(); ++o) {
      const Output& out = g_.outputs()[o];
      if (!is_leaf(g_.node(out.ref))) continue;
      const Value v = value_in(b, out.ref);
      b.part.graph.output(v, out.name);
      split_.values.push_back({text_of("output '", out.name, "'"), g_.type(out.ref)});
      b.part.outputs.push_back(split_.values.size() - 1);
      split_.outputs[o] = b.part.outputs.back();
    }
    if (b.part.outputs.empty()) return;
    add_extents(b);
    split_.parts.push_back(std::move(b.part));
  }
  std::string part_name() const { return text_of(g_.name(), ".", split_.parts.size()); }

  const Graph& g_;
  std::span<const SplitDevice> devices_;
  const CompileOptions& options_;
  Claims claims_;
  std::vector<bool> bound_;
  std::vector<size_t> placed_, device_, level_;
  std::vector<std::set<size_t>>
      deps_;  // of nodes in `is_regular_`: those whose values it is handed, or has in its part
  std::vector<size_t> group_;
  std::set<size_t> is_regular_;
  std::set<std::string> taken_;
  std::map<Ref, size_t> handed_;
  Split split_;
};

size_t readers_of(const Split& split, size_t value) {
  size_t count = 0;
  for (const SplitPart& part : split.parts)
    count += std::find(part.inputs.begin(), part.inputs.end(), value) != part.inputs.end();
  return count;
}

}  // namespace

Split split_graph(const Graph& g, std::span<const SplitDevice> devices, const CompileOptions& options) {
  return Splitter(g, devices, options).run();
}

bool may_overwrite(const Split& split, size_t part, size_t input) {
  const SplitPart& p = split.parts[part];
  return p.device == 0 && p.inputs[input] != SplitPart::kExtents && readers_of(split, p.inputs[input]) == 1;
}

bool updates_in_place(const Split& split, const Graph& g, const std::set<std::string>& donated) {
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const std::string& name = g.node(g.inputs()[i]).name;
    if (!donated.contains(name)) continue;
    for (size_t o = 0; o < g.outputs().size(); ++o) {
      if (g.outputs()[o].name != name || g.type(g.outputs()[o].ref) != g.type(g.inputs()[i])) continue;
      bool is_in_place = false;
      for (size_t p = 0; p < split.parts.size(); ++p) {
        const SplitPart& part = split.parts[p];
        const auto at = std::find(part.inputs.begin(), part.inputs.end(), i);
        is_in_place |= at != part.inputs.end() &&
                       may_overwrite(split, p, static_cast<size_t>(at - part.inputs.begin())) &&
                       std::find(part.outputs.begin(), part.outputs.end(), split.outputs[o]) != part.outputs.end();
      }
      if (!is_in_place) return false;
      break;
    }
  }
  return true;
}

}  // namespace rlx
