// Convolutions, and the padding that they share with pools.
#include "frontends/mil/handlers.h"
#include "rlx/element.h"

namespace rlx::mlprogram {

int64_t static_dim(Call& op, Value x, int64_t axis) {
  const Dim& d = x.dim(axis);
  if (!d.is_static())
    throw NeedsData(ErrorCode::unsupported, text_of("dim ", axis, " of ", x.type(),
                                                    " must be a number for this op: give the", " sizes of all inputs"));
  (void)op;
  return d.value();
}

Padding padding_of(Call& op, const Dims& spatial, const Axes& kernel, const Axes& strides, const Axes& dilations,
                   const std::string& pad_type) {
  size_t n = spatial.size();
  Padding p{Dims(n, Dim(0)), Dims(n, Dim(0))};
  if (pad_type == "custom") {
    Axes pad = op.integers("pad", Axes(2 * n, 0));
    if (pad.size() != 2 * n) op.wrong("'pad' has ", pad.size(), " numbers; ", n, " spatial dims take ", 2 * n);
    for (size_t i = 0; i < n; ++i) p.low[i] = pad[2 * i], p.high[i] = pad[2 * i + 1];
    return p;
  }
  op.ignore("pad");  // "valid only with custom"
  if (pad_type == "valid") return p;
  if (pad_type != "same" && pad_type != "same_lower")
    op.wrong("pad_type '", pad_type, "' is none of valid, same, same_lower and custom");
  for (size_t i = 0; i < n; ++i) {
    int64_t span = (kernel[i] - 1) * dilations[i] + 1, total;
    if (spatial[i].is_static()) {
      int64_t extent = spatial[i].value(), out = (extent + strides[i] - 1) / strides[i];
      total = std::max<int64_t>((out - 1) * strides[i] + span - extent, 0);
    } else if (strides[i] == 1) {
      total = span - 1;
    } else {
      throw NeedsData(ErrorCode::unsupported,
                      text_of("pad_type '", pad_type, "' with stride ", strides[i], " needs the extent of spatial dim ",
                              i, ": give the sizes of all inputs"));
    }
    int64_t less = total / 2;
    p.low[i] = pad_type == "same" ? less : total - less;
    p.high[i] = total - p.low[i].value();
  }
  return p;
}

namespace {

struct ConvShape {
  size_t spatial;
  Axes kernel, strides, dilations;
  int64_t groups;
};

ConvShape conv_shape(Call& op, Value x, Value w) {
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank())
    op.wrong("x ", x.type(), " and weight ", w.type(), " must both be of rank 3, 4 or 5");
  ConvShape s;
  s.spatial = x.dims().size() - 2;
  for (size_t i = 0; i < s.spatial; ++i) s.kernel.push_back(static_dim(op, w, static_cast<int64_t>(i) + 2));
  s.strides = op.integers("strides", Axes(s.spatial, 1));
  s.dilations = op.integers("dilations", Axes(s.spatial, 1));
  if (s.strides.size() != s.spatial || s.dilations.size() != s.spatial)
    op.wrong("strides and dilations take ", s.spatial, " numbers each");
  for (size_t i = 0; i < s.spatial; ++i)
    if (s.strides[i] < 1 || s.dilations[i] < 1) op.wrong("strides and dilations are at least 1");
  s.groups = op.integer("groups", 1);
  if (s.groups < 1) op.wrong("groups is ", s.groups, "; it is at least 1");
  return s;
}

Value with_bias(Value y, Value bias) {
  if (!bias) return y;
  if (bias.dtype() != y.dtype()) bias = convert(bias, y.dtype());
  return y + along_channels(bias, y.rank());
}

Value plain_conv(Call& op, Value x, Value w, Value bias) {
  ConvShape s = conv_shape(op, x, w);
  Padding p = padding_of(op, Dims(x.dims().begin() + 2, x.dims().end()), s.kernel, s.strides, s.dilations,
                         op.word("pad_type", "valid"));
  if (w.dtype() != x.dtype()) w = convert(w, x.dtype());
  ConvAttrs a;
  a.strides = s.strides, a.padding_low = p.low, a.padding_high = p.high, a.rhs_dilation = s.dilations;
  a.feature_group_count = s.groups;
  return with_bias(convolution(x, w, a), bias);
}

}  // namespace

MIL_OP(conv) { return one(plain_conv(op, op("x"), op("weight"), op.maybe("bias"))); }

