// Layouts of heads; see the header.
#include "ops/nn/heads.h"

#include "ops/core/composite_rules.h"

namespace rlx {

HeadDims::HeadDims(const Type& t, AttentionLayout layout_, int64_t heads_, std::string_view name)
    : layout(layout_), heads(heads_) {
  if (heads < 1) fail(ErrorCode::invalid_argument, "the number of heads must be at least 1, got ", heads);
  if (layout == AttentionLayout::packed) {
    require_rank(t, 2, 3, name);
    batch = t.rank() == 3 ? t.dims[0] : Dim(1);
    length = t.dims[t.rank() - 2];
    const Dim& all = t.dims.back();
    if (all.is_static() && all.value() % heads != 0)
      fail(ErrorCode::shape_mismatch, "the last dim of ", name, " ", t, " does not divide into ", heads, " heads");
    width = all / heads;
    return;
  }
  require_rank(t, 4, 4, name);
  bool heads_first = layout == AttentionLayout::bhsd;
  batch = t.dims[0], length = t.dims[heads_first ? 2 : 1], width = t.dims[3];
  const Dim& found = t.dims[heads_first ? 1 : 2];
  if (found != Dim(heads))
    fail(ErrorCode::shape_mismatch, name, " ", t, " has ", found, " heads in the layout ",
         names_of(layout)[size_t(layout)], ", the attributes say ", heads);
}

size_t HeadDims::at(int64_t b, int64_t s, int64_t h, int64_t d) const {
  int64_t rows =
      layout == AttentionLayout::bhsd ? (b * heads + h) * length.value() + s : (b * length.value() + s) * heads + h;
  return static_cast<size_t>(rows * width.value() + d);
}

Value to_bhsd(Value x, const HeadDims& d) {
  if (d.layout == AttentionLayout::bhsd) return x;
  return transpose(reshape(x, {d.batch, d.length, d.heads, d.width}), {0, 2, 1, 3});
}
Value from_bhsd(Value x, const HeadDims& d, Value like) {
  if (d.layout == AttentionLayout::bhsd) return x;
  x = transpose(x, {0, 2, 1, 3});
  if (d.layout == AttentionLayout::bshd) return x;
  Dims dims = like.dims();
  dims.back() = x.dim(3) * d.heads;
  return reshape(x, dims);
}

}  // namespace rlx
