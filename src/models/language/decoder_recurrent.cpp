// Layers of decoders that keep a state of fixed size instead of keys and values; see rlx/language_model.h. Neighbour:
// decoder_blocks.cpp. The recurrences themselves are ops (rlx/ops/recurrent.h), which read any number of tokens.
#include <string>
#include <vector>

#include "models/language/cache_layout.h"
#include "rlx/language_model.h"

namespace rlx {
namespace {

int64_t channels_of(const LanguageModelConfig& c, TokenMixer mixer) {
  const RecurrentConfig& r = c.recurrent;  // of the others three parts are convolved together
  return mixer == TokenMixer::mamba ? r.inner : r.inner + 2 * r.groups * r.state;
}
Dims state_of(const LanguageModelConfig& c, TokenMixer mixer) {
  const RecurrentConfig& r = c.recurrent;
  if (mixer == TokenMixer::mamba) return {1, r.inner, r.state};
  if (mixer == TokenMixer::gated_delta_net) return {1, r.heads, r.state, r.inner / r.heads};
  return {1, r.heads, r.inner / r.heads, r.state};
}

/// How fast a state decays, below 0: f32 of `dims`.
Value decay_of(DecoderBlocks& blocks, const std::string& at, const Dims& dims) {
  if (!blocks.config().recurrent.decay_is_log) return blocks.float_param(at + "decay", dims);
  return neg(exp(blocks.float_param(at + "decay_log", dims)));
}

}  // namespace

std::vector<language::CacheInput> language::cache_inputs(const LanguageModelConfig& c, DType cache) {
  std::vector<CacheInput> inputs;
  const Dims cached = {1, c.kv_heads, Dim::symbol("capacity"), c.head_dim};
  for (int64_t i = 0; i < c.layers; ++i) {
    const auto add = [&](const char* what, DType dtype, Dims dims) {
      inputs.push_back({text_of("layers.", i, ".", what), {dtype, std::move(dims)}});
    };
    const TokenMixer mixer = c.mixer(i);
    if (mixer == TokenMixer::attention) {
      add("keys", cache, cached), add("values", cache, cached);
    } else {
      add("convolution", f32, {1, c.recurrent.kernel - 1, channels_of(c, mixer)});
      add("state", f32, state_of(c, mixer));
    }
  }
  return inputs;
}

/// Each channel's own convolution over the tokens so far: `last` are the inputs before x[1, n, channels], and become
/// those before the next token.
Value DecoderBlocks::causal_convolution(Value x, const std::string& name, Value& last) {
  const int64_t kernel = config_.recurrent.kernel;
  const Dim n = x.dim(1), channels = x.dim(2);
  Value taps = float_param(name + ".weight", {channels, kernel});
  Value all = concatenate({last, x}, 1);
  last = slice_axis(all, 1, n, n + (kernel - 1));
  Value y;
  for (int64_t i = 0; i < kernel; ++i) {
    Value tap = broadcast_in_dim(reshape(slice_axis(taps, 1, i, i + 1), {channels}), x.dims(), {2});
    Value part = slice_axis(all, 1, i, n + i) * tap;
    y = i == 0 ? part : y + part;
  }
  if (config_.recurrent.convolution_bias) y = y + float_param(name + ".bias", {channels});
  return activate(y, config_.recurrent.activation);
}

/// x[1, n, groups, width] with each group as often as it has heads: [1, n, heads, width].
Value DecoderBlocks::repeated_groups(Value x, int64_t groups, int64_t heads) {
  if (groups == heads) return x;
  const Dim n = x.dim(1), width = x.dim(3);
  return reshape(broadcast_in_dim(x, {1, n, groups, heads / groups, width}, {0, 1, 2, 4}), {1, n, heads, width});
}

Value DecoderBlocks::mamba(Value x, int64_t layer, Cache& cache) {
  const std::string at = text_of("layers.", layer, ".mixer.");
  graph_.set_scope(text_of("layers.", layer, ".mixer"));
  const RecurrentConfig& r = config_.recurrent;
  Value both = linear(x, at + "in", 2 * r.inner, r.bias);
  Value gate = slice_axis(both, 2, r.inner, 2 * r.inner);
  Value mixed = causal_convolution(slice_axis(both, 2, 0, r.inner), at + "convolution", cache.convolution);
  Value chosen = linear(mixed, at + "select", r.step_rank + 2 * r.state);
  Value step = softplus(linear(slice_axis(chosen, 2, 0, r.step_rank), at + "step_projection", r.inner, true));
  Value written = slice_axis(chosen, 2, r.step_rank, r.step_rank + r.state);
  Value read = slice_axis(chosen, 2, r.step_rank + r.state, r.step_rank + 2 * r.state);
  auto scanned = selective_scan(mixed, step, decay_of(*this, at, {r.inner, r.state}), written, read, cache.state);
  cache.state = scanned[1];
  Value y = scanned[0] + mixed * float_param(at + "skip", {r.inner});
  return linear(y * activate(gate, Activation::silu), at + "out", config_.hidden, r.bias);
}

Value DecoderBlocks::mamba2(Value x, int64_t layer, Cache& cache) {
  const std::string at = text_of("layers.", layer, ".mixer.");
  graph_.set_scope(text_of("layers.", layer, ".mixer"));
  const RecurrentConfig& r = config_.recurrent;
  const Dim n = x.dim(1);
  const int64_t shared = r.groups * r.state, channels = r.inner + 2 * shared, width = r.inner / r.heads;
  Value all = linear(x, at + "in", r.inner + channels + r.heads, r.bias);
  Value gate = slice_axis(all, 2, 0, r.inner);
  Value mixed =
      causal_convolution(slice_axis(all, 2, r.inner, r.inner + channels), at + "convolution", cache.convolution);
  Value step = slice_axis(all, 2, r.inner + channels, r.inner + channels + r.heads);
  step = softplus(step + float_param(at + "step.bias", {r.heads}));
  if (r.least_step > 0) step = maximum(step, scalar(graph_, r.least_step, f32));
  if (r.most_step) step = minimum(step, scalar(graph_, *r.most_step, f32));
  const auto groups = [&](int64_t from) {
    Value part = reshape(slice_axis(mixed, 2, from, from + shared), {1, n, r.groups, r.state});
    return repeated_groups(part, r.groups, r.heads);
  };
  Value heads = reshape(slice_axis(mixed, 2, 0, r.inner), {1, n, r.heads, width});
  auto scanned =
      rlx::mamba2(heads, step, decay_of(*this, at, {r.heads}), groups(r.inner), groups(r.inner + shared), cache.state);
  cache.state = scanned[1];
  Value skip = broadcast_in_dim(float_param(at + "skip", {r.heads}), heads.dims(), {2});
  Value y = reshape(scanned[0] + heads * skip, {1, n, r.inner}) * activate(gate, Activation::silu);
  // The norm is that of each group, with a weight for each element.
  y = reshape(rlx::rms_norm(reshape(y, {1, n, r.groups, r.inner / r.groups}), {}, {}, config_.norm_epsilon),
              {1, n, r.inner});
  return linear(y * float_param(at + "norm.weight", {r.inner}), at + "out", config_.hidden, r.bias);
}

/// x over the norm of its last dim.
static Value of_norm_one(Value x) {
  Value squares = reduce_sum(x * x, {x.rank() - 1}) + 1e-6;
  return x * broadcast_like(rsqrt(squares), x, {x.rank() - 1});
}

Value DecoderBlocks::gated_delta_net(Value x, int64_t layer, Cache& cache) {
  const std::string at = text_of("layers.", layer, ".mixer.");
  graph_.set_scope(text_of("layers.", layer, ".mixer"));
  const RecurrentConfig& r = config_.recurrent;
  const Dim n = x.dim(1);
  const int64_t keys = r.groups * r.state, per_group = r.heads / r.groups, width = r.inner / r.heads;
  Value all, gate;
  if (r.is_grouped) {
    const int64_t values = r.inner / r.groups;
    Value by_group = reshape(linear(x, at + "in", 2 * keys + 2 * r.inner), {1, n, r.groups, 2 * r.state + 2 * values});
    int64_t from = 0;
    const auto next = [&](int64_t size) {
      Value part = slice_axis(by_group, 3, from, from + size);
      from += size;
      return reshape(part, {1, n, r.groups * size});
    };
    Value q = next(r.state), k = next(r.state), v = next(values);
    all = concatenate({q, k, v}, 2), gate = next(values);
  } else {
    all = linear(x, at + "query_key_value", 2 * keys + r.inner);
    gate = linear(x, at + "gate", r.inner);
  }
  // For each group how much its heads write, and then how much of their states remains.
  Value both = reshape(linear(x, at + "write_decay", 2 * r.heads), {1, n, r.groups, 2 * per_group});
  const auto of_heads = [&](int64_t from) {
    return reshape(slice_axis(both, 3, from, from + per_group), {1, n, r.heads});
  };
  Value step = softplus(of_heads(per_group) + float_param(at + "step.bias", {r.heads}));
  Value remains = step * decay_of(*this, at, {r.heads});
  Value mixed = causal_convolution(all, at + "convolution", cache.convolution);
  const auto normalized = [&](int64_t from) {
    Value part = reshape(slice_axis(mixed, 2, from, from + keys), {1, n, r.groups, r.state});
    return repeated_groups(of_norm_one(part), r.groups, r.heads);
  };
  Value v = reshape(slice_axis(mixed, 2, 2 * keys, 2 * keys + r.inner), {1, n, r.heads, width});
  auto done = rlx::gated_delta_net(normalized(0), normalized(keys), v, remains, sigmoid(of_heads(0)), cache.state);
  cache.state = done[1];
  Value y = rlx::rms_norm(done[0], float_param(at + "norm.weight", {width}), {}, config_.norm_epsilon);
  y = reshape(y, {1, n, r.inner}) * activate(gate, Activation::silu);
  return linear(y, at + "out", config_.hidden);
}

}  // namespace rlx
