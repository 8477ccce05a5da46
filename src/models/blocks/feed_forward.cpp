// Feed-forward layers and mixtures of experts; see rlx/models/transformer.h.
#include <functional>
#include <string>
#include <vector>

#include "rlx/models/transformer.h"

namespace rlx {
namespace {

template <class Body>
auto within_if_named(ModelBuilder& b, const std::string& name, const Body& body) {
  return name.empty() ? body() : b.within(name, body);
}
/// The first and the last `width` elements of the last dim.
struct Halves {
  Value first, second;
};
Halves halves(Value x, int64_t width) {
  return {slice_axis(x, x.rank() - 1, 0, width), slice_axis(x, x.rank() - 1, width, 2 * width)};
}

}  // namespace

Value feed_forward(ModelBuilder& b, Value x, const FeedForwardConfig& c) {
  if (c.hidden < 1)
    fail(ErrorCode::invalid_argument, "a feed-forward layer with a hidden width of ", c.hidden, "; give 1 or more");
  return within_if_named(b, c.names.scope, [&] {
    Value h;
    if (!c.gated) {
      h = activate(b.linear(x, c.names.up, c.hidden, c.bias), c.activation);
    } else if (!c.names.packed.empty()) {
      const Halves both = halves(b.linear(x, c.names.packed, 2 * c.hidden, c.bias), c.hidden);
      h = activate(both.first, c.activation) * both.second;
    } else {
      Value gate = activate(b.linear(x, c.names.gate, c.hidden, c.bias), c.activation);
      h = gate * b.linear(x, c.names.up, c.hidden, c.bias);
    }
    return b.linear(h, c.names.down, x.dim(-1).value(), c.bias);
  });
}

Routing routed(Value logits, int64_t used, bool normalize) {
  if (logits.rank() != 2)
    fail(ErrorCode::shape_mismatch, "a router gives logits [tokens, experts], got ", logits.type());
  if (used < 1 || (logits.dim(1).is_static() && used > logits.dim(1).value()))
    fail(ErrorCode::invalid_argument, used, " experts are used for a token, of ", logits.dim(1));
  Routing r{.experts = {}, .shares = {}, .probabilities = softmax(logits, -1)};
  const TopK chosen = top_k(r.probabilities, used, -1);
  r.experts = chosen.indices, r.shares = chosen.values;
  if (normalize) r.shares = r.shares / broadcast_like(reduce_sum(r.shares, {1}), r.shares, {1});
  return r;
}

Value mixed_by(const Routing& routing, Value x, const std::function<Value(Value rows, Value index)>& expert) {
  const Dim n = x.dim(0), width = x.dim(1), used = routing.experts.dim(1);
  // A row for each token and each of its experts.
  Value index = reshape(routing.experts, {n * used});
  Value rows = reshape(broadcast_in_dim(x, {n, used, width}, {0, 2}), {n * used, width});
  Value out = reshape(expert(rows, index), {n, used, width});
  Value shares = broadcast_in_dim(routing.shares, {n, used, width}, {0, 1});
  return reduce_sum(out * shares, {1});
}

Value load_balancing_loss(std::span<const Routing> layers, Value mask) {
  if (layers.empty()) fail(ErrorCode::invalid_argument, "the balancing loss of no layers; there is no router");
  std::vector<Value> chosen, probabilities, weights;
  const int64_t experts = layers[0].probabilities.dim(1).value();
  for (const Routing& r : layers) {
    if (r.probabilities.dim(1) != Dim(experts))
      fail(ErrorCode::shape_mismatch, "the balancing loss is of layers with as many experts; there are ", experts,
           " and ", r.probabilities.dim(1));
    // How many of its places each token gives to each expert: numbers without a gradient. Means are f32.
    chosen.push_back(reduce_sum(one_hot(r.experts, experts, f32), {1}));
    const Value p = r.probabilities;
    probabilities.push_back(p.dtype() == f32 ? p : convert(p, f32));
    if (mask) weights.push_back(convert(reshape(mask, {p.dim(0)}), f32));
  }
  const auto joined = [](const std::vector<Value>& all) { return all.size() == 1 ? all[0] : concatenate(all, 0); };
  Value places = joined(chosen), odds = joined(probabilities);  // [tokens, experts]
  if (!mask) return reduce_sum(mean(places, {0}) * mean(odds, {0}), {0}) * static_cast<double>(experts);
  Value weight = joined(weights), spread = broadcast_in_dim(weight, odds.dims(), {0}), count = reduce_sum(weight, {0});
  Value sum = reduce_sum(reduce_sum(places * spread, {0}) * reduce_sum(odds * spread, {0}), {0});
  return sum / (count * count) * static_cast<double>(experts);
}

MoeResult mixture_of_experts(ModelBuilder& b, Value x, const MoeConfig& c) {
  if (c.experts < 1 || c.hidden < 1 || c.shared_hidden < 0)
    fail(ErrorCode::invalid_argument, "a mixture of ", c.experts, " experts with a hidden width of ", c.hidden,
         " and a shared one of ", c.shared_hidden, "; give at least 1, 1 and 0");
  return within_if_named(b, c.names.scope, [&] {
    const Dim width = x.dim(-1);
    Dims before(x.dims().begin(), x.dims().end() - 1);
    const Dim tokens = element_count(before);
    Value flat = reshape(x, {tokens, width});
    MoeResult made{.y = {}, .routing = routed(b.linear(flat, c.names.router, c.experts, false), c.used, c.normalize)};
    const auto product = [&](Value rows, Value index, const std::string& name, const Dim& out) {
      return grouped_matmul(rows, transpose(b.param(name, {c.experts, out, rows.dim(1)}), {0, 2, 1}), index);
    };
    made.y = mixed_by(made.routing, flat, [&](Value rows, Value index) {
      const Halves both = halves(product(rows, index, c.names.gate_up, 2 * c.hidden), c.hidden);
      return product(activate(both.first, c.activation) * both.second, index, c.names.down, width);
    });
    made.y = reshape(made.y, x.dims());
    if (c.shared_hidden == 0) return made;
    Value shared =
        feed_forward(b, x, {.hidden = c.shared_hidden, .activation = c.activation, .names = {.scope = c.names.shared}});
    Value share = sigmoid(b.linear(x, c.names.shared_gate, 1, false));
    made.y = made.y + shared * broadcast_in_dim(reshape(share, before), x.dims(), axes_from(0, before.size()));
    return made;
  });
}

}  // namespace rlx
