// The manifest of a graph: a tree of layers by the names of nodes and params; see the header.
#include "rlx/manifest.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/printable_text.h"
#include "cost/graph_work.h"
#include "io/graph_symbols.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/op_def.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

/// Names nest at most this deep; what is beyond stays one part. (Those of models have some ten parts.)
constexpr size_t kMostParts = 64;

/// The name of the layer around this one; empty of an outermost one.
std::string_view outer_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? std::string_view() : name.substr(0, dot);
}
/// The first part of a name that has too many.
std::string_view shortened(std::string_view name) {
  size_t at = 0;
  for (size_t parts = 0; parts < kMostParts; ++parts) {
    at = name.find('.', at);
    if (at == name.npos) return name;
    ++at;
  }
  return name.substr(0, at - 1);
}

/// Layers in a list, each behind the one around it, so that sums run from the back.
class LayerTree {
 public:
  LayerTree() { layers_.emplace_back(), parents_.push_back(0), depths_.push_back(0), known_.emplace("", 0); }

  ManifestLayer& layer(size_t index) { return layers_[index]; }
  size_t index_of(std::string_view full_name) {
    const std::string name(shortened(full_name));
    if (const auto found = known_.find(name); found != known_.end()) return found->second;
    const size_t parent = index_of(outer_name(name));
    layers_.push_back({name});
    parents_.push_back(parent), depths_.push_back(depths_[parent] + 1);
    known_.emplace(name, layers_.size() - 1);
    return layers_.size() - 1;
  }
  /// How deep the innermost layer lies that both are in.
  size_t common_depth(size_t a, size_t b) const {
    while (depths_[a] > depths_[b]) a = parents_[a];
    while (depths_[b] > depths_[a]) b = parents_[b];
    while (a != b) a = parents_[a], b = parents_[b];
    return depths_[a];
  }
  /// A value of this layer, and of those around it that lie deeper than `depth`, is used outside of them.
  void add_output(size_t index, const Type& type, size_t depth) {
    for (; depths_[index] > depth; index = parents_[index]) layers_[index].outputs.push_back(type);
  }
  size_t depth(size_t index) const { return depths_[index]; }

  ManifestLayer taken() && {
    for (size_t i = layers_.size(); i-- > 1;) layers_[parents_[i]].totals += layers_[i].totals;
    for (size_t i = layers_.size(); i-- > 1;) layers_[parents_[i]].layers.push_back(std::move(layers_[i]));
    turn(layers_[0]);
    return std::move(layers_[0]);
  }

 private:
  static void turn(ManifestLayer& layer) {  // they were put in from the back
    std::reverse(layer.layers.begin(), layer.layers.end());
    for (ManifestLayer& each : layer.layers) turn(each);
  }
  std::vector<ManifestLayer> layers_;
  std::vector<size_t> parents_, depths_;
  std::unordered_map<std::string, size_t> known_;
};

Dim bytes_of(const Type& type) {
  if (is_static(type.dims)) return static_cast<int64_t>(byte_count(type.dtype, shape_of(type.dims)));
  return element_count(type.dims) * Dim(info(type.dtype).block_bytes) / Dim(info(type.dtype).block_elements);
}

void add_node(ManifestLayer& layer, const Node& node, const SymbolicWork& work) {
  const Dim flops = work.product_flops + work.convolution_flops + work.attention_flops;
  auto found = std::find_if(layer.ops.begin(), layer.ops.end(), [&](const auto& o) { return o.op == node.op->name; });
  if (found == layer.ops.end()) found = layer.ops.insert(layer.ops.end(), {std::string(node.op->name)});
  ++found->count;
  found->flops = found->flops + flops, found->bytes_moved = found->bytes_moved + work.bytes;
  ManifestTotals& t = layer.totals;
  ++t.ops;
  t.product_flops = t.product_flops + work.product_flops;
  t.convolution_flops = t.convolution_flops + work.convolution_flops;
  t.attention_flops = t.attention_flops + work.attention_flops;
  t.other_operations = t.other_operations + work.simple_elements + work.function_elements + work.sort_compares;
  t.bytes_moved = t.bytes_moved + work.bytes;
}

ManifestLayer layers_in(const Graph& g) {
  const std::vector<SymbolicWork> work = symbolic_work_of(g);
  LayerTree tree;
  std::vector<size_t> layer_of(g.nodes().size(), 0);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& node = g.nodes()[i];
    if (node.op == &op::input) continue;
    layer_of[i] = tree.index_of(node.op == &op::param ? outer_name(node.name) : std::string_view(node.name));
    ManifestLayer& layer = tree.layer(layer_of[i]);
    if (node.op == &op::param) {
      const Type& type = node.types[0];
      const Dim elements = element_count(type.dims), bytes = bytes_of(type);
      layer.params.push_back({node.name, type, elements, bytes});
      layer.totals.params = layer.totals.params + elements;
      layer.totals.param_bytes = layer.totals.param_bytes + bytes;
    } else if (node.op == &op::constant) {
      layer.totals.constant_bytes = layer.totals.constant_bytes + bytes_of(node.types[0]);
    } else {
      add_node(layer, node, work[i]);
    }
  }
  // Of each value, how deep the innermost layer lies that has all who use it. An output of the graph leaves that, too.
  constexpr size_t kUnused = SIZE_MAX;
  std::vector<std::vector<size_t>> reach;
  for (const Node& node : g.nodes()) reach.emplace_back(node.types.size(), kUnused);
  const auto at = [&](Ref r) -> size_t& { return reach[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; };
  for (size_t i = 0; i < g.nodes().size(); ++i)
    for (Ref r : g.nodes()[i].operands)
      if (r.node >= 0) at(r) = std::min(at(r), tree.common_depth(layer_of[static_cast<size_t>(r.node)], layer_of[i]));
  for (const Output& o : g.outputs()) at(o.ref) = 0;
  for (size_t i = 0; i < g.nodes().size(); ++i)
    for (size_t r = 0; r < reach[i].size() && !is_leaf(g.nodes()[i]); ++r)
      if (reach[i][r] != kUnused) tree.add_output(layer_of[i], g.nodes()[i].types[r], reach[i][r]);
  ManifestLayer whole = std::move(tree).taken();
  whole.outputs = g.output_types();
  return whole;
}

