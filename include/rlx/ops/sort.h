// Ordering.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef sort, top_k, sort_values, argsort;
}  // namespace op

struct SortAttrs {
  int64_t axis = -1;
  bool descending = false;
  Subgraph comparator = {};  ///< if given: two elements of each operand -> bool, true if the first comes first
  RLX_FIELDS(SortAttrs, field("axis", &SortAttrs::axis), field("descending", &SortAttrs::descending),
             field("comparator", &SortAttrs::comparator));
};
/// All operands, reordered along `axis` by the first (or by the comparator), stably. NaN counts as the largest.
std::vector<Value> sort(std::vector<Value> xs, SortAttrs attrs = {});

struct OrderAttrs {
  int64_t axis = -1;
  bool descending = false;
  RLX_FIELDS(OrderAttrs, field("axis", &OrderAttrs::axis), field("descending", &OrderAttrs::descending));
};
/// One operand in order along `axis`.
Value sort_values(Value x, int64_t axis = -1, bool descending = false);
/// Where the elements in order stood (i32); equal ones in order of place.
Value argsort(Value x, int64_t axis = -1, bool descending = false);

struct TopKAttrs {
  int64_t k = 1, axis = -1;
  RLX_FIELDS(TopKAttrs, field("k", &TopKAttrs::k), field("axis", &TopKAttrs::axis));
};
struct TopK {
  Value values, indices;
};
TopK top_k(Value x, int64_t k, int64_t axis = -1);

}  // namespace rlx
