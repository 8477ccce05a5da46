// See the header.
#include "models/language/adapters.h"

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "io/json_tree.h"
#include "models/language/limits.h"
#include "models/language/packed_weights.h"
#include "models/language/weight_files.h"
#include "rlx/element.h"

namespace rlx::language {
namespace {

constexpr size_t kMostAdapterConfigBytes = size_t{1} << 20;
constexpr int64_t kMostRank = 1 << 16;
constexpr const char* kAdapterConfig = "adapter_config.json";

const JsonTree* set_key(const JsonTree& config, const char* key) {
  const JsonTree* found = config.find(key);
  return found && !found->is_null() ? found : nullptr;
}
double number_in(const JsonTree& config, const char* key) {
  const JsonTree* found = set_key(config, key);
  if (!found || !found->is_number() || !std::isfinite(found->number()))
    fail(ErrorCode::parse, "'", key, "' in ", kAdapterConfig, " is ", found ? found->shown() : "missing",
         "; it must be a number");
  return found->number();
}
bool flag_in(const JsonTree& config, const char* key) {
  const JsonTree* found = set_key(config, key);
  if (found && !found->is_boolean())
    fail(ErrorCode::parse, "'", key, "' in ", kAdapterConfig, " is ", found->shown(), ", not true or false");
  return found && found->boolean();
}

/// PEFT's settings that change what an adapter computes and are not built. `fan_in_fan_out` tells how the module's own
/// weight stands, which matters to merging alone.
void refuse_other_kinds(const JsonTree& config) {
  const JsonTree* kind = set_key(config, "peft_type");
  if (!kind || !kind->is_string() || kind->string() != "LORA")
    fail(ErrorCode::unsupported, "'peft_type' in ", kAdapterConfig, " is ", kind ? kind->shown() : "missing",
         "; what is read is \"LORA\"");
  const auto refuse = [&](const char* key) {
    fail(ErrorCode::unsupported, "'", key, "' in ", kAdapterConfig, " is ", set_key(config, key)->shown(),
         ", which is not built: merge the adapter into the model");
  };
  for (const char* key : {"use_dora", "use_qalora", "use_bdlora", "lora_bias"})
    if (flag_in(config, key)) refuse(key);
  for (const char* key :
       {"alpha_pattern", "modules_to_save", "layer_replication", "target_parameters", "trainable_token_indices",
        "alora_invocation_tokens", "arrow_config", "kasa_config", "monteclora_config", "velora_config"})
    if (const JsonTree* found = set_key(config, key);
        found && !((found->is_array() || found->is_object()) && found->elements().empty()))
      refuse(key);
  if (const JsonTree* bias = set_key(config, "bias"); bias && (!bias->is_string() || bias->string() != "none"))
    refuse("bias");
  // These change the model's own weights before the adapter counts.
  if (const JsonTree* initial = set_key(config, "init_lora_weights"); initial && initial->is_string())
    for (const char* changing : {"pissa", "olora", "corda", "loftq", "lora_ga"})
      if (initial->string().starts_with(changing)) refuse("init_lora_weights");
}

void check_part(const std::string& name, const std::string& place, const Tensor& a, const Tensor& b) {
  for (const Tensor* t : {&a, &b})
    if (t->shape().size() != 2 || (t->dtype() != f32 && t->dtype() != f16 && t->dtype() != bf16))
      fail(ErrorCode::shape_mismatch, "the adapter of '", name, "' in ", place, " has ", t->type(),
           "; it must be a matrix of f32, f16 or bf16");
  if (a.shape()[0] != b.shape()[1] || a.shape()[0] < 1 || a.shape()[0] > kMostRank)
    fail(ErrorCode::shape_mismatch, "the adapter of '", name, "' in ", place, " is ", a.type(), " and ", b.type(),
         "; they must be [rank, inputs] and [outputs, rank] with a rank from 1 to ", kMostRank);
}

/// Pairs of tensors by the names of their modules. `ending_a` and `ending_b` are what tells the two apart.
template <class Add>
void each_pair(const std::vector<std::string>& names, std::string_view ending_a, std::string_view ending_b,
               const std::string& place, Add add) {
  const std::set<std::string> all(names.begin(), names.end());
  for (const std::string& name : names) {
    const bool is_a = name.ends_with(ending_a);
    if (!is_a && !name.ends_with(ending_b))
      fail(ErrorCode::unsupported, "tensor '", shown_name(name), "' in ", place, " is none of '", ending_a, "' and '",
           ending_b, "': what else an adapter may change is not built");
    const std::string module = name.substr(0, name.size() - (is_a ? ending_a : ending_b).size());
    const std::string other = text_of(module, is_a ? ending_b : ending_a);
    if (!all.contains(other))
      fail(ErrorCode::not_found, "there is no tensor '", shown_name(other), "' in ", place, " beside '",
           shown_name(name), "'");
    if (is_a) add(module, name, other);
  }
}

}  // namespace

Adapters::Adapters(const std::vector<LanguageModel::Adapter>& adapters, const std::string& architecture) {
  for (const LanguageModel::Adapter& adapter : adapters)
    with_context([&] { return text_of("reading the adapter '", adapter.path, "'"); },
                 [&] {
                   if (!std::isfinite(adapter.scale))
                     fail(ErrorCode::invalid_argument, "its scale is ", adapter.scale, "; it must be finite");
                   std::error_code error;
                   if (std::filesystem::is_directory(adapter.path, error)) add_folder(adapter);
                   else if (std::filesystem::exists(adapter.path, error)) add_gguf(adapter, architecture);
                   else fail(ErrorCode::not_found, "there is no such folder or file");
                 });
}

void Adapters::add(const std::string& module, Part part) {
  check_part(part.name, part.place, part.a, part.b);
  modules_[module].parts.push_back(std::move(part));
}

void Adapters::add_folder(const LanguageModel::Adapter& adapter) {
  namespace fs = std::filesystem;
  const JsonTree config = with_context(
      [] { return text_of("reading '", kAdapterConfig, "'"); },
      [&] {
        return parse_json(text_of_file((fs::path(adapter.path) / kAdapterConfig).string(), kMostAdapterConfigBytes));
      });
  if (!config.is_object()) fail(ErrorCode::parse, kAdapterConfig, " is ", config.shown(), ", not an object");
  refuse_other_kinds(config);
  const double alpha = number_in(config, "lora_alpha");
  const bool by_root = flag_in(config, "use_rslora");
  const std::string path = (fs::path(adapter.path) / "adapter_model.safetensors").string();
  std::error_code error;
  if (!fs::exists(path, error))
    fail(ErrorCode::not_found, "there is no adapter_model.safetensors; adapters in other formats are not read");
  const SafetensorsFile file = SafetensorsFile::open(path);
  const std::string place = text_of("'", adapter.path, "'");
  constexpr std::string_view kInFront = "base_model.model.", kCopy = ".base_layer.weight";
  const auto in_model = [&](const std::string& name) {
    return name.starts_with(kInFront) ? name.substr(kInFront.size()) : name;
  };
  std::vector<std::string> names;
  for (const std::string& name : file.names())
    if (name.ends_with(kCopy))
      copies_.insert_or_assign(in_model(name.substr(0, name.size() - kCopy.size())), file.tensor(name));
    else names.push_back(name);
  each_pair(names, ".lora_A.weight", ".lora_B.weight", place,
            [&](const std::string& module, const std::string& a, const std::string& b) {
              Part part{module, place, file.tensor(a), file.tensor(b), 0};
              check_part(module, place, part.a, part.b);
              // The rank is that of the tensors, which rank_pattern may have set for some.
              const auto rank = static_cast<double>(part.a.shape()[0]);
              part.scale = adapter.scale * alpha / (by_root ? std::sqrt(rank) : rank);
              add(in_model(module), std::move(part));
            });
}

void Adapters::add_gguf(const LanguageModel::Adapter& adapter, const std::string& architecture) {
  const GgufFile file = GgufFile::open(adapter.path);
  const auto text = [&](const char* key) {
    const GgufValue* found = file.value(key);
    const auto* own = found ? std::get_if<std::string>(found) : nullptr;
    return own ? *own : std::string();
  };
  for (const auto& [key, wanted] : {std::pair("general.type", "adapter"), std::pair("adapter.type", "lora")})
    if (text(key) != wanted)
      fail(ErrorCode::unsupported, "'", key, "' is '", shown_name(text(key)), "'; of an adapter it is '", wanted, "'");
  if (const std::string own = text("general.architecture"); own != architecture)
    fail(ErrorCode::unsupported, "'general.architecture' is '", shown_name(own), "', but the model is ", architecture);
  if (file.value("adapter.alora.invocation_tokens"))
    fail(ErrorCode::unsupported, "'adapter.alora.invocation_tokens' is there, which is not built");
  const GgufValue* alpha = file.value("adapter.lora.alpha");
  const auto* number = alpha ? std::get_if<float>(alpha) : nullptr;
  if (!number || !std::isfinite(*number))
    fail(ErrorCode::parse, "'adapter.lora.alpha' is ", alpha ? gguf_json(*alpha) : "missing", "; it must be an f32");
  const std::string place = text_of("'", adapter.path, "'");
  each_pair(file.names(), ".weight.lora_a", ".weight.lora_b", place,
            [&](const std::string& module, const std::string& a, const std::string& b) {
              Part part{module, place, file.tensor(a), file.tensor(b), 0};
              check_part(module, place, part.a, part.b);
              // llama.cpp takes alpha 0 for none.
              part.scale = adapter.scale * (*number == 0 ? 1 : *number / static_cast<double>(part.a.shape()[0]));
              add(module, std::move(part));
            });
}

const Adapters::Module* Adapters::find(const std::vector<std::string>& names) const {
  for (const std::string& name : names)
    if (const auto at = modules_.find(name); at != modules_.end()) return &at->second;
  return nullptr;
}
int64_t Adapters::rank(const std::vector<std::string>& names) const {
  int64_t rank = 0;
  if (const Module* module = find(names))
    for (const Part& part : module->parts) rank += part.a.shape()[0];
  return rank;
}

const Adapters::Module* Adapters::module_of_rank(const std::vector<std::string>& names, int64_t expected) const {
  if (const int64_t all = rank(names); all != expected || all == 0)
    fail(ErrorCode::internal, "the adapters of '", names.empty() ? "" : names.front(), "' have rank ", all, ", not ",
         expected);
  return find(names);
}

Tensor Adapters::a(const std::vector<std::string>& names, const Type& type) const {
  const Module* module = module_of_rank(names, type.dims.at(0).value());
  Tensor all = Tensor::uninitialized(f32, shape_of(type.dims));
  float* to = all.mutable_values<float>().data();
  for (const Part& part : module->parts) {
    if (part.a.shape()[1] != all.shape()[1])
      fail(ErrorCode::shape_mismatch, "the adapter of '", part.name, "' in ", part.place, " has ", part.a.shape()[1],
           " inputs, the module ", all.shape()[1]);
    read_floats(part.a, to);
    to += part.a.element_count();
  }
  module->is_used = true;
  return all;
}

Tensor Adapters::b(const std::vector<std::string>& names, const Type& type) const {
  const Module* module = module_of_rank(names, type.dims.at(1).value());
  Tensor all = Tensor::uninitialized(f32, shape_of(type.dims));
  const int64_t out = all.shape()[0], ranks = all.shape()[1];
  float* to = all.mutable_values<float>().data();
  for (const Part& part : module->parts) {
    const int64_t rank = part.b.shape()[1];
    if (part.b.shape()[0] != out)
      fail(ErrorCode::shape_mismatch, "the adapter of '", part.name, "' in ", part.place, " has ", part.b.shape()[0],
           " outputs, the module ", out);
    std::vector<float> values(static_cast<size_t>(out * rank));
    read_floats(part.b, values.data());
    for (int64_t o = 0; o < out; ++o)
      for (int64_t r = 0; r < rank; ++r)
        to[o * ranks + r] = static_cast<float>(double{values[static_cast<size_t>(o * rank + r)]} * part.scale);
    to += rank;
  }
  return all;
}

void Adapters::check_copy(const std::vector<std::string>& names, const Tensor& weight) const {
  for (const std::string& name : names) {
    const auto at = copies_.find(name);
    if (at == copies_.end()) continue;
    const Tensor& copy = at->second;
    bool is_same = copy.shape() == weight.shape() && is_float(weight.dtype()) && is_float(copy.dtype());
    if (is_same && copy.dtype() == weight.dtype())
      is_same = std::memcmp(copy.data(), weight.data(), copy.byte_count()) == 0;
    else
      for (size_t i = 0; is_same && i < static_cast<size_t>(copy.element_count()); ++i)
        is_same = load_number(copy, i) == load_number(weight, i);
    if (!is_same)
      fail(ErrorCode::unsupported, "an adapter has weights of '", shown_name(name), "' itself, ", copy.type(),
           ", which are others than the model's, ", weight.type(), "; put them into the model");
  }
}

void Adapters::check_used() const {
  for (const auto& [name, copy] : copies_)
    if (!modules_.contains(name))
      fail(ErrorCode::unsupported, "an adapter has weights of '", shown_name(name), "' itself, ", copy.type(),
           "; put them into the model");
  for (const auto& [name, module] : modules_)
    if (!module.is_used)
      fail(ErrorCode::unsupported, "the adapter in ", module.parts.front().place, " has '", shown_name(name),
           "', which is no product of this model that an adapter can stand beside");
}

}  // namespace rlx::language
