// The metadata of a GGUF file from a decoder's description, as llama.cpp's convert_hf_to_gguf.py writes them. What is
// written is read again by config_gguf.cpp and held to what was to be said, so that nothing is lost without a word.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/language/config_gguf.h"
#include "models/language/limits.h"

namespace rlx::language {
namespace config_gguf_writer {  // a unity build puts all of the folder into one file
namespace {

/// The keys below "llama." or whatever the architecture is.
class Written {
 public:
  explicit Written(std::string_view architecture) : prefix_(std::string(architecture) + ".") {}
  void add(std::string_view key, GgufValue value) { all_.emplace_back(prefix_ + std::string(key), std::move(value)); }
  void size(std::string_view key, int64_t value) { add(key, static_cast<uint32_t>(value)); }  // limits.h: they fit
  void number(std::string_view key, double value) { add(key, static_cast<float>(value)); }
  GgufMetadata take() { return std::move(all_); }

 private:
  std::string prefix_;
  GgufMetadata all_;
};

bool are_near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max({1e-6, std::abs(a), std::abs(b)}); }
bool are_near(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return std::abs(x - y) <= 1e-5 * std::abs(x); });
}

void write_rope(const LanguageModelConfig& c, const GgufArchitecture& a, Written& w) {
  const RopeConfig& rope = c.rope;
  w.size("rope.dimension_count", rope.dims);
  w.number("rope.freq_base", rope.theta);
  if (c.local_rope) w.number("rope.freq_base_swa", c.local_rope->theta);
  const auto refuse = [&](const char* why) {
    fail(ErrorCode::unsupported, "'rope_type' in config.json is '",
         names_of(RopeScaling{})[static_cast<size_t>(rope.scaling)], "', ", why);
  };
  double factor_of_attention = rope.attention_factor;
  switch (rope.scaling) {
    case RopeScaling::plain: break;
    case RopeScaling::linear:
      w.add("rope.scaling.type", std::string("linear"));
      w.number("rope.scaling.factor", rope.factor);
      break;
    case RopeScaling::yarn:
      w.add("rope.scaling.type", std::string("yarn"));
      w.number("rope.scaling.factor", rope.factor);
      w.size("rope.scaling.original_context_length", rope.original_context);
      factor_of_attention /= yarn_attention_factor(rope.factor);
      if (rope.beta_fast != 32) w.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
      if (rope.beta_slow != 1) w.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
      break;
    case RopeScaling::longrope:
      if (!a.has_longrope) refuse("whose factors GGUF files of this architecture have no place for");
      w.size("rope.scaling.original_context_length", rope.original_context);
      break;
    case RopeScaling::llama3: break;  // has become divisors
    case RopeScaling::dynamic:
    case RopeScaling::proportional: refuse("for which GGUF has no word");
  }
  if (!rope.frequency_divisors.empty() && !a.has_divisors)
    fail(ErrorCode::unsupported,
         "'rope_type' in config.json is 'llama3', whose divisors GGUF files of this architecture have no place for");
  if (!are_near(factor_of_attention, 1)) w.number("rope.scaling.attn_factor", factor_of_attention);
}

void write_window(const LanguageModelConfig& c, const GgufArchitecture& a, Written& w) {
  if (c.window == 0) {
    if (a.name == "phi3") w.size("attention.sliding_window", 0);  // llama.cpp tells Phi-4 from the others by it
    return;
  }
  w.size("attention.sliding_window", c.window);
  const int64_t period = a.window_period;
  bool is_usual = true;
  for (int64_t i = 0; i < c.layers; ++i)
    is_usual &= c.windowed[static_cast<size_t>(i)] == (period == 0 || i % period < period - 1);
  if (!is_usual) w.add("attention.sliding_window_pattern", GgufArray{c.windowed});
}

void write_attention(const LanguageModelConfig& c, const GgufArchitecture& a, Written& w) {
  w.size("feed_forward_length", c.intermediate);
  w.size("attention.head_count", c.heads);
  if (!c.learned_positions) {
    w.size("attention.head_count_kv", c.kv_heads);
    w.size("attention.key_length", c.head_dim);
    w.size("attention.value_length", c.head_dim);
    write_rope(c, a, w);
  }
  if (c.attention_softcap) w.number("attn_logit_softcapping", *c.attention_softcap);
  if (c.logits_softcap) w.number("final_logit_softcapping", *c.logits_softcap);
  write_window(c, a, w);
  if (c.experts == 0) return;
  w.size("expert_count", c.experts);
  w.size("expert_used_count", c.experts_used);
  w.size("expert_feed_forward_length", c.expert_intermediate);
  if (c.shared_expert_intermediate > 0) w.size("expert_shared_feed_forward_length", c.shared_expert_intermediate);
}

