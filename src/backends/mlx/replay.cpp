// See the header.
#include "backends/mlx/replay.h"

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "rlx/error.h"

namespace rlx::mlx_backend {

Replay::Replay(const Function& build, const std::vector<mx::array>& like) {
  std::vector<mx::array> inputs;
  inputs.reserve(like.size());
  for (const mx::array& x : like) inputs.emplace_back(x.shape(), x.dtype(), nullptr, std::vector<mx::array>());
  const std::vector<mx::array> outputs = build(inputs);

  std::unordered_map<std::uintptr_t, Place> places;
  for (const mx::array& x : inputs) places.insert({x.id(), {values_++, false, false}});
  const auto is_placed = [&](const mx::array& x) { return places.contains(x.id()); };
  const auto place = [&](const mx::array& x) {
    if (x.has_primitive() && x.status() == mx::array::Status::unscheduled) {
      Operation made{x.primitive_ptr(), {}, {}, {}};
      for (const mx::array& in : x.inputs()) made.operands.push_back(places.at(in.id()));
      for (const mx::array& result : x.outputs()) {
        places.insert({result.id(), {values_++, false, false}});
        made.shapes.push_back(result.shape()), made.dtypes.push_back(result.dtype());
      }
      operations_.push_back(std::move(made));
      return;
    }
    if (x.status() == mx::array::Status::unscheduled)
      fail(ErrorCode::internal, "a graph of MLX's reads an array without a value");
    places.insert({x.id(), {constants_.size(), true, false}});
    constants_.push_back(x);
  };
  // Operands before what reads them. Not by recursion: a graph may be as deep as it has nodes.
  struct Visit {
    mx::array array;
    size_t next = 0;
  };
  std::vector<Visit> stack;
  for (const mx::array& output : outputs) {
    if (!is_placed(output)) stack.push_back({output});
    while (!stack.empty()) {
      Visit& top = stack.back();
      const bool is_computed = top.array.status() == mx::array::Status::unscheduled;
      if (is_computed && top.next < top.array.inputs().size()) {
        const mx::array& in = top.array.inputs()[top.next++];
        if (!is_placed(in)) stack.push_back({in});
        continue;
      }
      if (!is_placed(top.array)) place(top.array);
      stack.pop_back();
    }
  }
  for (const mx::array& output : outputs) results_.push_back(places.at(output.id()));

  // A value moves to the last of its readers. An output is read by the caller.
  std::vector<bool> is_read(values_, false);
  for (const Place& p : results_)
    if (!p.is_constant) is_read[p.index] = true;
  for (size_t n = operations_.size(); n-- > 0;)
    for (size_t i = operations_[n].operands.size(); i-- > 0;)
      if (Place& p = operations_[n].operands[i]; !p.is_constant && !is_read[p.index])
        p.is_last = is_read[p.index] = true;
}

std::vector<mx::array> Replay::operator()(std::vector<mx::array> values) const {
  values.reserve(values_);
  for (const Operation& o : operations_) {
    std::vector<mx::array> in;
    in.reserve(o.operands.size());
    for (const Place& p : o.operands) {
      if (p.is_constant) in.push_back(constants_[p.index]);
      else if (p.is_last) in.push_back(std::move(values[p.index]));
      else in.push_back(values[p.index]);
    }
    if (o.shapes.size() == 1) {
      values.emplace_back(o.shapes[0], o.dtypes[0], o.primitive, std::move(in));
      continue;
    }
    for (mx::array& made : mx::array::make_arrays(o.shapes, o.dtypes, o.primitive, in))
      values.push_back(std::move(made));
  }
  std::vector<mx::array> results;
  results.reserve(results_.size());
  for (const Place& p : results_) results.push_back(p.is_constant ? constants_[p.index] : values[p.index]);
  return results;
}

}  // namespace rlx::mlx_backend
