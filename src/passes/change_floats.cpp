// See the header. An op is tried with its operands as they are now; where it refuses them, or has another type than the
// one wanted, conversions stand around it.
#include "passes/change_floats.h"

#include <bit>
#include <cmath>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/subgraphs.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

/// A finite number in f16, ties to even; beyond its range the largest.
uint16_t half_bits(float v) {
  auto word = std::bit_cast<uint32_t>(std::clamp(v, -65504.0F, 65504.0F));
  uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7fffffff;
  if (magnitude < 0x38800000)  // below 2^-14: a sum with 0.5 has the steps of 2^-24 that subnormal numbers have
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F)));
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (magnitude - (uint32_t{112} << 23)) >> 13);
}

Tensor changed_tensor(const Tensor& t, DType to) {
  Tensor y = Tensor::uninitialized(to, t.shape());
  if (t.dtype() == f32 && to == f16) {  // weights of models: many, and a line at a time
    const float* from = t.values<float>().data();
    auto* words = reinterpret_cast<uint16_t*>(y.mutable_data());
    for (size_t i = 0; i < t.element_count(); ++i)
      words[i] = std::isfinite(from[i]) ? half_bits(from[i])
                                        : static_cast<uint16_t>(encode_float(f16, static_cast<double>(from[i])));
    return y;
  }
  double largest = to == f16 ? 65504 : INFINITY;
  for (size_t i = 0; i < t.element_count(); ++i) {
    double v = load<double>(t, i);
    store<double>(y, i, std::isfinite(v) ? std::clamp(v, -largest, largest) : v);
  }
  return y;
}

class Changer {
 public:
  Changer(const std::vector<DType>& from, DType to) : from_(from), dtype_(to) {}

  Graph run(const Graph& g) {
    return with_leaves(
        g,
        [&](Graph& to, const Node& leaf) {
          Type type = changed(leaf.types[0]);
          return leaf.op == &op::input ? to.input(leaf.name, type) : to.param(leaf.name, type);
        },
        [&](const Site& site) -> std::optional<std::vector<Value>> {
          if (site.node.op != &op::constant) return emitted(site);
          const Tensor& t = site.node.attrs.as<ConstantAttrs>().value;
          if (!is_meant(t.dtype())) return std::nullopt;
          return std::vector{site.to.constant(changed_tensor(t, dtype_))};
        });
  }

 private:
  bool is_meant(DType t) const { return std::find(from_.begin(), from_.end(), t) != from_.end(); }
  Type changed(Type t) const {
    if (is_meant(t.dtype)) t.dtype = dtype_;
    return t;
  }

  /// Attributes that name a dtype name the new one.
  Attrs changed(const Node& node) {
    auto other = [&](DType t) { return is_meant(t) ? dtype_ : t; };
    auto optional = [&](std::optional<DType> t) { return t ? std::optional(other(*t)) : t; };
    if (node.op == &op::convert) return ConvertAttrs{other(node.attrs.as<ConvertAttrs>().dtype)};
    if (node.op == &op::dequantize_blocks)
      return DequantizeBlocksAttrs{other(node.attrs.as<DequantizeBlocksAttrs>().dtype)};
    if (node.op == &op::iota) {
      IotaAttrs a = node.attrs.as<IotaAttrs>();
      a.type = changed(a.type);
      return a;
    }
    if (node.op == &op::dot_general) {
      DotAttrs a = node.attrs.as<DotAttrs>();
      a.accumulate = optional(a.accumulate);
      return a;
    }
    if (node.op == &op::convolution) {
      ConvAttrs a = node.attrs.as<ConvAttrs>();
      a.accumulate = optional(a.accumulate);
      return a;
    }
    if (node.op == &op::dequantize_blockwise) {
      DequantizeBlockwiseAttrs a = node.attrs.as<DequantizeBlockwiseAttrs>();
      a.dtype = optional(a.dtype);
      return a;
    }
    if (node.attrs.empty()) return node.attrs;
    return with_subgraphs(node.attrs, [&](const Graph& body) { return run(body); });
  }