void write_recurrence(const LanguageModelConfig& c, const GgufArchitecture& a, Written& w) {
  const RecurrentConfig& r = c.recurrent;
  const TokenMixer mixer =
      *std::find_if(c.mixers.begin(), c.mixers.end(), [](TokenMixer m) { return m != TokenMixer::attention; });
  if (!a.has_attention) {  // llama.cpp asks for them
    w.size("feed_forward_length", 0);
    w.size("attention.head_count", 0);
  }
  w.size("ssm.conv_kernel", r.kernel);
  w.size("ssm.inner_size", r.inner);
  w.size("ssm.state_size", r.state);
  w.size("ssm.time_step_rank", mixer == TokenMixer::mamba ? r.step_rank : r.heads);
  if (mixer == TokenMixer::mamba) w.add("ssm.dt_b_c_rms", false);
  else w.size("ssm.group_count", r.groups);
  if (!a.has_attention) return;
  std::vector<bool> recurrent;
  for (int64_t i = 0; i < c.layers; ++i) recurrent.push_back(c.mixer(i) != TokenMixer::attention);
  const auto first = std::find(recurrent.begin(), recurrent.end(), false);
  if (first != recurrent.end()) w.size("full_attention_interval", first - recurrent.begin() + 1);
  w.add("attention.recurrent_layers", GgufArray{std::move(recurrent)});
}

/// The divisors of frequencies that llama3 stands for (Llama 3.1's model card).
std::vector<double> divisors_of(const RopeConfig& llama3) {
  RopeConfig plain = llama3;
  plain.scaling = RopeScaling::plain;
  const auto context = static_cast<double>(llama3.original_context);
  const double longest = context / llama3.low_frequency_factor, shortest = context / llama3.high_frequency_factor;
  std::vector<double> all;
  for (const float frequency : rope_frequencies(plain)) {
    const double length = 2 * std::numbers::pi / static_cast<double>(frequency);
    const double share =
        (context / length - llama3.low_frequency_factor) / (llama3.high_frequency_factor - llama3.low_frequency_factor);
    all.push_back(length < shortest ? 1 : length > longest ? llama3.factor : 1 / ((1 - share) / llama3.factor + share));
  }
  return all;
}

/// Which architectures llama.cpp loads with such tensors; a file with others would be refused there.
void require_place(const LanguageModelConfig& c, const GgufArchitecture& a) {
  const auto refuse = [&](bool is_there, const char* what) {
    if (is_there)
      fail(ErrorCode::unsupported, "the model has ", what, ", which GGUF files of '", a.name, "' have no place for");
  };
  refuse(!c.tied_embeddings && !a.has_output,
         "an output projection of its own ('tie_word_embeddings' in config.json is false)");
  refuse(c.attention_output_bias && !a.has_output_bias, "a bias behind attention ('attention_bias' in config.json)");
  refuse(c.feed_forward_bias && !a.has_feed_forward_bias, "biases of the feed-forward ('mlp_bias' in config.json)");
  refuse(a.has_attention && !a.has_own_head_dim && c.heads * c.head_dim != c.hidden,
         "heads whose width is not hidden_size / num_attention_heads ('head_dim' in config.json)");
  refuse(std::find(c.sparse.begin(), c.sparse.end(), false) != c.sparse.end(),
         "dense layers among those with experts ('mlp_only_layers' or 'decoder_sparse_step' in config.json)");
  if (c.is_recurrent() && !a.has_attention) {
    refuse(c.recurrent.bias, "biases of its projections ('use_bias' in config.json)");
    refuse(!c.recurrent.convolution_bias, "convolutions without a bias ('use_conv_bias' in config.json)");
  }
}

// ---- two descriptions ----

