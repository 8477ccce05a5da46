// See the header.
#include "models/language/limits.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable_text.h"

namespace rlx::language {

void check_rope(const RopeConfig& rope, int64_t head_dim, std::string_view file, ErrorCode code) {
  if (!(rope.theta > 1) || !std::isfinite(rope.theta))
    fail(code, file, ": rotary positions have the base ", rope.theta, "; it must be more than 1");
  if (!(rope.factor > 0) || !std::isfinite(rope.factor))
    fail(code, file, ": rotary positions have the factor ", rope.factor, "; it must be positive");
  const bool has_original = rope.scaling != RopeScaling::plain && rope.scaling != RopeScaling::linear &&
                            rope.scaling != RopeScaling::proportional;
  if (has_original && rope.original_context < 1)
    fail(code, file, ": ", names_of(RopeScaling{})[static_cast<size_t>(rope.scaling)],
         " scaling of rotary positions with an original context of ", rope.original_context);
  if (rope.dims < 2 || rope.dims % 2 != 0 || rope.dims > head_dim)
    fail(code, file, ": ", rope.dims, " elements of a head of ", head_dim,
         " turn with the position; it must be an even number of at least 2 and at most the whole head");
  const auto check_list = [&](const std::vector<double>& factors, const char* name) {
    if (static_cast<int64_t>(factors.size()) != rope.dims / 2)
      fail(code, file, ": ", name, " has ", factors.size(), " factors, but ", rope.dims / 2, " pairs of a head turn");
    for (double f : factors)
      if (!(f >= 1e-6 && f <= 1e9)) fail(code, file, ": ", name, " has the factor ", f, "; it must be 1e-6 to 1e9");
  };
  if (rope.scaling == RopeScaling::longrope)
    check_list(rope.short_factors, "short_factor"), check_list(rope.long_factors, "long_factor");
  if (!rope.frequency_divisors.empty()) check_list(rope.frequency_divisors, "rope_freqs");
  if (!(rope.proportion >= 0 && rope.proportion <= 1))
    fail(code, file, ": ", rope.proportion, " of the pairs of a head turn; it must be 0 to 1");
  if (rope.interleaves_sections && rope.sections.size() != 3)
    fail(code, file, ": ", rope.sections.size(), " sections of pairs that take turns; there must be three");
  if (!rope.sections.empty()) {
    int64_t pairs = 0;
    for (int64_t section : rope.sections) {
      if (section < 0 || section > rope.dims) fail(code, file, ": a section of ", section, " pairs of ", rope.dims / 2);
      pairs += section;
    }
    if (pairs != rope.dims / 2)
      fail(code, file, ": the sections have ", pairs, " pairs in all, but ", rope.dims / 2, " pairs of a head turn");
  }
  if (rope.scaling == RopeScaling::dynamic && rope.dims < 4)
    fail(code, file, ": dynamic scaling of ", rope.dims, " rotary dims has no exponent dims / (dims - 2)");
  if (rope.scaling == RopeScaling::llama3 && !(rope.high_frequency_factor > rope.low_frequency_factor))
    fail(code, file, ": 'high_freq_factor' is ", rope.high_frequency_factor,
         ", which must be more than 'low_freq_factor', ", rope.low_frequency_factor);
}

static void check_recurrent(const LanguageModelConfig& c, std::string_view file) {
  const RecurrentConfig& r = c.recurrent;
  const auto check_size = [&](const char* name, int64_t size, int64_t least, int64_t most) {
    if (size < least || size > most)
      fail(ErrorCode::parse, file, ": ", name, " is ", size, "; it must be ", least, " to ", most);
  };
  const auto has = [&](TokenMixer mixer) {
    return std::find(c.mixers.begin(), c.mixers.end(), mixer) != c.mixers.end();
  };
  check_size("the inner width of recurrences", r.inner, 1, kMostWidth);
  check_size("the state of recurrences", r.state, 1, kMostState);
  if (r.inner * r.state > kMostStateElements)
    fail(ErrorCode::parse, file, ": a state of ", r.inner, " times ", r.state, " elements is more than ",
         kMostStateElements);
  check_size("the kernel of the convolution", r.kernel, 2, kMostKernel);
  if (has(TokenMixer::mamba)) check_size("the rank of steps", r.step_rank, 1, kMostWidth);
  if (!has(TokenMixer::mamba2) && !has(TokenMixer::gated_delta_net)) return;
  check_size("the number of heads of recurrences", r.heads, 1, kMostWidth);
  check_size("the number of groups of recurrences", r.groups, 1, r.heads);
  if (r.inner % r.heads != 0 || r.heads % r.groups != 0)
    fail(ErrorCode::parse, file, ": ", r.inner, " elements in ", r.heads, " heads of ", r.groups,
         " groups; heads must divide the elements, and groups the heads, evenly");
  if (r.groups * r.state > kMostWidth)
    fail(ErrorCode::parse, file, ": ", r.groups, " groups of ", r.state, " elements of state are more than ",
         kMostWidth);
  if (r.most_step && !(*r.most_step >= r.least_step))
    fail(ErrorCode::parse, file, ": steps of recurrences go from ", r.least_step, " to ", *r.most_step);
}

void check_sizes(const LanguageModelConfig& c, std::string_view file) {
  const auto check_size = [&](const char* name, int64_t size, int64_t most) {
    if (size < 1 || size > most) fail(ErrorCode::parse, file, ": ", name, " is ", size, "; it must be 1 to ", most);
  };
  check_size("the vocabulary", c.vocabulary, kMostVocabulary);
  check_size("the hidden size", c.hidden, kMostWidth);
  check_size("the number of layers", c.layers, kMostLayers);
  if (!c.mixers.empty() && static_cast<int64_t>(c.mixers.size()) != c.layers)
    fail(ErrorCode::parse, file, ": 'mixers' has ", c.mixers.size(), " items for ", c.layers, " layers");
  if (c.has_attention()) {
    check_size("the number of heads", c.heads, kMostHeads);
    check_size("the number of heads of keys and values", c.kv_heads, kMostHeads);
    check_size("the width of a head", c.head_dim, kMostHeadDim);
  }
  if (c.is_recurrent()) check_recurrent(c, file);
  if (c.has_feed_forward) check_size("the width of the feed-forward", c.intermediate, kMostIntermediate);
  check_size("the context", c.context, kMostContext);
  for (const auto& [name, each] : {std::pair("windowed", &c.windowed), std::pair("sparse", &c.sparse)})
    if (!(each->empty() && each == &c.sparse) && static_cast<int64_t>(each->size()) != c.layers)
      fail(ErrorCode::parse, file, ": '", name, "' has ", each->size(), " items for ", c.layers, " layers");
  for (size_t i = 0; i < c.windowed.size(); ++i)
    if (c.windowed[i] && c.window < 1)
      fail(ErrorCode::parse, file, ": layer ", i, " has a window of ", c.window, " tokens");
  if (c.shared_expert_intermediate < 0 || c.shared_expert_intermediate > kMostIntermediate)
    fail(ErrorCode::parse, file, ": the width of the shared expert is ", c.shared_expert_intermediate,
         "; it must be 0 to ", kMostIntermediate);
  if (c.experts_used > c.experts)
    fail(ErrorCode::parse, file, ": ", c.experts_used, " experts are used for a token, but there are ", c.experts);
  if (!c.has_attention()) return;
  if (c.heads % c.kv_heads != 0)
    fail(ErrorCode::parse, file, ": ", c.heads, " heads of queries cannot share ", c.kv_heads,
         " heads of keys and values evenly");
  if (c.heads * c.head_dim > kMostWidth)
    fail(ErrorCode::parse, file, ": ", c.heads, " heads of ", c.head_dim, " elements are more than ", kMostWidth);
  if (c.learned_positions) return;
  check_rope(c.rope, c.head_dim, file);
  if (c.local_rope) check_rope(*c.local_rope, c.head_dim, file);
}

Activation activation_of(std::string_view name, std::string_view key, std::string_view file) {
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  fail(ErrorCode::unsupported, "'", key, "' in ", file, " is '", shown_name(name),
       "'; there are silu, gelu, gelu_new, gelu_pytorch_tanh, relu");
}

std::string shown_name(std::string_view text) {
  constexpr size_t kMost = 100;
  return text.size() <= kMost ? printable_line(text) : printable_line(text.substr(0, kMost)) + "...";
}

double yarn_attention_factor(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

}  // namespace rlx::language
