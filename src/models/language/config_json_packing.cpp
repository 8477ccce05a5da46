// See the header.
#include "models/language/config_json_packing.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

namespace rlx {

std::string WeightPacking::text() const {
  switch (method) {
    case Method::none: return "";
    case Method::bitsandbytes: return text_of("bitsandbytes, ", bits, " bits");
    case Method::gptq:
    case Method::awq:
    case Method::mlx: break;
  }
  const char* name = method == Method::gptq ? "GPTQ" : method == Method::awq ? "AWQ" : "MLX";
  return text_of(name, ", ", bits, " bits, ", group < 0 ? "a group for each column" : text_of("groups of ", group));
}

namespace language::config_json {
namespace {

using Method = WeightPacking::Method;
constexpr int64_t kMostGroup = 1 << 20;

/// A text that has to be one of some, whatever its letters' case.
std::string one_of(const Keys& k, const char* key, const char* otherwise, std::initializer_list<const char*> known) {
  std::string text = k.text_or(key, otherwise), all;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* one : known) {
    if (text == one) return text;
    all += text_of(all.empty() ? "" : ", ", one);
  }
  fail(ErrorCode::unsupported, k.name(key), " is '", shown_name(text), "'; what is read is ", all);
}
/// Objects and lists that change the layout unless they are empty.
void require_empty(const Keys& k, const char* key) {
  const JsonTree* found = k.find(key);
  if (found && !((found->is_object() || found->is_array()) && found->elements().empty()))
    fail(ErrorCode::unsupported, k.name(key), " is ", found->shown(), ", which is not read");
}
int64_t bits_of(const Keys& k, std::initializer_list<int64_t> known) {
  const int64_t bits = k.size("bits", 1, 64);
  if (std::find(known.begin(), known.end(), bits) != known.end()) return bits;
  std::string all;
  for (const int64_t one : known) all += text_of(all.empty() ? "" : ", ", one);
  fail(ErrorCode::unsupported, k.name("bits"), " is ", bits, "; what is read is ", all);
}
int64_t group_of(const Keys& k, int64_t least) {
  const int64_t group = k.size("group_size", -1, kMostGroup);
  if (group == 0 || group < least)
    fail(ErrorCode::parse, k.name("group_size"), " is ", group, "; it must be 1 or more",
         least < 0 ? ", or -1 for one group" : "");
  return group;
}

WeightPacking gptq(const Keys& k) {
  WeightPacking p{Method::gptq, bits_of(k, {2, 3, 4, 8}), group_of(k, -1)};
  p.zeros_less_one = one_of(k, "checkpoint_format", "gptq", {"gptq", "gptq_v2"}) == "gptq";
  one_of(k, "pack_dtype", "int32", {"int32"});
  if (k.flag_or("is_marlin_format", false))
    fail(ErrorCode::unsupported, k.name("is_marlin_format"), " is true, which is not read");
  require_empty(k, "dynamic");
  return p;
}
WeightPacking awq(const Keys& k) {
  WeightPacking p{Method::awq, bits_of(k, {4}), group_of(k, -1)};
  one_of(k, "version", "gemm", {"gemm"});
  one_of(k, "backend", "autoawq", {"autoawq", "auto", "gptqmodel"});
  if (!k.flag_or("zero_point", true))
    fail(ErrorCode::unsupported, k.name("zero_point"), " is false; what is read has zero points");
  return p;
}
WeightPacking bitsandbytes(const Keys& k) {
  WeightPacking p{Method::bitsandbytes};
  const bool is_small = k.flag_or("load_in_4bit", k.flag_or("_load_in_4bit", false));
  const bool is_large = k.flag_or("load_in_8bit", k.flag_or("_load_in_8bit", false));
  if (is_small == is_large)
    fail(ErrorCode::parse, k.name("load_in_4bit"), " and ", k.name("load_in_8bit"), " are both ",
         is_small ? "true" : "false");
  p.bits = is_small ? 4 : 8;
  if (is_small) one_of(k, "bnb_4bit_quant_storage", "uint8", {"uint8"});
  return p;
}
WeightPacking mlx(const Keys& k) {
  WeightPacking p{Method::mlx, bits_of(k, {2, 3, 4, 6, 8}), group_of(k, 1)};
  one_of(k, "mode", "affine", {"affine"});
  for (const JsonTree& own : k.json().elements()) {
    if (!own.is_object()) continue;  // false: a module that is not packed
    const Keys module(own, text_of(own.name(), "."));
    one_of(module, "mode", "affine", {"affine"});
    p.modules[own.name()] = {bits_of(module, {2, 3, 4, 6, 8}), group_of(module, 1)};
  }
  return p;
}

}  // namespace

WeightPacking packing_of(const Keys& outer, const Keys* inner) {
  for (const Keys* level : {&outer, inner}) {
    if (!level) continue;
    if (level->has("compression_config"))
      fail(ErrorCode::unsupported, level->name("compression_config"), " is there; such weights are not read");
    // mlx-lm writes the same under both keys.
    if (level->has("quantization")) return mlx(Keys(level->object("quantization"), "quantization."));
    if (!level->has("quantization_config")) continue;
    const Keys k(level->object("quantization_config"), "quantization_config.");
    std::string method = k.text_or("quant_method", "");
    // transformers leaves it out in older files of bitsandbytes.
    if (method.empty() && (k.has("load_in_4bit") || k.has("load_in_8bit"))) method = "bitsandbytes";
    if (method == "gptq") return gptq(k);
    if (method == "awq") return awq(k);
    if (method == "bitsandbytes") return bitsandbytes(k);
    if (method.empty() && k.has("group_size") && k.has("mode")) return mlx(k);
    fail(ErrorCode::unsupported, k.name("quant_method"), " is ",
         method.empty() ? "missing" : text_of("'", shown_name(method), "'"),
         "; what is read is awq, bitsandbytes, gptq and mlx-lm's \"quantization\": take the model so, in floats, or ",
         "as GGUF");
  }
  return {};
}

}  // namespace language::config_json
}  // namespace rlx