class Compared {
 public:
  explicit Compared(bool to_folder) : to_folder_(to_folder) {}
  template <class T>
  void same(const char* key, const T& wanted, const T& read) const {
    if (wanted != read) differ(key, text_of(wanted), text_of(read));
  }
  void same(const char* key, bool wanted, bool read) const {
    if (wanted != read) differ(key, wanted ? "true" : "false", read ? "true" : "false");
  }
  template <class T>
  void same(const char* key, const std::vector<T>& wanted, const std::vector<T>& read) const {
    if (wanted != read) differ(key, "for each layer", "");
  }
  void near(const char* key, double wanted, double read) const {
    if (!are_near(wanted, read)) differ(key, text_of(wanted), text_of(read));
  }
  void near(const char* key, std::optional<double> wanted, std::optional<double> read) const {
    const auto shown = [](std::optional<double> v) { return v ? text_of(*v) : std::string("none"); };
    if (bool(wanted) != bool(read) || (wanted && !are_near(*wanted, *read))) differ(key, shown(wanted), shown(read));
  }
  void rope(const RopeConfig& wanted, const RopeConfig& read) const {
    constexpr const char* kKey = "rope_parameters";
    same("partial_rotary_factor", wanted.dims, read.dims);
    if (wanted.scaling != read.scaling || wanted.style != read.style || wanted.sections != read.sections)
      differ(kKey, std::string(names_of(RopeScaling{})[static_cast<size_t>(wanted.scaling)]),
             std::string(names_of(RopeScaling{})[static_cast<size_t>(read.scaling)]));
    near("rope_theta", wanted.theta, read.theta);
    near("attention_factor", wanted.attention_factor, read.attention_factor);
    if (!are_near(wanted.frequency_divisors, read.frequency_divisors) ||
        !are_near(wanted.short_factors, read.short_factors) || !are_near(wanted.long_factors, read.long_factors))
      differ(kKey, "with other factors", "");
    const bool is_yarn = wanted.scaling == RopeScaling::yarn;
    if (is_yarn || wanted.scaling == RopeScaling::linear) near("factor", wanted.factor, read.factor);
    if (is_yarn || wanted.scaling == RopeScaling::longrope)
      same("original_max_position_embeddings", wanted.original_context, read.original_context);
    if (!is_yarn) return;
    near("beta_fast", wanted.beta_fast, read.beta_fast);
    near("beta_slow", wanted.beta_slow, read.beta_slow);
    same("truncate", wanted.truncate, read.truncate);
  }

 private:
  [[noreturn]] void differ(const char* key, const std::string& wanted, const std::string& read) const {
    if (to_folder_)
      fail(ErrorCode::unsupported, "what the metadata say of '", key, "' (", wanted, ") has no word in config.json",
           read.empty() ? "" : text_of(", where it would be read as ", read));
    fail(ErrorCode::unsupported, "what '", key, "' in config.json says (", wanted,
         ") has no word in GGUF files of this architecture", read.empty() ? "" : text_of(", which are read as ", read));
  }
  bool to_folder_;
};

}  // namespace
}  // namespace config_gguf_writer

LanguageModelConfig config_as_in_gguf(const LanguageModelConfig& folder, const GgufArchitecture& a) {
  LanguageModelConfig c = folder;
  c.architecture = a.name;
  c.norm_adds_one = false;
  c.packing = {};
  if (a.turns_neighbours) c.rope.style = RopeStyle::gptj;
  if (c.rope.scaling == RopeScaling::llama3) {
    c.rope.frequency_divisors = config_gguf_writer::divisors_of(c.rope);
    c.rope.scaling = RopeScaling::plain;
  }
  c.recurrent.decay_is_log = false;
  c.recurrent.is_grouped = false;
  // A window as long as the longest text is none.
  if (c.window >= c.context || std::find(c.windowed.begin(), c.windowed.end(), true) == c.windowed.end()) {
    const bool is_read = a.reads_window;  // there it is always said
    if (!is_read) c.window = 0;
    if (!is_read) c.windowed.assign(static_cast<size_t>(c.layers), false);
  }
  return c;
}

GgufMetadata metadata_of_config(const LanguageModelConfig& c, const GgufArchitecture& a) {
  config_gguf_writer::require_place(c, a);
  config_gguf_writer::Written w(a.name);
  w.size("vocab_size", c.vocabulary);
  w.size("context_length", c.context);
  w.size("embedding_length", c.hidden);
  w.size("block_count", c.layers);
  if (a.has_attention) write_attention(c, a, w);
  w.number(gguf_epsilon_key(a), c.norm_epsilon);
  if (c.is_recurrent()) write_recurrence(c, a, w);
  return w.take();
}

std::vector<std::pair<std::string, Tensor>> tensors_of_config(const LanguageModelConfig& c) {
  std::vector<std::pair<std::string, Tensor>> all;
  const auto add = [&](const char* name, const std::vector<double>& factors) {
    if (factors.empty()) return;
    const std::vector<float> values(factors.begin(), factors.end());
    all.emplace_back(name, Tensor::of({static_cast<int64_t>(values.size())}, values));
  };
  add("rope_freqs.weight", c.rope.frequency_divisors);
  add("rope_factors_long.weight", c.rope.long_factors);
  add("rope_factors_short.weight", c.rope.short_factors);
  return all;
}

std::vector<std::string> unread_by_llama_cpp(const LanguageModelConfig& c, const GgufArchitecture& a) {
  std::vector<std::string> all;
  if (c.window > 0 && !a.reads_window)
    all.push_back(text_of("the window of ", c.window, " tokens is in the file, and llama.cpp reads none for '", a.name,
                          "': there, tokens of longer texts see all before them"));
  const bool is_yarn = a.has_attention && !c.learned_positions && c.rope.scaling == RopeScaling::yarn;
  if (is_yarn && (c.rope.beta_fast != 32 || c.rope.beta_slow != 1))
    all.emplace_back("'beta_fast' and 'beta_slow' of YaRN are in the file, and llama.cpp does not read them");
  return all;
}