// The transpose of a convolution: one over x with gaps between its elements, with the kernel reversed.
MIL_OP(conv_transpose) {
  Value x = op("x"), w = op("weight"), bias = op.maybe("bias");
  ConvShape s = conv_shape(op, x, w);
  if (w.dtype() != x.dtype()) w = convert(w, x.dtype());
  int64_t g = s.groups, in = static_dim(op, w, 0), out = static_dim(op, w, 1);
  if (in % g != 0) op.wrong("the ", in, " input channels of the weight do not divide into ", g, " groups");
  Dims kernel(w.dims().begin() + 2, w.dims().end());
  Dims grouped = {g, in / g, out};
  grouped.insert(grouped.end(), kernel.begin(), kernel.end());
  Axes swap = axes_from(0, grouped.size());
  std::swap(swap[1], swap[2]);
  Dims merged = {g * out, in / g};
  merged.insert(merged.end(), kernel.begin(), kernel.end());
  w = rlx::reverse(rlx::reshape(rlx::transpose(rlx::reshape(w, grouped), swap), merged), axes_from(2, s.spatial));

  std::string pad_type = op.word("pad_type", "valid");
  Axes pad = op.integers("pad", Axes(2 * s.spatial, 0));
  if (pad.size() != 2 * s.spatial) op.wrong("'pad' takes ", 2 * s.spatial, " numbers");
  std::optional<Axes> shape;
  if (op.has("output_shape")) shape = op.integers("output_shape");
  if (shape && shape->size() == s.spatial) {  // the spatial dims alone
  } else if (shape) {
    if (shape->size() != s.spatial + 2) op.wrong("'output_shape' has ", shape->size(), " numbers");
    shape->erase(shape->begin(), shape->begin() + 2);
  }
  ConvAttrs a;
  a.lhs_dilation = s.strides, a.rhs_dilation = s.dilations, a.feature_group_count = g;
  for (size_t i = 0; i < s.spatial; ++i) {
    int64_t span = (s.kernel[i] - 1) * s.dilations[i] + 1;
    Dim extent = x.dims()[i + 2];
    Dim full = (extent - Dim(1)) * Dim(s.strides[i]) + Dim(span);  // without padding
    Dim low = 0, high = 0;                                         // cut from it
    if (pad_type == "custom") {
      low = pad[2 * i], high = pad[2 * i + 1];
      if (shape) high = full - low - Dim((*shape)[i]);
    } else if (pad_type == "valid") {
      if (shape) high = full - Dim((*shape)[i]);
    } else if (pad_type == "same" || pad_type == "same_lower") {
      Dim total = full - (shape ? Dim((*shape)[i]) : extent * Dim(s.strides[i]));
      if (!total.is_static()) total = Dim(static_dim(op, x, static_cast<int64_t>(i) + 2));
      int64_t cut = total.value(), less = cut >= 0 ? cut / 2 : 0;
      low = pad_type == "same" ? less : cut - less;
      high = total - low;
    } else {
      op.wrong("pad_type '", pad_type, "' is none of valid, same, same_lower and custom");
    }
    a.padding_low.push_back(Dim(span - 1) - low);
    a.padding_high.push_back(Dim(span - 1) - high);
  }
  return one(with_bias(convolution(x, w, a), bias));
}

// Weights as codes: linear ones are scale * code + bias per output channel (or for all), of a look-up table the entry.
MIL_OP(conv_quantized) {
  Value x = op("x"), bias = op.maybe("bias");
  std::string kind = op.word("quantization_type");
  int64_t bits = op.integer("nbits", 8);
  if (bits != 8) op.refuse("weights of ", bits, " bits packed into bytes; MIL says nothing of their order");
  Tensor codes = op.constant("weight"), scale = op.constant("quant_scale"), offset = op.constant("quant_bias");
  if (codes.rank() < 1 || codes.dtype() != u8) op.wrong("the weight is ", codes.type(), ", not of u8");
  size_t channels = static_cast<size_t>(codes.shape()[0]);
  size_t each = channels ? codes.element_count() / channels : 0;
  Tensor weight(f32, codes.shape());
  auto entry = [&](const Tensor& t, size_t channel) {
    if (t.element_count() != 1 && t.element_count() != channels)
      op.wrong("scale and bias have one number or one for each of ", channels, " channels, got ", t.type());
    return load_number(t, t.element_count() == 1 ? 0 : channel);
  };
  if (kind != "linear") op.refuse("quantization_type '", kind, "': its look-up table has no parameter in MIL");
  for (size_t i = 0; i < codes.element_count(); ++i)
    store<double>(weight, i,
                  entry(scale, i / each) * static_cast<double>(load<uint64_t>(codes, i)) + entry(offset, i / each));
  return one(plain_conv(op, x, op.graph().constant(weight), bias));
}

}  // namespace rlx::mlprogram
