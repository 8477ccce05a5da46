// Sorting: an argsort of the first operand, after which every operand is gathered by the indices.
#include "backends/cpu/axis_vectors.h"
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/index/sort.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

/// Sorts every vector along `axis` by operand 0 and writes the first `k` elements of operand i to result i; with
/// `with_indices`, result 1 receives the indices.
Prepared sort_step(const LoweringContext& c, int64_t axis, bool descending, int64_t k, bool with_indices) {
  AxisVectors vectors(c.operands[0].shape, axis);
  kernels::SortArgs sort;
  sort.dtype = c.operands[0].dtype;
  sort.extent = vectors.extent, sort.inner = vectors.inner;
  sort.outer_stride = vectors.extent * vectors.inner, sort.axis_stride = vectors.inner;
  sort.descending = descending;
  sort.index_dtype = i32;
  sort.k = k;
  int64_t count = vectors.outer * vectors.inner, results = count * k;
  size_t per_thread = aligned(kernels::sort_scratch_bytes(sort.dtype, vectors.extent));
  size_t index_bytes = aligned(static_cast<size_t>(results) * sizeof(int32_t));
  std::vector<size_t> sizes;
  for (const View& v : c.operands) sizes.push_back(v.element_bytes());
  return make_step("sort", index_bytes + per_thread * static_cast<size_t>(c.threads), [=](const StepArgs& args) {
    kernels::SortArgs call = sort;
    call.x = args.in(0);
    auto* order = with_indices ? args.out<int32_t>(1) : reinterpret_cast<int32_t*>(args.scratch);
    call.indices = order;
    for_ranges(args, count, 1, static_cast<double>(count * vectors.extent) * 20,
               [&](int64_t begin, int64_t end, int64_t task) {
                 kernels::argsort(call, begin, end,
                                  args.scratch + index_bytes + per_thread * static_cast<size_t>(task));
                 for (size_t i = 0; i < sizes.size(); ++i) {
                   size_t size = sizes[i];
                   const auto* from = args.in<std::byte>(i);
                   auto* to = args.out<std::byte>(i);
                   for (int64_t vector = begin; vector < end; ++vector) {
                     int64_t base = vector / vectors.inner * vectors.inner * vectors.extent + vector % vectors.inner;
                     int64_t target = vector / vectors.inner * vectors.inner * k + vector % vectors.inner;
                     for (int64_t r = 0; r < k; ++r) {
                       int64_t at = target + r * vectors.inner;
                       std::memcpy(to + static_cast<size_t>(at) * size,
                                   from + static_cast<size_t>(base + order[at] * vectors.inner) * size, size);
                     }
                   }
                 }
               });
  });
}

std::string fits_i32(const Question& q, int64_t axis) {
  const Dim& extent = q.operands[0].dims[size_t(valid_axis(axis, q.operands[0].rank()))];
  return extent.is_static() && extent.value() > INT32_MAX ? text_of("an axis of ", extent, " has indices beyond i32")
                                                          : "";
}

}  // namespace

std::string when_sort(const Question& q) {
  const auto& a = q.node.attrs.as<SortAttrs>();
  if (a.comparator) return "the CPU sorts by value only; a comparator sub-graph has no kernel";
  if (auto why = when::is_byte_sized(q); !why.empty()) return why;
  return fits_i32(q, a.axis);
}
Prepared lower_sort(const LoweringContext& c) {
  const auto& a = c.attrs<SortAttrs>();
  return sort_step(c, a.axis, a.descending, AxisVectors(c.operands[0].shape, a.axis).extent, false);
}

std::string when_top_k(const Question& q) {
  if (auto why = when::is_byte_sized(q); !why.empty()) return why;
  return fits_i32(q, q.node.attrs.as<TopKAttrs>().axis);
}
Prepared lower_top_k(const LoweringContext& c) {
  const auto& a = c.attrs<TopKAttrs>();
  return sort_step(c, a.axis, true, a.k, true);
}

}  // namespace rlx::cpu
