// See the header. What counts where keys stand twice, and what is left out, is as in transformers 5
// (modeling_rope_utils.py, configuration_phi3.py, configuration_gemma3.py).
#include "models/language/config_json_rope.h"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::language::config_json {
namespace {

constexpr const char* kOriginal = "original_max_position_embeddings";

/// Which way to read its rotary positions an architecture has. `partial` is `shared` with a part of each head.
enum class Reading { shared, phi, each_kind, partial };

RopeScaling scaling_named(const std::string& name, Reading reading) {
  const bool is_phi = reading == Reading::phi;
  if (is_phi && (name == "su" || name == "yarn")) return RopeScaling::longrope;  // as older Phi-3 files call it
  const auto& names = names_of(RopeScaling{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name && name != "proportional" && (!is_phi || name == "default" || name == "longrope"))
      return static_cast<RopeScaling>(i);
  fail(ErrorCode::unsupported, "'rope_type' in ", kFile, " is '", shown_name(name), "'; there are ",
       is_phi ? "default, longrope for phi3" : "default, linear, dynamic, yarn, llama3, longrope");
}

/// The type of scaling by its name. A key that only a type gives a meaning to is refused without one: transformers
/// takes such positions for plain ones.
RopeScaling scaling_of(const Keys& p, Reading reading) {
  if (!p.has("rope_type") && !p.has("type"))
    for (const char* key : {"factor", "low_freq_factor", "high_freq_factor", "short_factor", "long_factor",
                            "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
      if (p.has(key))
        fail(ErrorCode::unsupported, p.name(key), " is ", p.find(key)->shown(),
             ", but no 'rope_type' beside it says what it means; name one, or \"default\" for none of it");
  return scaling_named(p.text_or("rope_type", p.text_or("type", "default")), reading);
}

/// How many elements of a head turn.
int64_t dims_of(const Keys& model, const Keys& p, const LanguageModelConfig& c, RopeScaling scaling, Reading reading) {
  if (reading == Reading::partial) {  // a quarter where no key says it: Qwen3NextConfig
    const char* key = "partial_rotary_factor";
    const double part = p.number_or(key, model.number_or(key, 0.25, 1e-6, 1), 1e-6, 1);
    return static_cast<int64_t>(static_cast<double>(c.head_dim) * part);
  }
  // Plain positions turn whole heads whatever the key says, but for Phi-3's.
  if (reading != Reading::phi && scaling == RopeScaling::plain) return c.head_dim;
  const char* key = "partial_rotary_factor";
  const double part = p.number_or(key, model.number_or(key, 1, 1e-6, 1), 1e-6, 1);
  const auto dims = static_cast<int64_t>(static_cast<double>(c.head_dim) * part);
  if (reading != Reading::phi && dims != c.head_dim)
    fail(ErrorCode::unsupported, (p.has(key) ? p : model).name(key), " is ", part, ", but ", c.architecture,
         " turns whole heads");
  return dims;
}

int64_t original_context_of(const Keys& model, const Keys& p, const LanguageModelConfig& c, Reading reading) {
  // Phi-3's key of the model has a default, so that the other place never counts.
  if (reading == Reading::phi) return model.size_or(kOriginal, 4096, 2, kMostContext);
  if ((reading == Reading::shared || reading == Reading::partial) && model.has(kOriginal))
    return model.size(kOriginal, 2, kMostContext);
  return p.size_or(kOriginal, c.context, 2, kMostContext);
}

/// From `p` (rope_parameters, rope_scaling, or one of their members), beside the keys of the model.
RopeConfig rope_from(const Keys& model, const Keys& p, const LanguageModelConfig& c, double default_theta,
                     Reading reading) {
  for (const char* kind : {"full_attention", "sliding_attention"})
    if (p.has(kind))
      fail(ErrorCode::unsupported, p.name(kind), " is ", p.find(kind)->shown(),
           reading == Reading::each_kind ? ", which has no meaning there; gemma3_text has it in 'rope_parameters'"
                                         : text_of(", but all layers of ", c.architecture, " share their positions"));
  RopeConfig rope;
  rope.theta = p.number_or("rope_theta", default_theta, 1 + 1e-9, kHuge);
  rope.scaling = scaling_of(p, reading);
  rope.dims = dims_of(model, p, c, rope.scaling, reading);
  if (rope.scaling == RopeScaling::plain) return rope;
  const bool has_ratio = rope.scaling == RopeScaling::yarn || rope.scaling == RopeScaling::longrope;
  if (!has_ratio) rope.factor = p.number("factor", 1e-6, 1e9);
  if (rope.scaling == RopeScaling::linear) return rope;
  if (rope.scaling == RopeScaling::dynamic) {
    rope.original_context = c.context;
    return rope;
  }
  rope.original_context = original_context_of(model, p, c, reading);
  const double ratio = static_cast<double>(c.context) / static_cast<double>(rope.original_context);
  if (has_ratio) rope.factor = p.number_or("factor", ratio, 1e-6, 1e9);
  if (rope.scaling == RopeScaling::llama3) {
    rope.low_frequency_factor = p.number("low_freq_factor", 1e-6, 1e9);
    rope.high_frequency_factor = p.number("high_freq_factor", 1e-6, 1e9);
    return rope;
  }
  if (rope.scaling == RopeScaling::yarn) {
    const double scale = p.number_or("mscale", 0, 0, 1e6), scale_all = p.number_or("mscale_all_dim", 0, 0, 1e6);
    const double advised = scale != 0 && scale_all != 0 ? yarn_attention_factor(rope.factor, scale) /
                                                              yarn_attention_factor(rope.factor, scale_all)
                                                        : yarn_attention_factor(rope.factor);
    rope.attention_factor = p.number_or("attention_factor", advised, 1e-6, 1e6);
    rope.beta_fast = p.number_or("beta_fast", 32, 1e-6, 1e9), rope.beta_slow = p.number_or("beta_slow", 1, 1e-6, 1e9);
    rope.truncate = p.flag_or("truncate", true);
    if (!rope.truncate && reading == Reading::each_kind)
      fail(ErrorCode::unsupported, p.name("truncate"),
           " is false, which transformers does not read for a kind of layer");
    return rope;
  }
  rope.short_factors = p.numbers("short_factor", kTiny, kHuge);
  rope.long_factors = p.numbers("long_factor", kTiny, kHuge);
  const double advised =
      rope.factor <= 1 ? 1
                       : std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_context)));
  rope.attention_factor = p.number_or("attention_factor", advised, 1e-6, 1e6);
  return rope;
}

const JsonTree& object_or_nothing(const Keys& k, const char* key) {
  static const JsonTree nothing = {};
  return k.has(key) ? k.object(key) : nothing;
}

}  // namespace

