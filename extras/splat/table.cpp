// Defines the family's handles and registers ops and kernels when the library is loaded.
#include "extras/splat/kernels.h"
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
  splat::register_kernels();
  return true;
}();

}  // namespace
}  // namespace rlx
