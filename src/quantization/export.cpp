// From fake quantization to codes; see rlx/quantization.h. The graph is emitted again with its params as constants.
// Beside each value that is quantized stand its codes, and what keeps codes is applied to both; where codes go into a
// product and come out of a quantizer behind it, the product is one of codes. What then has no use is pruned.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "compile/with_values.h"
#include "ir/leaves.h"
#include "passes/output_channels.h"
#include "quantization/quantizers.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

using quantization::Quantizer;

/// Codes in the new graph, and by whose scale they are.
struct Coded {
  Value codes;
  const Quantizer* by = nullptr;
};

/// A product with what a layer adds to it, found from the quantizer behind it. `why` tells why it stays floats.
struct Match {
  bool found = false;
  size_t node = 0;
  std::optional<Ref> bias;  ///< one number for each output channel
  bool has_relu = false;
  std::string why;
};

int64_t code_zero(const Quantizer& q) { return q.zero_points.empty() ? 0 : q.zero_points[0]; }

class Exporter {
 public:
  Exporter(const Graph& g, const NamedTensors& params, const Session& device)
      : g_(g), params_(params), device_(device), behind_(quantization::nodes_behind_inputs(g)),
        quantizers_(quantization::quantizers_in(g, params, device)) {}

  Int8Model operator()() {
    Graph to(g_.name());
    auto outputs = quantization::copied(to, g_,
                                        {.param = [&](const Node& p) { return constant_of(to, p); },
                                         .result = [&](Ref r, Value v) { return values_[r] = result(r, v); }});
    for (size_t i = 0; i < outputs.size(); ++i) to.output(outputs[i], g_.outputs()[i].name);
    model_.graph = prune(to);
    for (const Node& node : model_.graph.nodes())
      if (node.op == &op::constant) model_.bytes += node.attrs.as<ConstantAttrs>().value.byte_count();
    report();
    return std::move(model_);
  }

 private:
  Value constant_of(Graph& to, const Node& param) {
    const Tensor& value = value_of(params_, param);
    model_.float_bytes += value.byte_count();
    return to.constant(value);
  }

  Value result(Ref r, Value v) {
    const auto n = static_cast<size_t>(r.node);
    const Node& node = g_.nodes()[n];
    if (auto found = quantizers_.find(n); found != quantizers_.end()) return quantized(v.graph(), r, found->second);
    if (r.result == 0 && !node.operands.empty())
      if (auto before = coded_.find(node.operands[0]); before != coded_.end()) {
        const Coded from = before->second;
        if (quantization::keeps_codes(node))
          return dequantized(r, {v.graph().emit(*node.op, {from.codes}, node.attrs)[0], from.by});
        if (node.op == &op::relu) return dequantized(r, {at_least(from.codes, code_zero(*from.by)), from.by});
      }
    return v;
  }

  static Value at_least(Value codes, int64_t code) {
    return maximum(codes, scalar(codes.graph(), static_cast<double>(code), codes.dtype()));
  }
  static Value at_most(Value codes, int64_t code) {
    return minimum(codes, scalar(codes.graph(), static_cast<double>(code), codes.dtype()));
  }
  /// Codes of fewer than 8 bits: what is beyond theirs is clamped.
  static Value limited(Value codes, const Quantizer& q) {
    const int64_t lowest = q.dtype() == i8 ? -128 : 0;
    if (q.low > lowest) codes = at_least(codes, q.low);
    if (q.high < lowest + 255) codes = at_most(codes, q.high);
    return codes;
  }

  Value dequantized(Ref r, const Coded& coded) {
    coded_[r] = coded;
    Graph& to = coded.codes.graph();
    const DType dtype = g_.type(r).dtype;
    Tensor scale(dtype, {}), zero(coded.codes.dtype(), {});
    store<double>(scale, 0, coded.by->scales[0]);
    store<int64_t>(zero, 0, code_zero(*coded.by));
    return dequantize(coded.codes, to.constant(scale), to.constant(zero));
  }