// ---- JSON ----
std::string json_amount(const Dim& amount) {
  return amount.is_static() ? std::to_string(amount.value()) : json_quoted(text_of(amount));
}
std::string json_dims(const Type& type) {
  std::string text;
  for (const Dim& d : type.dims) text += (text.empty() ? "" : ", ") + json_amount(d);
  return "[" + text + "]";
}
std::string json_type(const Type& type) {
  return "\"dtype\": " + json_quoted(name_of(type.dtype)) + ", \"shape\": " + json_dims(type);
}
template <class Rows, class Text>
std::string json_rows(const Rows& rows, const std::string& between, Text text) {
  std::string all;
  for (const auto& row : rows) all += (all.empty() ? "" : between) + text(row);
  return "[" + all + "]";
}
std::string json_totals(const ManifestTotals& t) {
  return text_of("{\"ops\": ", t.ops, ", \"params\": ", json_amount(t.params),
                 ", \"param_bytes\": ", json_amount(t.param_bytes),
                 ", \"constant_bytes\": ", json_amount(t.constant_bytes), ", \"flops\": ", json_amount(t.flops()),
                 ", \"product_flops\": ", json_amount(t.product_flops),
                 ", \"convolution_flops\": ", json_amount(t.convolution_flops),
                 ", \"attention_flops\": ", json_amount(t.attention_flops),
                 ", \"other_operations\": ", json_amount(t.other_operations),
                 ", \"bytes_moved\": ", json_amount(t.bytes_moved), "}");
}
std::string json_layers(const std::vector<ManifestLayer>& layers, const std::string& indent) {
  return json_rows(layers, ",\n" + indent, [&](const ManifestLayer& layer) {
    const std::string ops = json_rows(layer.ops, ", ", [](const auto& o) {
      return text_of("{\"op\": ", json_quoted(o.op), ", \"count\": ", o.count, ", \"flops\": ", json_amount(o.flops),
                     ", \"bytes_moved\": ", json_amount(o.bytes_moved), "}");
    });
    const std::string params = json_rows(layer.params, ", ", [](const auto& p) {
      return text_of("{\"name\": ", json_quoted(p.name), ", ", json_type(p.type),
                     ", \"elements\": ", json_amount(p.elements), ", \"bytes\": ", json_amount(p.bytes), "}");
    });
    const std::string outputs =
        json_rows(layer.outputs, ", ", [](const Type& type) { return "{" + json_type(type) + "}"; });
    return text_of("{\"name\": ", json_quoted(layer.name), ", \"ops\": ", ops, ", \"params\": ", params,
                   ", \"outputs\": ", outputs, ", \"totals\": ", json_totals(layer.totals),
                   ", \"layers\": ", json_layers(layer.layers, indent + " "), "}");
  });
}

}  // namespace

ManifestTotals& ManifestTotals::operator+=(const ManifestTotals& other) {
  ops += other.ops;
  for (Dim ManifestTotals::*amount :
       {&ManifestTotals::params, &ManifestTotals::param_bytes, &ManifestTotals::constant_bytes,
        &ManifestTotals::product_flops, &ManifestTotals::convolution_flops, &ManifestTotals::attention_flops,
        &ManifestTotals::other_operations, &ManifestTotals::bytes_moved})
    this->*amount = this->*amount + other.*amount;
  return *this;
}

std::string Manifest::json() const {
  const auto entries = [](const std::vector<Entry>& all) {
    return json_rows(
        all, ", ", [](const Entry& e) { return "{\"name\": " + json_quoted(e.name) + ", " + json_type(e.type) + "}"; });
  };
  std::string given;
  for (const auto& [symbol, number] : numbers)
    given += text_of(given.empty() ? "" : ", ", json_quoted(symbol), ": ", number);
  return text_of("{\"graph\": ", json_quoted(graph), ", \"numbers\": {", given,
                 "}, \"symbols\": ", json_rows(symbols, ", ", [](const std::string& s) { return json_quoted(s); }),
                 ",\n \"inputs\": ", entries(inputs), ",\n \"outputs\": ", entries(outputs),
                 ",\n \"layers\": ", json_layers({whole}, "  "), "}");
}

Manifest manifest_of(const Graph& given, const Bindings& numbers) {
  const std::set<std::string> known = symbols_of(given);
  require_symbols(given, numbers, "the manifest");
  return with_context([&] { return text_of("counting the work of graph '", given.name(), "'"); },
                      [&] {
                        const Graph g = substitute(given, numbers);
                        Manifest m{g.name(), {}, {}, numbers, {}, {}};
                        for (Ref r : g.inputs()) m.inputs.push_back({g.node(r).name, g.type(r)});
                        for (const Output& o : g.outputs()) m.outputs.push_back({o.name, g.type(o.ref)});
                        for (const std::string& symbol : known)
                          if (!numbers.contains(symbol)) m.symbols.push_back(symbol);
                        m.whole = layers_in(g);
                        return m;
                      });
}

}  // namespace rlx
