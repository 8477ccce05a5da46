// Blocks that models are made of; see rlx/models.h.
#include "rlx/models.h"

namespace rlx {

Value ModelBuilder::param(const std::string& name, Dims dims) {
  return graph_.param(full_name(name), dtype_, std::move(dims));
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

Value ModelBuilder::layer_norm(Value x, const std::string& name, double epsilon) {
  return within(name, [&] {
    Value gamma = param("weight", {x.dim(-1)});
    return rlx::layer_norm(x, gamma, param("bias", {x.dim(-1)}), epsilon);
  });
}
Value ModelBuilder::rms_norm(Value x, const std::string& name, double epsilon) {
  return within(name, [&] { return rlx::rms_norm(x, param("weight", {x.dim(-1)}), {}, epsilon); });
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

}  // namespace rlx