  Value quantized(Graph& to, Ref r, const Quantizer& q) {
    if (!q.is_activation()) return weight(to, r, q);
    if (q.scales.size() != 1)
      fail(ErrorCode::unsupported, "node ", q.node, " quantizes an activation with ", q.scales.size(),
           " scales; codes of activations have one");
    const Match match = match_behind(q);
    if (match.found && match.why.empty()) return dequantized(r, {product(to, match, q), &q});
    if (match.found) reasons_[match.node] = match.why;
    Tensor scale(g_.type(r).dtype, {}), zero(q.dtype(), {});
    store<double>(scale, 0, q.scales[0]);
    store<int64_t>(zero, 0, code_zero(q));
    Value codes = quantize(values_.at(q.x), to.constant(scale), to.constant(zero), {{}, q.dtype()});
    return dequantized(r, {limited(codes, q), &q});
  }

  Value weight(Graph& to, Ref r, const Quantizer& q) {
    const DType dtype = g_.type(r).dtype;
    Tensor scales(dtype, q.axes.empty() ? Shape{} : Shape{static_cast<int64_t>(q.scales.size())});
    for (size_t i = 0; i < q.scales.size(); ++i) store<double>(scales, i, q.scales[i]);
    if (q.axes.size() > 1)
      fail(ErrorCode::unsupported, "node ", q.node, " has scales along ", q.axes.size(), " axes; codes have one axis");
    Tensor zeros(q.dtype(), scales.shape());
    for (size_t i = 0; i < q.zero_points.size(); ++i) store<int64_t>(zeros, i, q.zero_points[i]);
    bool shifted = std::any_of(q.zero_points.begin(), q.zero_points.end(), [](int64_t z) { return z != 0; });
    return dequantize(to.constant(*q.codes), to.constant(scales), shifted ? to.constant(zeros) : Value{},
                      q.axes.empty() ? std::nullopt : std::optional<int64_t>(q.axes[0]));
  }

  // ---- products of codes ----

  /// One number for each output channel, along `axis` of `type`, behind a broadcast; nothing if it is no such thing.
  std::optional<Ref> channel_bias(Ref bias, const Type& type, int64_t axis) const {
    if (behind_[static_cast<size_t>(bias.node)]) return std::nullopt;
    const Dim channels = type.dims[static_cast<size_t>(axis)];
    for (;;) {
      const Node& node = g_.node(bias);
      if (node.op != &op::broadcast_in_dim) break;
      const auto& a = node.attrs.as<BroadcastAttrs>();
      const Type& from = g_.type(node.operands[0]);
      // [c], or c among ones, spread over the other dims.
      int64_t place = -1;
      for (size_t d = 0; d < from.dims.size(); ++d)
        if (a.axes[d] == axis && from.dims[d] == channels) place = static_cast<int64_t>(d);
        else if (from.dims[d] != Dim(1)) return std::nullopt;
      if (place < 0) return std::nullopt;
      bias = node.operands[0], axis = place;
      if (from.rank() == 1) return bias;
    }
    const Type& t = g_.type(bias);
    Dim count = 1;
    for (const Dim& d : t.dims) count = count * d;
    const bool is_there = axis < static_cast<int64_t>(t.rank()) && t.dims[static_cast<size_t>(axis)] == channels;
    if (is_there && count == channels) return bias;
    return std::nullopt;
  }

  /// Along which the output channels of a product lie.
  static int64_t output_axis(const Node& node) {
    return node.op == &op::conv ? 1 : static_cast<int64_t>(node.types[0].rank()) - 1;
  }

  Match match_behind(const Quantizer& q) {
    Match m;
    Ref at = q.x;
    if (g_.node(at).op == &op::relu) m.has_relu = true, at = g_.node(at).operands[0];
    std::optional<Ref> added;
    const Node* sum = g_.node(at).op == &op::add ? &g_.node(at) : nullptr;
    if (sum) {
      size_t known = behind_[static_cast<size_t>(sum->operands[0].node)] ? 1 : 0;
      added = sum->operands[known], at = sum->operands[1 - known];
    }
    const Node& node = g_.node(at);
    const auto& ops = quantization::quantized_ops();
    if (std::find(ops.begin(), ops.end(), node.op) == ops.end()) return m;
    m.found = true, m.node = static_cast<size_t>(at.node);
    m.bias = added;
    m.why = why_not(node, m, q);
    return m;
  }

