// See the header.
#include "quantization/quantizers.h"

#include <algorithm>
#include <cmath>

#include "ops/quant/smallest_scale.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx::quantization {
namespace {

/// What a node says of itself, without numbers of scales.
Quantizer described(const Node& node, size_t n) {
  Quantizer q;
  q.node = n, q.x = node.operands[0];
  auto symmetric = [&](int64_t bits, const Axes& axes) {
    q.high = (int64_t{1} << (bits - 1)) - 1, q.low = -q.high, q.axes = axes;
  };
  if (node.op == &op::fake_quantize) {
    const auto& a = node.attrs.as<FakeQuantizeAttrs>();
    if (a.scale_mode == ScaleMode::ema)
      fail(ErrorCode::unsupported, "node ", n, " moves the mean that its scale is: export the graph that reads it");
    symmetric(a.bits, a.axes);
  } else if (node.op == &op::fake_quantize_lsq) {
    const auto& a = node.attrs.as<FakeQuantizeLsqAttrs>();
    symmetric(a.bits, a.axes);
  } else {
    const auto& a = node.attrs.as<FakeQuantizeAffineAttrs>();
    q.low = a.low, q.high = a.high, q.axes = a.axes;
  }
  q.axes = valid_axes(q.axes, node.types[0].rank());
  if (q.high - q.low > 255 || q.low < -128 || q.high > 255)
    fail(ErrorCode::unsupported, "node ", n, " has codes from ", q.low, " to ", q.high, "; those of i8 and u8 export");
  return q;
}

std::vector<double> numbers_in(const Tensor& t) {
  std::vector<double> all(t.element_count());
  for (size_t i = 0; i < all.size(); ++i) all[i] = load_number(t, i);
  return all;
}

/// For each element which scale is its own.
std::vector<size_t> scale_index(const Tensor& x, const Axes& axes) {
  std::vector<size_t> index(x.element_count());
  for (size_t i = 0; i < index.size(); ++i) {
    size_t rest = i, place = 0, step = 1;
    for (size_t d = x.rank(); d-- > 0;) {
      const auto extent = static_cast<size_t>(x.shape()[d]);
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end())
        place += rest % extent * step, step *= extent;
      rest /= extent;
    }
    index[i] = place;
  }
  return index;
}

Tensor coded(const Tensor& x, const Quantizer& q) {
  Tensor codes(q.dtype(), x.shape());
  const std::vector<size_t> index = scale_index(x, q.axes);
  for (size_t i = 0; i < index.size(); ++i) {
    const auto zero = static_cast<double>(q.zero_points[index[i]]);
    // In the precision of the op, so that a tie goes the same way.
    const double z = x.dtype() == f64
                         ? load_number(x, i) / q.scales[index[i]]
                         : double{static_cast<float>(load_number(x, i)) / static_cast<float>(q.scales[index[i]])};
    if (std::isnan(z)) fail(ErrorCode::invalid_argument, "element ", i, " of a weight ", x.type(), " is no number");
    store<int64_t>(codes, i,
                   static_cast<int64_t>(
                       std::clamp(std::nearbyint(z) + zero, static_cast<double>(q.low), static_cast<double>(q.high))));
  }
  return codes;
}

}  // namespace

std::map<size_t, Quantizer> quantizers_in(const Graph& g, const NamedTensors& params, const Session& device) {
  const Mask behind = nodes_behind_inputs(g);
  auto is_known = [&](Ref r) { return !behind[static_cast<size_t>(r.node)]; };
  std::map<size_t, Quantizer> all;
  std::vector<Ref> wanted;
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (!is_fake_quantized(node)) continue;
    Quantizer q = described(node, n);
    const bool scale_is_known = node.operands.size() > 1
                                    ? std::all_of(node.operands.begin() + 1, node.operands.end(), is_known)
                                    : is_known(q.x);
    if (!scale_is_known)
      fail(ErrorCode::unsupported, "node ", n, " (", node.op->name, node.name.empty() ? "" : " of '" + node.name + "'",
           ") takes its scale from what is fed: codes need scales that are known before. Take moving means, or fixed "
           "scales from calibration");
    wanted.insert(wanted.end(), node.operands.begin() + (is_known(q.x) ? 0 : 1), node.operands.end());
    all.emplace(n, std::move(q));
  }
  if (all.empty())
    fail(ErrorCode::invalid_argument, "graph '", g.name(), "' has no fake quantization; add_quantization puts it in");
  const std::vector<Tensor> values = known_values(g, wanted, params, device);
  size_t at = 0;
  for (auto& [n, q] : all) {
    const Node& node = g.nodes()[n];
    const Tensor* x = is_known(q.x) ? &values[at++] : nullptr;
    if (node.operands.size() > 1) {
      q.scales = numbers_in(values[at++]);
    } else {  // fake_quantize by max|x|
      const std::vector<size_t> index = scale_index(*x, q.axes);
      q.scales.assign(index.empty() ? 0 : *std::max_element(index.begin(), index.end()) + 1, 0);
      for (size_t i = 0; i < index.size(); ++i)
        q.scales[index[i]] = std::max(
            q.scales[index[i]], double{static_cast<float>(std::abs(load_number(*x, i)) / static_cast<double>(q.high))});
    }
    for (double& scale : q.scales) {
      if (!std::isfinite(scale) || (!x && scale <= kLeastScale))
        fail(ErrorCode::invalid_argument, "node ", n, node.name.empty() ? "" : " of '" + node.name + "'",
             " has the scale ", scale,
             scale < 0 ? ", which training has driven below 0: take a smaller learning rate, or fixed scales"
                       : ", which no numbers gave: calibrate the graph, or train it for a step");
      scale = std::max(scale, kLeastScale);
    }
    q.zero_points.assign(q.scales.size(), 0);
    if (node.operands.size() > 2) {
      const Tensor& zeros = values[at++];
      for (size_t i = 0; i < q.zero_points.size(); ++i) q.zero_points[i] = load_index(zeros, i);
    }
    for (int64_t zero : q.zero_points)
      if (zero < q.low || zero > q.high)
        fail(ErrorCode::unsupported, "node ", n, " has the zero point ", zero, ", which is none of its codes, ", q.low,
             " to ", q.high);
    if (x) q.codes = coded(*x, q);
  }
  return all;
}

}  // namespace rlx::quantization
