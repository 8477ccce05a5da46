// Defines the family's handles and registers its ops when the library is loaded. Their kernels are rows of the CPU's
// table: they share the thread pool's tiles and vectors with ours.
#include "rlx/extras/splat.h"

namespace rlx {

#define RLX_OP(name)     \
  OpDef define_##name(); \
  const OpDef op::name = define_##name();
#include "extras/splat/ops.def"

namespace {

[[maybe_unused]] const bool kRegistered = [] {
#define RLX_OP(name) register_op(op::name);
#include "extras/splat/ops.def"
  return true;
}();

}  // namespace
}  // namespace rlx