  std::vector<Value> emitted(const Site& site) {
    Graph& to = site.to;
    const Node& node = site.node;
    const std::vector<Value> operands(site.operands.begin(), site.operands.end());
    if (node.op != &op::bitcast) try {
        std::vector<Value> out = to.emit(*node.op, operands, changed(node));
        bool fits = out.size() == node.types.size();
        for (size_t i = 0; fits && i < out.size(); ++i) {
          DType got = out[i].dtype(), wanted = changed(node.types[i]).dtype;
          fits = out[i].dims() == node.types[i].dims && (got == wanted || (is_float(got) && is_float(wanted)));
        }
        if (fits) {
          for (size_t i = 0; i < out.size(); ++i) out[i] = convert(out[i], changed(node.types[i]).dtype);
          return out;
        }
      } catch (const Error&) {
        // It does not take them: between conversions, then.
      }
    std::vector<Value> as_they_were;
    for (size_t i = 0; i < operands.size(); ++i)
      as_they_were.push_back(convert(operands[i], site.from.type(node.operands[i]).dtype));
    std::vector<Value> out = to.emit(*node.op, as_they_were, node.attrs);
    for (Value& v : out)
      if (is_meant(v.dtype())) v = convert(v, dtype_);
    return out;
  }

  const std::vector<DType>& from_;
  DType dtype_;
};

bool accumulates(const OpDef* op) {
  for (const OpDef* each :
       {&op::dot_general, &op::matmul, &op::linear, &op::lora_matmul, &op::grouped_matmul, &op::segment_matmul,
        &op::fused_matmul, &op::convolution, &op::conv, &op::conv_transpose, &op::attention})
    if (op == each) return true;
  return false;
}

}  // namespace

Graph change_floats(const Graph& g, const std::vector<DType>& from, DType to) { return Changer(from, to).run(g); }

Graph products_in_f16(const Graph& g) {
  return with_bodies(g, [](const Graph& body) {
    std::map<Ref, Value> constants;
    return rewritten(body, [&](const Site& site) -> std::optional<std::vector<Value>> {
      if (!accumulates(site.node.op) || site.node.types[0].dtype != f32) return std::nullopt;
      std::vector<Value> operands;
      for (size_t i = 0; i < site.operands.size(); ++i) {
        Value v = site.operands[i];
        Ref r = site.node.operands[i];
        if (v.dtype() == f32 && site.from.node(r).op == &op::constant) {  // the weights are of f16 in the file
          auto [found, is_new] = constants.try_emplace(r);
          if (is_new)
            found->second = site.to.constant(changed_tensor(site.from.node(r).attrs.as<ConstantAttrs>().value, f16));
          v = found->second;
        }
        operands.push_back(v.dtype() == f32 ? convert(v, f16) : v);
      }
      std::vector<Value> out = site.to.emit(*site.node.op, operands, site.node.attrs);
      for (size_t i = 0; i < out.size(); ++i) out[i] = convert(out[i], site.node.types[i].dtype);
      return out;
    });
  });
}

Graph sums_in_f64(const Graph& g) {
  const auto widened = [](DType t) { return t == f32 ? f64 : t == c64 ? c128 : t; };
  return with_bodies(g, [&](const Graph& body) {
    return rewritten(body, [&](const Site& site) -> std::optional<std::vector<Value>> {
      const Node& node = site.node;
      const bool reads_narrow = std::any_of(site.operands.begin(), site.operands.end(),
                                            [&](Value v) { return v.dtype() != widened(v.dtype()); });
      if (node.op->elementwise || node.op->moves_data || !reads_narrow || holds_programs(node)) return std::nullopt;
      std::vector<Value> wide;
      for (Value v : site.operands)
        wide.push_back(v.dtype() != widened(v.dtype()) ? convert(v, widened(v.dtype())) : v);
      std::vector<Value> out;
      try {
        out = site.to.emit(*node.op, wide, node.attrs);
      } catch (const Error&) {
        return std::nullopt;  // it takes no f64: a conversion, an op whose attributes name f32
      }
      for (size_t i = 0; i < out.size(); ++i) {
        const DType wanted = node.types[i].dtype;
        if (out[i].dtype() == wanted) continue;
        if (out[i].dtype() != widened(wanted)) return std::nullopt;
        out[i] = convert(out[i], wanted);
      }
      return out;
    });
  });
}

}  // namespace rlx
