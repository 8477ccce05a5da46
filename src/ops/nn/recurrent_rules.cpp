// See the header.
#include "ops/nn/recurrent_rules.h"

namespace rlx {

Value merge_front(Value x) {
  Dims dims(x.dims().begin() + 1, x.dims().end());
  dims[0] = x.dim(0) * dims[0];
  return reshape(x, dims);
}
Value split_front(Value x, const Dim& size) {
  Dims dims = x.dims();
  dims[0] = dims[0] / size;
  return reshape(x, prepend(size, dims));
}

Many<Value> join_batches(const OpDef& op, Values in, const Mask& batched, const Attrs& attrs,
                         std::optional<size_t> shared) {
  if (shared && batched[*shared]) return {};
  Dim size = batch_size(in, batched);
  if (size == Dim(0)) return {};  // 0 B rows do not say what B is
  std::vector<Value> operands(in.begin(), in.end());
  for (size_t i = 0; i < operands.size(); ++i)
    if (i != shared) operands[i] = merge_front(batched[i] ? in[i] : repeat_front(in[i], size));
  auto out = in[0].graph().emit(op, operands, attrs);
  for (Value& v : out) v = split_front(v, size);
  return out;
}

}  // namespace rlx
