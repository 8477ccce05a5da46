// Non-maximum suppression. The greedy choice is a scan: each step takes the best box that is left, and drops those that
// overlap it. A score must exceed its threshold. What is left over of `max_boxes` is zeros, and -1 as index; without
// any box above the threshold the best one is chosen all the same (the reference in coremltools' tests has it so).
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {

MIL_OP(non_maximum_suppression) {
  Value boxes = op("boxes"), scores = op("scores");
  double iou_threshold = op.number("iou_threshold");
  // Since iOS 17 nothing is rejected before the suppression.
  double score_threshold = op.number("score_threshold", -std::numeric_limits<double>::infinity());
  int64_t most = op.integer("max_boxes");
  bool per_class = op.flag("per_class_suppression", false);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dim(2) != Dim(4) || boxes.dim(1) != scores.dim(1))
    op.wrong("boxes ", boxes.type(), " must be [n, B, 4] and scores ", scores.type(), " [n, B, K]");
  if (most < 0) op.wrong("max_boxes is ", most);
  Graph& g = op.graph();
  Dim n = boxes.dim(0), count = boxes.dim(1);
  auto coordinate = [&](int64_t i) { return rlx::squeeze(slice_axis(boxes, 2, i, i + 1), {2}); };
  Value w = coordinate(2), h = coordinate(3);
  Value left = coordinate(0) - w * 0.5, right = coordinate(0) + w * 0.5;
  Value low = coordinate(1) - h * 0.5, high = coordinate(1) + h * 0.5, area = w * h;
  Value best = rlx::reduce_max(scores, Axes{2}), kind = argmax(scores, 2);
  Value alive = compare(best, full_like(best, score_threshold), Comparison::gt);
  Value place = iota(g, {i32, {n, count}}, 1);
  auto across = [&](Value v) { return broadcast_in_dim(v, {n, count}, {0}); };
  Value none = rlx::logical_not(rlx::reduce_any(alive, {1}));
  alive =
      rlx::logical_or(alive, rlx::logical_and(across(none), compare(place, across(argmax(best, 1)), Comparison::eq)));

  std::vector<Value> captured = {best, kind, left, right, low, high, area, place};
  std::vector<Type> types = {alive.type()};
  for (Value v : captured) types.push_back(v.type());
  Graph body = trace(Types(types), [&](Graph&, Values in) {
    Value open = in[0];
    Value lowest = full_like(in[1], -std::numeric_limits<double>::infinity());
    // Of open boxes only, also where all scores are -inf.
    Value masked = rlx::select(open, in[1], lowest);
    Value top = rlx::reduce_max(masked, Axes{1}, true);
    Value candidates = rlx::logical_and(open, compare(masked, broadcast_to(top, masked.dims()), Comparison::ge));
    Value chosen = argmax(convert(candidates, i32), 1, true);  // [n, 1]
    auto of_chosen = [&](Value v) { return broadcast_to(take_along_axis(v, chosen, 1), v.dims()); };
    Value overlap_w = minimum(in[4], of_chosen(in[4])) - maximum(in[3], of_chosen(in[3]));
    Value overlap_h = minimum(in[6], of_chosen(in[6])) - maximum(in[5], of_chosen(in[5]));
    Value zero = zeros_like(overlap_w);
    Value common = maximum(overlap_w, zero) * maximum(overlap_h, zero);
    Value iou = common / (in[7] + of_chosen(in[7]) - common);
    Value drop = compare(iou, full_like(iou, iou_threshold), Comparison::gt);
    if (per_class) drop = rlx::logical_and(drop, compare(in[2], of_chosen(in[2]), Comparison::eq));
    drop = rlx::logical_or(drop, compare(in[8], broadcast_to(chosen, in[8].dims()), Comparison::eq));
    Value any = rlx::reduce_any(open, {1});
    Value index = rlx::squeeze(chosen, {1});
    return std::vector<Value>{rlx::logical_and(open, rlx::logical_not(drop)),
                              rlx::select(any, index, full_like(index, -1))};
  });
  std::vector<Value> operands = {alive};
  operands.insert(operands.end(), captured.begin(), captured.end());
  ScanAttrs a;
  a.carries = 1, a.length = most, a.body = std::move(body);
  Value indices = rlx::transpose(scan(g, operands, a)[1], {1, 0});  // [n, most]
  Value found = compare(indices, zeros_like(indices), Comparison::ge);
  auto picked = [&](Value x) {
    GatherAttrs at;
    at.operand_batching_dims = at.start_indices_batching_dims = {0};
    at.collapsed_slice_dims = at.start_index_map = {1};
    at.index_vector_dim = 2, at.offset_dims = {2}, at.slice_sizes = {1, 1, x.dim(2)};
    at.out_of_range = OutOfRange::clip;
    Value y = rlx::gather(x, indices, at);
    return rlx::select(broadcast_in_dim(found, y.dims(), {0, 1}), y, zeros_like(y));
  };
  return several({picked(boxes), picked(scores), indices, rlx::reduce_sum(convert(found, i32), Axes{1})});
}

}  // namespace rlx::mlprogram
