// See the header.
#include "quantization/plan.h"

#include <algorithm>
#include <set>

#include "base/name_pattern.h"
#include "compile/with_values.h"
#include "ir/leaves.h"
#include "passes/output_channels.h"
#include "rlx/ops.h"

namespace rlx::quantization {
namespace {

/// Somebody has quantized already.
bool is_quantized(const Node& node) {
  for (const OpDef* op : {&op::quantize, &op::dequantize, &op::qmatmul, &op::qconv2d})
    if (node.op == op) return true;
  return is_fake_quantized(node);
}

/// The param that a weight comes from, through what moves, converts or quantizes its elements; null if it is no param.
const Node* param_behind(const Graph& g, Ref weight) {
  for (;;) {
    const Node& node = g.node(weight);
    if (node.op == &op::param) return &node;
    if (node.op != &op::convert && !is_fake_quantized(node) && !keeps_codes(node)) return nullptr;
    weight = node.operands[0];
  }
}

std::string layer_name(const Graph& g, const Node& node) {
  constexpr std::string_view kWeight = ".weight";
  if (const Node* param = param_behind(g, node.operands[1])) {
    const std::string& name = param->name;
    return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
  }
  return node.name.empty() ? std::string(node.op->name) : node.name;
}

void check(const QuantizationConfig& config) {
  std::string ops;
  for (const OpDef* op : quantized_ops()) ops += (ops.empty() ? "" : ", ") + std::string(op->name);
  for (const auto& [name, settings] : config.classes) {
    const std::string& wanted = name;
    if (std::none_of(quantized_ops().begin(), quantized_ops().end(),
                     [&](const OpDef* op) { return op->name == wanted; }))
      fail(ErrorCode::not_found, "no class of nodes that are quantized is called '", name, "'; there are ", ops);
    for (int64_t bits : {settings.weight_bits, settings.activation_bits})
      if (bits < 2 || bits > 8)
        fail(ErrorCode::invalid_argument, "nodes '", name, "' are to have ", bits, " bits; it goes from 2 to 8");
  }
  if (config.ste != SteKind::identity && config.ste != SteKind::clipped_identity)
    fail(ErrorCode::invalid_argument, "the straight-through estimator of a model is identity or clipped_identity, not ",
         names_of(config.ste)[static_cast<size_t>(config.ste)]);
  if (!(config.decay >= 0 && config.decay < 1))
    fail(ErrorCode::invalid_argument, "decay is ", config.decay, "; it must be from 0 to below 1");
}

/// Gathers the places of one graph, each once.
class Planner {
 public:
  Planner(const Graph& g, const QuantizationConfig& config)
      : g_(g), config_(config), uses_(g), behind_(nodes_behind_inputs(g)) {}

  Plan operator()() {
    check(config_);
    for (size_t n = 0; n < g_.nodes().size(); ++n)
      if (is_quantized(g_.nodes()[n]))
        fail(ErrorCode::invalid_argument, "graph '", g_.name(), "' is quantized already: node ", n, " is ",
             g_.nodes()[n].op->name);
    std::vector<Layer> layers = chosen();
    // Results first: what a layer gives is what the next one takes.
    for (const Layer& layer : layers)
      add(end_of_layer(g_, uses_, behind_, layer.node), layer.name + ".output", bits_of(layer).activation_bits);
    for (const Layer& layer : layers) {
      const Node& node = g_.nodes()[layer.node];
      add_source(node.operands[0], layer, ".input");
      if (behind_[static_cast<size_t>(node.operands[1].node)]) add_source(node.operands[1], layer, ".input2");
      else add_weight(layer);
    }
    return std::move(plan_);
  }

 private:
  QuantizedClass bits_of(const Layer& layer) const {
    auto found = config_.classes.find(g_.nodes()[layer.node].op->name);
    return found == config_.classes.end() ? QuantizedClass{} : found->second;
  }