  std::string why_not(const Node& node, Match& m, const Quantizer& q) {
    if (!coded_.contains(node.operands[0])) return "its input is not quantized";
    const Coded& x = coded_.at(node.operands[0]);
    auto weights = quantizers_.find(static_cast<size_t>(node.operands[1].node));
    if (weights == quantizers_.end() || weights->second.is_activation()) return "it has no quantized weight";
    const Quantizer& w = weights->second;
    if (x.by->dtype() != q.dtype())
      return text_of("its input has codes of ", x.by->dtype(), ", its result of ", q.dtype());
    if (node.op == &op::conv && node.types[0].rank() != 4)
      return text_of("codes are convolved over 2 spatial dims, not ", node.types[0].rank() - 2);
    if (node.op == &op::dot_general) {
      const Type& lhs = g_.type(node.operands[0]);
      DotAxes axes(node.attrs.as<DotAttrs>(), lhs.rank(), g_.type(node.operands[1]).rank());
      if (g_.type(node.operands[1]).rank() != 2 || axes.lhs_contract != Axes{static_cast<int64_t>(lhs.rank()) - 1})
        return "codes are multiplied along the last dim, with a matrix";
    }
    auto axis = output_channel_axis(node, g_);
    if (!axis || (!w.axes.empty() && w.axes != Axes{*axis}))
      return "its weight's scales do not run along its output channels";
    for (int64_t zero : w.zero_points)
      if (zero != 0) return "its weight has a zero point";
    if (m.bias) {
      m.bias = channel_bias(*m.bias, node.types[0], output_axis(node));
      if (!m.bias) return "what is added to it is no bias of its output channels";
    }
    if (node.op == &op::linear && node.operands.size() > 2) {
      if (m.bias) return "it has two biases";
      if (behind_[static_cast<size_t>(node.operands[2].node)]) return "its bias depends on what is fed";
      m.bias = node.operands[2];
    }
    return biases_of(m, *x.by, w, q) ? "" : "a bias, or a sum, does not fit 32 bits";
  }

  /// Biases and multipliers of a product; false if the sums may not fit their 32 bits.
  bool biases_of(const Match& m, const Quantizer& x, const Quantizer& w, const Quantizer& q) {
    const Node& node = g_.nodes()[m.node];
    const auto channels = static_cast<size_t>(w.codes->shape()[static_cast<size_t>(*output_channel_axis(node, g_))]);
    std::optional<Tensor> bias;
    if (m.bias) bias = quantization::known_values(g_, {&*m.bias, 1}, params_, device_)[0];
    if (bias && bias->element_count() != channels) return false;
    biases_.assign(channels, 0), multipliers_.assign(channels, 0);
    // How far a code of x is from its zero point at most.
    const auto x_reach = static_cast<double>(std::max(x.high - code_zero(x), code_zero(x) - x.low));
    const std::vector<int64_t> sizes = channel_sizes(*w.codes, *output_channel_axis(node, g_));
    for (size_t c = 0; c < channels; ++c) {
      const double room = std::ldexp(1, 31) - 1 - x_reach * static_cast<double>(sizes[c]);
      const double scale = x.scales[0] * w.scales[w.scales.size() == 1 ? 0 : c];
      double wanted = bias ? std::nearbyint(load_number(*bias, c) / scale) : 0;
      multipliers_[c] = static_cast<float>(scale / q.scales[0]);
      if (bias && sizes[c] == 0 && !(std::abs(wanted) < room)) {  // any scale serves a channel without weights
        multipliers_[c] = 0x1p-16F;
        wanted = std::clamp(std::nearbyint(load_number(*bias, c) / q.scales[0] * 0x1p16), -0x1p30, 0x1p30);
      }
      if (!(std::abs(wanted) < room)) return false;
      biases_[c] = static_cast<int32_t>(wanted);
    }
    return true;
  }
  /// The sum of the sizes of a weight's codes, for each place along `axis`.
  static std::vector<int64_t> channel_sizes(const Tensor& codes, int64_t axis) {
    size_t inner = 1;
    for (size_t d = static_cast<size_t>(axis) + 1; d < codes.rank(); ++d)
      inner *= static_cast<size_t>(codes.shape()[d]);
    const auto channels = static_cast<size_t>(codes.shape()[static_cast<size_t>(axis)]);
    std::vector<int64_t> sizes(channels, 0);
    for (size_t i = 0; i < codes.element_count(); ++i) sizes[i / inner % channels] += std::abs(load_index(codes, i));
    return sizes;
  }

