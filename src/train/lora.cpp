// Low-rank adapters; see rlx/lora.h.
#include "rlx/lora.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "io/json_tree.h"
#include "ir/rewrite.h"
#include "ops/random/random_bits.h"
#include "rlx/blocks.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

constexpr std::string_view kWeight = ".weight", kInFront = "base_model.model.";

/// The param that the weight of a product comes from; `transposed` is turned at each transpose on the way.
const Node* source_of(const Graph& g, Ref weight, bool& transposed) {
  for (;;) {
    const Node& node = g.node(weight);
    if (node.op == &op::param) return &node;
    bool passes = node.op == &op::dequantize || node.op == &op::dequantize_blocks ||
                  node.op == &op::dequantize_blockwise || node.op == &op::convert;
    bool turns = node.op == &op::transpose && node.types[0].rank() == 2 &&
                 node.attrs.as<TransposeAttrs>().permutation == Axes{1, 0};
    if (!passes && !turns) return nullptr;
    transposed ^= turns;
    weight = node.operands[0];
  }
}

/// Whether the weight of the product stands as [in, out]; nothing if the node is no product of a matrix.
std::optional<bool> in_by_out(const Node& node, const Graph& g) {
  if (node.operands.size() < 2 || g.type(node.operands[1]).rank() != 2) return std::nullopt;
  if (node.op == &op::linear) return false;
  if (node.op == &op::matmul) return true;
  if (node.op == &op::fused_matmul) return !node.attrs.as<FusedMatmulAttrs>().transpose_rhs;
  if (node.op == &op::dequant_matmul) {
    const auto& attrs = node.attrs.as<DequantMatmulAttrs>();
    return attrs.has_scale && !attrs.transpose_rhs;
  }
  return std::nullopt;
}

std::string module_of(const std::string& weight) {
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}
bool names(const std::string& target, const std::string& module) {
  return module == target || module.ends_with("." + target);
}

Tensor added_to(const Tensor& weight, const Tensor& a, const Tensor& b, const Lora::Module& m, double scale) {
  Tensor sum = weight;
  auto av = a.values<float>(), bv = b.values<float>();
  auto in = static_cast<size_t>(m.in), out = static_cast<size_t>(m.out), rank = av.size() / in;
  for (size_t o = 0; o < out; ++o)
    for (size_t i = 0; i < in; ++i) {
      double product = 0;
      for (size_t r = 0; r < rank; ++r) product += double{bv[o * rank + r]} * double{av[r * in + i]};
      size_t at = m.in_by_out ? i * out + o : o * in + i;
      store<double>(sum, at, load_number(weight, at) + scale * product);
    }
  return sum;
}

const Tensor& param_of(const NamedTensors& params, const std::string& name, const Type& type) {
  auto found = params.find(name);
  if (found == params.end()) fail(ErrorCode::not_found, "there is no value for the param '", name, "'");
  if (found->second.type() != type)
    fail(ErrorCode::shape_mismatch, "the param '", name, "' is ", type, ", and its value ", found->second.type());
  return found->second;
}
const Tensor& a_of(const NamedTensors& params, const Lora& lora, const Lora::Module& m) {
  return param_of(params, m.a, {f32, {lora.config.rank, m.in}});
}
const Tensor& b_of(const NamedTensors& params, const Lora& lora, const Lora::Module& m) {
  return param_of(params, m.b, {f32, {m.out, lora.config.rank}});
}

/// PEFT's settings that change what an adapter computes, and that ours have not.
void require_plain(const JsonTree& config) {
  for (const char* key : {"use_rslora", "use_dora", "use_qalora", "use_bdlora", "fan_in_fan_out", "lora_bias"})
    if (const JsonTree* set = config.find(key); set && !set->is_null() && !(set->is_boolean() && !set->boolean()))
      fail(ErrorCode::unsupported, "adapter_config.json sets '", key, "', which these adapters have not");
  for (const char* key : {"rank_pattern", "alpha_pattern", "modules_to_save", "layer_replication", "target_parameters",
                          "alora_invocation_tokens", "arrow_config"})
    if (const JsonTree* set = config.find(key);
        set && !set->is_null() && !((set->is_array() || set->is_object()) && set->elements().empty()))
      fail(ErrorCode::unsupported, "adapter_config.json has a '", key, "', which these adapters have not");
}