void fill_shared_rope(LanguageModelConfig& c, const Keys& k) {
  const double theta = k.number_or("rope_theta", 10000, 1 + 1e-9, kHuge);
  const char* key = object_or_nothing(k, "rope_scaling").elements().empty() ? "rope_parameters" : "rope_scaling";
  const Keys p(object_or_nothing(k, key), text_of(key, "."));
  c.rope = rope_from(k, p, c, theta,
                     c.architecture == "phi3"         ? Reading::phi
                     : c.architecture == "qwen3_next" ? Reading::partial
                                                      : Reading::shared);
}

void fill_gemma3_ropes(LanguageModelConfig& c, const Keys& k) {
  const double theta = k.number_or("rope_theta", 1e6, 1 + 1e-9, kHuge);
  const double local = k.number_or("rope_local_base_freq", 1e4, 1 + 1e-9, kHuge);
  const Keys both(object_or_nothing(k, "rope_parameters"), "rope_parameters.");
  for (const JsonTree& member : both.json().elements())
    if (!member.is_null() && member.name() != "full_attention" && member.name() != "sliding_attention")
      fail(ErrorCode::unsupported, both.name(shown_name(member.name())), " is ", member.shown(),
           ", but gemma3_text has 'full_attention' and 'sliding_attention' there, with such keys in each");
  // The members of `rope_scaling` replace those for full attention.
  const Keys full(object_or_nothing(both, "full_attention"), "rope_parameters.full_attention.");
  const Keys scaling(object_or_nothing(k, "rope_scaling"), "rope_scaling.", &full);
  if (!k.has("rope_parameters") && scaling.has("type") && !scaling.has("rope_type"))
    fail(ErrorCode::unsupported, scaling.name("type"), " is ", scaling.find("type")->shown(),
         ", which transformers does not read for gemma3_text; it is called 'rope_type'");
  c.rope = rope_from(k, scaling, c, theta, Reading::each_kind);
  const Keys sliding(object_or_nothing(both, "sliding_attention"), "rope_parameters.sliding_attention.");
  c.local_rope = rope_from(k, sliding, c, local, Reading::each_kind);
}

}  // namespace rlx::language::config_json
