// Fused composites: what passes make of several ops, so that a backend can run them as one.
#pragma once

#include "rlx/ops/activation.h"

namespace rlx {

namespace op {
extern const OpDef elementwise_region, glu, fused_swiglu;
}  // namespace op

struct ElementwiseRegionAttrs {
  Subgraph body;
  RLX_FIELDS(ElementwiseRegionAttrs, field("body", &ElementwiseRegionAttrs::body));
};
/// The results of `body`, whose inputs are the operands. It holds element-wise ops, constants and
/// broadcast_in_dim; each of them rounds as it would alone.
std::vector<Value> elementwise_region(std::vector<Value> operands, Graph body);

struct GluAttrs {
  Activation activation = Activation::sigmoid;
  int64_t axis = -1;
  bool gate_first = false;  ///< the gate is the first half of x along `axis`, else the second
  RLX_FIELDS(GluAttrs, field("activation", &GluAttrs::activation), field("axis", &GluAttrs::axis),
             field("gate_first", &GluAttrs::gate_first));
};
/// One half of x along `axis` times the activation of the other half, the gate.
Value glu(Value x, Activation activation = Activation::sigmoid, int64_t axis = -1, bool gate_first = false);

struct FusedSwigluAttrs {
  bool gate_first = false;
  RLX_FIELDS(FusedSwigluAttrs, field("gate_first", &FusedSwigluAttrs::gate_first));
};
/// glu with silu along the last dim.
Value fused_swiglu(Value x, bool gate_first = false);

}  // namespace rlx