  std::vector<Layer> chosen() const {
    std::vector<Layer> all = layers_in(g_, behind_), wanted;
    std::string names;
    for (const Layer& layer : all) names += (names.empty() ? "'" : ", '") + layer.name + "'";
    for (const std::string& skip : config_.skip)
      if (std::none_of(all.begin(), all.end(), [&](const Layer& layer) { return matches_name(skip, layer.name); }))
        fail(ErrorCode::not_found, "'", skip, "', which is to stay floats, is no layer of graph '", g_.name(),
             "'; there are ", names.empty() ? "none" : names);
    for (const Layer& layer : all)
      if (bits_of(layer).quantize && std::none_of(config_.skip.begin(), config_.skip.end(),
                                                  [&](const auto& skip) { return matches_name(skip, layer.name); }))
        wanted.push_back(layer);
    if (wanted.empty())
      fail(ErrorCode::invalid_argument, "there is nothing to quantize in graph '", g_.name(), "': of ", all.size(),
           " products and convolutions of floats, none is left by the config");
    return wanted;
  }

  void add(Ref value, std::string name, int64_t bits) {
    if (taken_.insert(value).second) plan_.activations.push_back({value, unique(std::move(name)), bits});
  }

  /// Where the numbers of `value` come from, through what keeps codes; a relu only if there are codes before it.
  void add_source(Ref value, const Layer& layer, const char* suffix) {
    Ref source = value;
    for (Ref at = value;;) {
      if (taken_.contains(at)) return;
      const Node& node = g_.node(at);
      if (auto same = scaled_like(node)) {
        if (source == at) source = *same;
        at = *same;
      } else if (node.op == &op::relu) {
        at = node.operands[0];
      } else {
        break;
      }
    }
    const Node& node = g_.node(source);
    add(source, node.op == &op::input ? node.name : layer.name + suffix, bits_of(layer).activation_bits);
  }

  void add_weight(const Layer& layer) {
    const Node& node = g_.nodes()[layer.node];
    Ref value = node.operands[1];
    auto axis = output_channel_axis(node, g_);
    if (!axis) return;
    const int64_t bits = bits_of(layer).weight_bits;
    for (PlannedWeight& known : plan_.weights)
      if (known.value == value && known.axis == *axis && known.bits == bits) return known.nodes.push_back(layer.node);
    const Node* param = param_behind(g_, value);
    std::string name = unique(param ? param->name : layer.name + ".weight");
    plan_.weights.push_back({value, {layer.node}, std::move(name), *axis, bits});
  }

  std::string unique(std::string name) {
    std::string made = name;
    for (int n = 2; !names_.insert(made).second; ++n) made = text_of(name, ".", n);
    return made;
  }

  const Graph& g_;
  const QuantizationConfig& config_;
  Uses uses_;
  Mask behind_;
  Plan plan_;
  std::set<Ref> taken_;
  std::set<std::string> names_;
};

}  // namespace

Plan plan_of(const Graph& g, const QuantizationConfig& config) { return Planner(g, config)(); }

const std::vector<const OpDef*>& quantized_ops() {
  static const std::vector<const OpDef*> kOps = {&op::conv, &op::linear, &op::matmul, &op::dot_general};
  return kOps;
}

bool is_fake_quantized(const Node& node) {
  return node.op == &op::fake_quantize || node.op == &op::fake_quantize_lsq || node.op == &op::fake_quantize_affine;
}

Mask nodes_behind_inputs(const Graph& g) {
  Mask behind(g.nodes().size());
  for (size_t n = 0; n < behind.size(); ++n) {
    const Node& node = g.nodes()[n];
    behind[n] = node.op == &op::input || std::any_of(node.operands.begin(), node.operands.end(),
                                                     [&](Ref r) { return behind[static_cast<size_t>(r.node)]; });
  }
  return behind;
}

std::vector<Layer> layers_in(const Graph& g, const Mask& behind_inputs) {
  std::vector<Layer> layers;
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (std::find(quantized_ops().begin(), quantized_ops().end(), node.op) == quantized_ops().end()) continue;
    auto is_float_at = [&](size_t i) { return is_float(g.type(node.operands[i]).dtype); };
    if (is_float_at(0) && is_float_at(1) && behind_inputs[static_cast<size_t>(node.operands[0].node)])
      layers.push_back({n, layer_name(g, node)});
  }
  return layers;
}