void require_same_model(const LanguageModelConfig& a, const LanguageModelConfig& b, bool to_folder) {
  const config_gguf_writer::Compared compared(to_folder);
  compared.same("vocab_size", a.vocabulary, b.vocabulary);
  compared.same("hidden_size", a.hidden, b.hidden);
  compared.same("num_hidden_layers", a.layers, b.layers);
  compared.same("max_position_embeddings", a.context, b.context);
  compared.near("rms_norm_eps", a.norm_epsilon, b.norm_epsilon);
  const auto name = [](Activation v) { return std::string(names_of(Activation{})[static_cast<size_t>(v)]); };
  if (a.has_feed_forward) compared.same("hidden_act", name(a.activation), name(b.activation));
  compared.same("tie_word_embeddings", a.tied_embeddings, b.tied_embeddings);
  if (a.has_attention()) {
    compared.same("num_attention_heads", a.heads, b.heads);
    compared.same("num_key_value_heads", a.kv_heads, b.kv_heads);
    compared.same("head_dim", a.head_dim, b.head_dim);
    compared.same("intermediate_size", a.intermediate, b.intermediate);
    compared.same("attention_bias", a.query_key_value_bias, b.query_key_value_bias);
    compared.same("attention_bias", a.attention_output_bias, b.attention_output_bias);
    compared.same("mlp_bias", a.feed_forward_bias || !a.gated, b.feed_forward_bias || !b.gated);
    const auto scale = [](const LanguageModelConfig& c) {
      return c.attention_scale.value_or(1 / std::sqrt(static_cast<double>(c.head_dim)));
    };
    compared.near(a.post_norms          ? "query_pre_attn_scalar"
                  : a.learned_positions ? "scale_attn_weights"
                                        : "head_dim",
                  scale(a), scale(b));
    compared.near("attn_logit_softcapping", a.attention_softcap, b.attention_softcap);
    compared.near("final_logit_softcapping", a.logits_softcap, b.logits_softcap);
    if (!a.learned_positions) compared.rope(a.rope, b.rope);
    compared.same("rope_parameters", a.local_rope.has_value(), b.local_rope.has_value());
    if (a.local_rope && b.local_rope) compared.rope(*a.local_rope, *b.local_rope);
    const auto windows = [](const LanguageModelConfig& c) {
      std::vector<int64_t> all;
      for (int64_t i = 0; i < c.layers; ++i)
        all.push_back(c.window < c.context && !c.windowed.empty() && c.windowed[static_cast<size_t>(i)] ? c.window : 0);
      return all;
    };
    compared.same("sliding_window", windows(a), windows(b));
  }
  compared.same("num_experts", a.experts, b.experts);
  if (a.experts > 0) {
    compared.same("num_experts_per_tok", a.experts_used, b.experts_used);
    compared.same("moe_intermediate_size", a.expert_intermediate, b.expert_intermediate);
    compared.same("shared_expert_intermediate_size", a.shared_expert_intermediate, b.shared_expert_intermediate);
    compared.same("norm_topk_prob", a.normalize_experts, b.normalize_experts);
    compared.same("mlp_only_layers", a.sparse, b.sparse);
  }
  compared.same("layer_types", a.mixers, b.mixers);
  if (a.is_recurrent()) {
    const RecurrentConfig &r = a.recurrent, &s = b.recurrent;
    compared.same("intermediate_size", r.inner, s.inner);
    compared.same("state_size", r.state, s.state);
    compared.same("conv_kernel", r.kernel, s.kernel);
    compared.same("num_heads", r.heads, s.heads);
    compared.same("n_groups", r.groups, s.groups);
    compared.same("time_step_rank", r.step_rank, s.step_rank);
    compared.same("hidden_act", name(r.activation), name(s.activation));
    compared.same("use_bias", r.bias, s.bias);
    compared.same("use_conv_bias", r.convolution_bias, s.convolution_bias);
    compared.near("time_step_limit", r.least_step, s.least_step);
    compared.near("time_step_limit", r.most_step, s.most_step);
  }
  // The rest follows from the architecture, and the tables of both formats have to agree on it.
  if (a.layer_norm != b.layer_norm || a.norm_adds_one != b.norm_adds_one || a.post_norms != b.post_norms ||
      a.gated_attention != b.gated_attention || a.query_key_norm != b.query_key_norm ||
      a.fused_query_key_value != b.fused_query_key_value || a.fused_gate_up != b.fused_gate_up || a.gated != b.gated ||
      a.learned_positions != b.learned_positions || a.has_feed_forward != b.has_feed_forward ||
      std::abs(a.embedding_scale - b.embedding_scale) > 1e-6 * a.embedding_scale)
    fail(ErrorCode::internal, "folders and GGUF files of '", b.architecture, "' are built as different models");
}

}  // namespace rlx::language
