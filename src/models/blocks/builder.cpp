// The builder of models and its layers; see rlx/models/builder.h.
#include "rlx/models/builder.h"

#include <set>
#include <string>
#include <vector>

#include "models/widened.h"

namespace rlx {

Value ModelBuilder::param(const std::string& name, Dims dims) {
  const std::string full = full_name(name);
  if (const auto known = params_.find(full); known != params_.end()) {
    if (known->second.dims() != dims)
      fail(ErrorCode::shape_mismatch, "param '", full, "' is ", known->second.type(), ", and ", Type{dtype_, dims},
           " elsewhere");
    return known->second;
  }
  return params_.emplace(full, graph_.param(full, dtype_, std::move(dims))).first->second;
}

Value ModelBuilder::embedding(Value indices, const std::string& name, int64_t rows, int64_t width) {
  return within(name, [&] {
    GatherAttrs whole_rows;
    whole_rows.offset_dims = {indices.rank()};
    whole_rows.collapsed_slice_dims = whole_rows.start_index_map = {0};
    whole_rows.index_vector_dim = indices.rank();
    whole_rows.slice_sizes = {1, width};
    return gather(param("weight", {rows, width}), indices, whole_rows);
  });
}

Value ModelBuilder::linear(Value x, const std::string& name, int64_t out, bool bias) {
  return within(name, [&] {
    Value w = param("weight", {out, x.dim(-1)});
    return rlx::linear(x, w, bias ? param("bias", {out}) : Value{});
  });
}

Value ModelBuilder::layer_norm(Value x, const std::string& name, double epsilon, bool bias) {
  return within(name, [&] {
    Value gamma = param("weight", {x.dim(-1)});
    return rlx::layer_norm(x, gamma, bias ? param("bias", {x.dim(-1)}) : Value{}, epsilon);
  });
}
Value ModelBuilder::rms_norm(Value x, const std::string& name, double epsilon) {
  return within(name, [&] { return rlx::rms_norm(x, param("weight", {x.dim(-1)}), {}, epsilon); });
}

Value ModelBuilder::batch_norm(Value x, const std::string& name, bool training, double momentum, double epsilon) {
  return within(name, [&] {
    if (x.rank() < 2)
      fail(ErrorCode::shape_mismatch, "batch_norm normalizes the channels of x[n, channels, ...], got ", x.type());
    Dims channels = {x.dim(1)};
    Value gamma = param("weight", channels), beta = param("bias", channels);
    Value mean = param("running_mean", channels), variance = param("running_var", channels);
    if (!training) return batch_norm_inference(x, gamma, beta, mean, variance, epsilon, 1);
    Axes others = {0};
    for (int64_t axis = 2; axis < x.rank(); ++axis) others.push_back(axis);
    Dim each = 1;
    for (int64_t axis : others) each = each * x.dim(axis);
    if (each.is_static() && each.value() < 2)
      fail(ErrorCode::shape_mismatch, "batch_norm while training takes the variance of each channel, of more than one ",
           "value; ", x.type(), " has ", each.value());
    Moments of = moments(x, others);
    auto moved = [&](Value old, Value now) { return old * (1 - momentum) + stop_gradient(now) * momentum; };
    written_.emplace_back(full_name("running_mean"), moved(mean, of.mean));
    written_.emplace_back(full_name("running_var"), moved(variance, rlx::variance(x, others, false, 1)));
    return batch_norm_inference(x, gamma, beta, of.mean, of.variance, epsilon, 1);
  });
}
Value ModelBuilder::group_norm(Value x, const std::string& name, int64_t groups, double epsilon) {
  return within(name, [&] {
    Dims channels = {x.dim(1)};
    return rlx::group_norm(x, groups, param("weight", channels), param("bias", channels), epsilon);
  });
}

/// x[n, channels, ...] plus bias[channels].
static Value with_channel_bias(Value x, Value bias) { return x + broadcast_in_dim(bias, x.dims(), {1}); }

Value ModelBuilder::conv(Value x, const std::string& name, int64_t out, const Axes& kernel, const ConvNdAttrs& attrs,
                         bool bias) {
  return within(name, [&] {
    Dims dims = {out, x.dim(1) / attrs.groups};
    for (int64_t extent : kernel) dims.emplace_back(extent);
    Value y = rlx::conv(x, param("weight", dims), attrs);
    return bias ? with_channel_bias(y, param("bias", {out})) : y;
  });
}
Value ModelBuilder::conv_transpose(Value x, const std::string& name, int64_t out, const Axes& kernel,
                                   const ConvTransposeAttrs& attrs, bool bias) {
  return within(name, [&] {
    if (attrs.groups < 1 || out % attrs.groups != 0)
      fail(ErrorCode::shape_mismatch, "conv_transpose to ", out, " channels in ", attrs.groups,
           " groups; groups must divide the channels evenly");
    Dims dims = {x.dim(1), out / attrs.groups};
    for (int64_t extent : kernel) dims.emplace_back(extent);
    Value y = rlx::conv_transpose(x, param("weight", dims), attrs);
    return bias ? with_channel_bias(y, param("bias", {out})) : y;
  });
}

std::map<std::string, std::string, std::less<>> ModelBuilder::output_written() {
  std::map<std::string, std::string, std::less<>> names;
  for (const auto& [param, value] : written_) {
    names[param] = "new/" + param;
    graph_.output(value, names[param]);
  }
  return names;
}

Value ModelBuilder::self_attention(Value x, int64_t heads, Value mask, const AttentionNames& names,
                                   AttentionAttrs attrs) {
  int64_t width = x.dim(-1).value(), kv_heads = attrs.kv_heads.value_or(heads);
  Value q = linear(x, names.query, width);
  Value k = linear(x, names.key, width / heads * kv_heads);
  Value v = linear(x, names.value, width / heads * kv_heads);
  attrs.heads = heads;
  attrs.layout = AttentionLayout::packed;
  if (mask) attrs.mask = AttentionMask::key_padding;
  Value mixed = mask ? attention(q, k, v, mask, attrs) : attention(q, k, v, attrs);
  return names.output.empty() ? mixed : linear(mixed, names.output, width);
}

Value ModelBuilder::feed_forward(Value x, const std::string& up, const std::string& down, int64_t hidden,
                                 Activation activation) {
  Value h = activate(linear(x, up, hidden), activation);
  return linear(h, down, x.dim(-1).value());
}

std::vector<std::string> bind_weights(CompiledGraph& compiled, const SafetensorsFile& weights,
                                      const std::string& prefix) {
  return with_context([&] { return text_of("binding the weights of '", weights.path(), "'"); },
                      [&] {
                        std::set<std::string> read;
                        for (const auto& param : compiled.signature().params) {
                          const bool has_prefix = weights.find(prefix + param.name) != nullptr;
                          const std::string name = has_prefix ? prefix + param.name : param.name;
                          const SafetensorsFile::Entry* entry = weights.find(name);
                          const bool is_half = entry && (entry->dtype == f16 || entry->dtype == bf16);
                          const bool widens = is_half && param.type.dtype == f32;
                          const Tensor t =
                              weights.tensor(name, widens ? entry->dtype : param.type.dtype, shape_of(param.type.dims));
                          compiled.set_param(param.name, widens ? models::widened(t) : t);
                          read.insert(name);
                        }
                        std::vector<std::string> unread;
                        for (const auto& entry : weights.entries())
                          if (!read.contains(entry.name)) unread.push_back(entry.name);
                        return unread;
                      });
}

}  // namespace rlx