std::string adapter_file(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace

Lora add_lora(const Graph& g, const LoraConfig& config) {
  if (config.rank < 1 || config.rank > 1 << 16 || !std::isfinite(config.alpha))
    fail(ErrorCode::invalid_argument, "adapters have a rank from 1 to 65536 and a finite alpha, not ", config.rank,
         " and ", config.alpha);
  Lora lora{config, Graph(), {}};
  std::map<std::string, std::pair<Value, Value>> made;  // A and B of a weight: several products may share it
  std::string others;
  std::vector<bool> named(config.targets.size());
  lora.graph = rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    auto by_columns = in_by_out(site.node, site.from);
    if (!by_columns) return std::nullopt;
    bool turned = *by_columns;
    const Node* weight = source_of(site.from, site.node.operands[1], turned);
    if (!weight) return std::nullopt;
    std::string module = module_of(weight->name);
    bool wanted = false;
    for (size_t t = 0; t < named.size(); ++t)
      if (names(config.targets[t], module)) wanted = named[t] = true;
    if (!wanted) {
      others += (others.empty() ? "'" : ", '") + module + "'";
      return std::nullopt;
    }
    if (site.node.op == &op::fused_matmul && site.node.attrs.as<FusedMatmulAttrs>().activation != Activation::none)
      fail(ErrorCode::unsupported, "the product of '", weight->name,
           "' has its activation fused to it; adapters stand "
           "before the activation: add them to the graph as it was built");
    Value x = site.operands[0];
    Value y = site.to.emit(*site.node.op, {site.operands.begin(), site.operands.end()}, site.node.attrs)[0];
    if (!x.dim(-1).is_static() || !y.dim(-1).is_static())
      fail(ErrorCode::shape_mismatch, "the product of '", weight->name, "' goes from ", x.type(), " to ", y.type(),
           "; adapters need both widths as numbers");
    auto [at, is_new] = made.try_emplace(weight->name);
    if (is_new) {
      Lora::Module m{module, {weight->name, weight->types[0]}, x.dim(-1).value(),        y.dim(-1).value(),
                     turned, module + ".lora_A.weight",        module + ".lora_B.weight"};
      at->second = {site.to.param(m.a, f32, {config.rank, m.in}), site.to.param(m.b, f32, {m.out, config.rank})};
      lora.modules.push_back(std::move(m));
    } else if (auto same = std::find_if(lora.modules.begin(), lora.modules.end(),
                                        [&](const Lora::Module& m) { return m.name == module; });
               same->in_by_out != turned) {
      fail(ErrorCode::unsupported, "the weight '", weight->name,
           "' is used as it is and transposed; one adapter cannot serve both products");
    }
    Value low = linear(convert(x, f32), at->second.first);
    Value more = linear(low, at->second.second) * lora.scale();
    return std::vector<Value>{y + convert(more, y.dtype())};
  });
  for (size_t t = 0; t < named.size(); ++t)
    if (!named[t])
      fail(ErrorCode::not_found, "the target '", config.targets[t], "' names no product with a weight in graph '",
           g.name(), "'; there are ", others.empty() ? "none" : others);
  if (lora.modules.empty())
    fail(ErrorCode::invalid_argument, "no targets are given: modules of graph '", g.name(), "'");
  return lora;
}

