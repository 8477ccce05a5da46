// See the header.
#include "ops/quant/block_scales.h"

namespace rlx {

Dims scale_dims(const Type& q, int64_t axis, int64_t block_size) {
  auto at = size_t(valid_axis(axis, q.rank()));
  if (block_size < 0) fail(ErrorCode::invalid_argument, "block_size is ", block_size, "; it cannot be negative");
  Dims dims = q.dims;
  if (block_size == 0) dims[at] = 1;
  else if (dims[at].is_static()) dims[at] = dims[at].value() / block_size + (dims[at].value() % block_size != 0);
  else dims[at] = dims[at] / block_size;
  return dims;
}
Value repeated(Value s, Value q, int64_t axis, int64_t block_size) {
  auto at = valid_axis(axis, q.dims().size());
  Axes axes = axes_from(0, q.dims().size());
  if (block_size == 0) return broadcast_in_dim(s, q.dims(), axes);
  if (block_size == 1) return s;
  for (size_t d = size_t(at) + 1; d < axes.size(); ++d) ++axes[d];
  Dims split = s.dims(), whole = s.dims();
  split.insert(split.begin() + at + 1, Dim(block_size));
  whole[size_t(at)] = whole[size_t(at)] * Dim(block_size);
  Value v = reshape(broadcast_in_dim(s, split, axes), whole);
  return v.dim(at) == q.dim(at) ? v : slice_axis(v, at, 0, q.dim(at));
}

}  // namespace rlx