  /// The product's codes, from what `biases_of` has left for it.
  Value product(Graph& to, const Match& m, const Quantizer& q) {
    const Node& node = g_.nodes()[m.node];
    const Coded& x = coded_.at(node.operands[0]);
    const Quantizer& w = quantizers_.at(static_cast<size_t>(node.operands[1].node));
    const auto channels = static_cast<int64_t>(biases_.size());
    Value bias = to.constant(Tensor::of<int32_t>({channels}, biases_));
    Value multipliers = to.constant(Tensor::of<float>({channels}, multipliers_));
    to.set_scope(node.name);
    Value y;
    if (node.op == &op::conv) {
      const auto& a = node.attrs.as<ConvNdAttrs>();
      QConv2dAttrs attrs{a.stride, a.padding, a.dilation, a.groups, code_zero(*x.by), 0, code_zero(q)};
      y = qconv2d(x.codes, to.constant(*w.codes), bias, attrs, multipliers);
    } else {
      const bool rows = *output_channel_axis(node, g_) == 0;  // [n, k] as linear has it
      Value weights = to.constant(rows ? transposed(*w.codes) : *w.codes);
      y = qmatmul(x.codes, weights, bias, {code_zero(*x.by), 0, code_zero(q)}, multipliers);
    }
    becomes_[m.node] = y.graph().node(y.ref()).op;
    y = limited(y, q);
    return m.has_relu && code_zero(q) > q.low ? at_least(y, code_zero(q)) : y;
  }

  static Tensor transposed(const Tensor& t) {
    const int64_t rows = t.shape()[0], columns = t.shape()[1];
    Tensor turned(t.dtype(), {columns, rows});
    auto* to = turned.mutable_data();
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = t.data()[r * columns + c];
    return turned;
  }

  void report() {
    for (const auto& layer : quantization::layers_in(g_, behind_)) {
      const Node& node = g_.nodes()[layer.node];
      Int8Model::Line line{layer.name, std::string(node.op->name), "float", "its result is not quantized"};
      if (auto found = reasons_.find(layer.node); found != reasons_.end()) line.reason = found->second;
      if (auto found = becomes_.find(layer.node); found != becomes_.end())
        line.becomes = std::string(found->second->name), line.reason.clear();
      model_.lines.push_back(std::move(line));
    }
  }

  const Graph& g_;
  const NamedTensors& params_;
  const Session& device_;
  Mask behind_;
  std::map<size_t, Quantizer> quantizers_;
  std::map<Ref, Value> values_;  // of the new graph
  std::map<Ref, Coded> coded_;
  std::map<size_t, const OpDef*> becomes_;
  std::map<size_t, std::string> reasons_;
  std::vector<int32_t> biases_;
  std::vector<float> multipliers_;
  Int8Model model_;
};

}  // namespace

Int8Model export_int8(const Graph& g, const NamedTensors& params, const Session& device) {
  return Exporter(g, params, device)();
}

std::string Int8Model::table() const {
  size_t width = 5, op_width = 2;
  for (const Line& line : lines)
    width = std::max(width, line.layer.size()), op_width = std::max(op_width, line.op.size());
  std::ostringstream out;
  auto row = [&](const std::string& layer, const std::string& op, const std::string& becomes) -> std::ostream& {
    return out << std::left << std::setw(static_cast<int>(width) + 2) << layer
               << std::setw(static_cast<int>(op_width) + 2) << op << becomes;
  };
  row("layer", "op", "becomes") << "\n";
  for (const Line& line : lines)
    row(line.layer, line.op, line.becomes) << (line.reason.empty() ? "" : ": " + line.reason) << "\n";
  out << "params: " << float_bytes << " bytes become " << bytes << "\n";
  return out.str();
}

}  // namespace rlx