bool keeps_codes(const Node& node) {
  if (node.op == &op::pool) {
    PoolKind kind = node.attrs.as<PoolAttrs>().kind;
    return kind == PoolKind::max || kind == PoolKind::min;
  }
  return node.op->moves_data && node.operands.size() == 1 && node.types.size() == 1 && node.op != &op::bitcast &&
         node.op != &op::trilu && node.op != &op::diag && node.op != &op::pad_mode && node.op != &op::interpolate &&
         node.op != &op::im2col && !holds_subgraph(node.attrs);
}

std::optional<Ref> scaled_like(const Node& node) {
  if (keeps_codes(node)) return node.operands[0];
  return node.op == &op::dropout ? std::optional(node.operands[1]) : std::nullopt;
}

Ref end_of_layer(const Graph& g, const Uses& uses, const Mask& behind_inputs, size_t node) {
  Ref end = {static_cast<int32_t>(node), 0};
  bool has_bias = false;
  while (uses.only_one(end)) {
    auto next = static_cast<size_t>(uses.of(end)[0]);
    const Node& user = g.nodes()[next];
    bool is_bias = user.op == &op::add && !has_bias;
    if (is_bias) {
      Ref other = user.operands[0] == end ? user.operands[1] : user.operands[0];
      is_bias = !behind_inputs[static_cast<size_t>(other.node)];
    }
    if (!is_bias && user.op != &op::relu) break;
    end = {static_cast<int32_t>(next), 0};
    if (user.op == &op::relu) break;
    has_bias = true;
  }
  return end;
}

std::vector<Value> copied(Graph& to, const Graph& g, const Changes& changes) {
  auto standing_for = [&](Ref r, Value v) { return changes.result ? changes.result(r, v) : v; };
  return replay(
      to, g,
      [&](Ref r) {
        const Node& leaf = g.node(r);
        if (leaf.op == &op::input) return standing_for(r, to.input(leaf.name, leaf.types[0]));
        return standing_for(r, changes.param ? changes.param(leaf) : to.param(leaf.name, leaf.types[0]));
      },
      [&](const Site& site) {
        std::vector<Value> operands(site.operands.begin(), site.operands.end());
        if (changes.operands) changes.operands(site.index, operands);
        std::vector<Value> made = to.emit(*site.node.op, std::move(operands), site.node.attrs);
        for (size_t r = 0; r < made.size(); ++r)
          made[r] = standing_for({static_cast<int32_t>(site.index), static_cast<int32_t>(r)}, made[r]);
        return made;
      });
}

Graph with_results(const Graph& g, std::span<const Ref> results) {
  Graph to(g.name());
  std::map<Ref, Value> kept;
  copied(to, g, {.result = [&](Ref r, Value v) {
           if (std::find(results.begin(), results.end(), r) != results.end()) kept[r] = v;
           return v;
         }});
  for (Ref r : results) to.output(kept.at(r));
  return prune(to);
}

std::vector<Tensor> known_values(const Graph& g, std::span<const Ref> wanted, const NamedTensors& params,
                                 const Session& device) {
  Mask needed(g.nodes().size());
  for (Ref r : wanted) needed[static_cast<size_t>(r.node)] = true;
  for (size_t n = needed.size(); n-- > 0;)
    if (needed[n])
      for (Ref r : g.nodes()[n].operands) needed[static_cast<size_t>(r.node)] = true;
  Graph known(g.name());
  std::vector<std::vector<Value>> values(needed.size());
  auto made_of = [&](Ref r) { return values[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; };
  for (size_t n = 0; n < needed.size(); ++n) {
    const Node& node = g.nodes()[n];
    if (!needed[n]) continue;
    if (node.op == &op::param) {
      value_of(params, node);  // fails by name
      values[n] = {known.param(node.name, node.types[0])};
    } else {
      std::vector<Value> operands;
      for (Ref r : node.operands) operands.push_back(made_of(r));
      values[n] = known.emit(*node.op, std::move(operands), node.attrs);
    }
  }
  for (Ref r : wanted) known.output(made_of(r));
  CompiledGraph compiled = device.compile(known);
  for (Ref r : known.params()) compiled.set_param(known.node(r).name, value_of(params, known.node(r)));
  return compiled.run({});
}

}  // namespace rlx::quantization
