// See the header.
#include "passes/constants.h"

#include "ir/leaves.h"
#include "rlx/ops/shape.h"

namespace rlx {

const Tensor* literal(const Graph& g, Ref r) {
  const Node& node = g.node(r);
  return node.op == &op::constant ? &node.attrs.as<ConstantAttrs>().value : nullptr;
}

std::optional<double> splat(const Graph& g, Ref r) {
  constexpr size_t kMostBytes = 1 << 16;  // a longer literal of one number would be odd, and comparing takes time
  while (g.node(r).op == &op::broadcast_in_dim || g.node(r).op == &op::reshape) r = g.node(r).operands[0];
  const Tensor* t = literal(g, r);
  if (!t || !is_byte_sized(t->dtype()) || is_complex(t->dtype()) || t->element_count() == 0 ||
      t->byte_count() > kMostBytes)
    return {};
  size_t size = byte_size(t->dtype());
  if (std::memcmp(t->data(), t->data() + size, t->byte_count() - size) != 0) return {};
  return load_number(*t, 0);
}

}  // namespace rlx