NamedTensors Lora::initial(uint64_t seed) const {
  NamedTensors values;
  for (size_t i = 0; i < modules.size(); ++i) {
    const Module& m = modules[i];
    Tensor a(f32, {config.rank, m.in});
    auto to = a.mutable_values<float>();
    double bound = 1 / std::sqrt(static_cast<double>(m.in));
    for (size_t at = 0; at < to.size(); at += 4) {
      auto words = philox_4x32_10<uint32_t>({static_cast<uint32_t>(at / 4), static_cast<uint32_t>(i), 0, 0},
                                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
      for (size_t w = 0; w < 4 && at + w < to.size(); ++w)
        to[at + w] = static_cast<float>(bound * (2 * ((words[w] >> 8) * 0x1p-24) - 1));
    }
    values.emplace(m.a, std::move(a));
    values.emplace(m.b, Tensor(f32, {m.out, config.rank}));
  }
  return values;
}

std::vector<ParamGroup> Lora::groups() const {
  ParamGroup adapters, others;
  for (const Module& m : modules) adapters.params.insert(adapters.params.end(), {m.a, m.b});
  others.params = {"*"}, others.frozen = true;
  return {adapters, others};
}

NamedTensors merge_lora(const Lora& lora, const NamedTensors& params) {
  NamedTensors merged = params;
  for (const Lora::Module& m : lora.modules)
    with_context([&] { return "merging the adapter of '" + m.name + "'"; },
                 [&] {
                   param_of(params, m.weight.name, m.weight.type);
                   Tensor& weight = merged.find(m.weight.name)->second;
                   const Tensor &a = a_of(params, lora, m), &b = b_of(params, lora, m);
                   DType dtype = weight.dtype();
                   if (is_float(dtype)) {
                     weight = added_to(weight, a, b, m, lora.scale());
                   } else if (kind_of(dtype) == Kind::block) {
                     weight = quantized(added_to(dequantized(weight), a, b, m, lora.scale()), dtype);
                   } else {
                     fail(ErrorCode::unsupported, "the weight is ", weight.type(),
                          ", codes whose scales stand beside them; ",
                          "keep the adapter apart, or dequantize the weight first");
                   }
                   merged.erase(m.a), merged.erase(m.b);
                 });
  return merged;
}

void save_lora(const std::string& folder, const Lora& lora, const NamedTensors& params) {
  with_context([&] { return "writing the adapters in '" + folder + "'"; },
               [&] {
                 std::error_code error;
                 std::filesystem::create_directories(folder, error);
                 if (error && !std::filesystem::is_directory(folder))
                   fail(ErrorCode::io, "cannot make the folder: ", error.message());
                 NamedTensors tensors;
                 nlohmann::ordered_json targets = nlohmann::ordered_json::array();
                 for (const Lora::Module& m : lora.modules) {
                   tensors.emplace(std::string(kInFront) + m.a, a_of(params, lora, m));
                   tensors.emplace(std::string(kInFront) + m.b, b_of(params, lora, m));
                   targets.push_back(m.name);
                 }
                 nlohmann::ordered_json config = {
                     {"peft_type", "LORA"},      {"r", lora.config.rank}, {"lora_alpha", lora.config.alpha},
                     {"lora_dropout", 0.0},      {"bias", "none"},        {"fan_in_fan_out", false},
                     {"target_modules", targets}};
                 write_safetensors(adapter_file(folder, "adapter_model.safetensors"), tensors, {{"format", "pt"}});
                 AtomicFile file(adapter_file(folder, "adapter_config.json"));
                 file.write(config.dump(2) + "\n");
                 file.commit();
               });
}

NamedTensors load_lora(const std::string& folder, const Lora& lora) {
  return with_context(
      [&] { return "reading the adapters in '" + folder + "'"; },
      [&] {
        auto text = FileBytes::read(adapter_file(folder, "adapter_config.json"));
        const JsonTree config =
            json_or_null({reinterpret_cast<const char*>(text->bytes().data()), text->bytes().size()});
        const JsonTree* kind = config.find("peft_type");
        if (!kind || !kind->is_string() || kind->string() != "LORA")
          fail(ErrorCode::parse, "adapter_config.json is no configuration of LoRA: \"peft_type\" is not \"LORA\"");
        require_plain(config);
        for (auto [key, ours] : {std::pair<const char*, double>{"r", static_cast<double>(lora.config.rank)},
                                 {"lora_alpha", lora.config.alpha}}) {
          const JsonTree* theirs = config.find(key);
          if (!theirs || !theirs->is_number()) fail(ErrorCode::parse, "adapter_config.json has no number '", key, "'");
          if (theirs->number() != ours)
            fail(ErrorCode::invalid_argument, "they were made with '", key, "' = ", theirs->number(),
                 ", the graph with ", ours);
        }
        auto file = SafetensorsFile::open(adapter_file(folder, "adapter_model.safetensors"));
        NamedTensors values;
        for (const Lora::Module& m : lora.modules) {
          values.emplace(m.a, file.tensor(std::string(kInFront) + m.a, f32, {lora.config.rank, m.in}));
          values.emplace(m.b, file.tensor(std::string(kInFront) + m.b, f32, {m.out, lora.config.rank}));
        }
        for (const auto& entry : file.entries())
          if (!entry.name.starts_with(kInFront) || !values.contains(entry.name.substr(kInFront.size())))
            fail(ErrorCode::invalid_argument, "they have '", entry.name, "', for which the graph has no adapter");
        return values;
      });
}

}  // namespace rlx
