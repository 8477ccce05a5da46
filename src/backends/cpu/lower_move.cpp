// Ops that only move elements. They are strided copies.
#include "backends/cpu/lowerings.h"
#include "kernels/index/move.h"
#include "plan/byte_offset.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

constexpr double kByte_ns = 0.05;  // about 20 GB/s

struct Copy {
  kernels::CopyPlan plan;
  int64_t bytes;
  int64_t src_offset = 0, dst_offset = 0;

  void run(const StepArgs& args, const void* src, void* dst) const {
    const std::byte* from = static_cast<const std::byte*>(src) + src_offset;
    std::byte* to = static_cast<std::byte*>(dst) + dst_offset;
    for_ranges(args, plan.chunks, 1, static_cast<double>(bytes) * kByte_ns,
               [&](int64_t begin, int64_t end, int64_t) { kernels::copy_strided(plan, from, to, begin, end); });
  }
};

Copy plan_copy(const Shape& shape, size_t element_bytes, std::vector<int64_t> from, std::vector<int64_t> to) {
  Shape dims = shape;
  // Adjacent dims with a common stride on both sides become one dim, so that the rank fits the kernel.
  for (size_t d = dims.size(); d-- > 0;) {
    bool drop = dims[d] == 1;
    if (!drop && d + 1 < dims.size() && from[d] == from[d + 1] * dims[d + 1] && to[d] == to[d + 1] * dims[d + 1]) {
      dims[d + 1] *= dims[d];
      drop = true;
    }
    if (!drop) continue;
    for (auto* list : {&dims, &from, &to}) list->erase(list->begin() + std::ptrdiff_t(d));
  }
  if (dims.size() > static_cast<size_t>(kernels::kMaxCopyRank))
    fail(ErrorCode::unsupported, "a copy over ", dims.size(), " dims that do not merge; the CPU takes ",
         kernels::kMaxCopyRank);
  auto bytes = static_cast<int64_t>(element_bytes);
  for (auto* list : {&from, &to})
    for (int64_t& stride : *list) stride *= bytes;
  int64_t count = bytes;
  for (int64_t extent : shape) count *= extent;
  return {kernels::plan_copy(bytes, static_cast<int>(dims.size()), dims.data(), from.data(), to.data()), count};
}

}  // namespace

View blocks_as_bytes(View v) {
  if (!is_block(v.dtype)) return v;
  v.shape.back() = byte_offset(v.dtype, v.shape.back());
  for (int64_t& stride : v.strides) stride = byte_offset(v.dtype, stride);
  v.strides.back() = 1;
  v.dtype = u8;
  return v;
}
std::string when_bytes_move(const Question& q) {
  for (Types types : {q.operands, Types(q.node.types)})
    for (const Type& t : types)
      if (!is_byte_sized(t.dtype) && !is_block(t.dtype)) return text_of(t, " is packed: its elements have no address");
  return "";
}

Prepared copy_step(const View& from, const View& to) {
  if (!is_byte_sized(from.dtype)) {  // packed elements have no addresses; they are dense and copied as bytes
    size_t bytes = byte_count(from.dtype, from.shape);
    return make_step("copy", 0, [=](const StepArgs& args) {
      if (bytes) std::memcpy(args.out(), args.in(0), bytes);
    });
  }
  Copy copy = plan_copy(to.shape, from.element_bytes(), from.strides, to.strides);
  return make_step("copy", 0, [=](const StepArgs& args) { copy.run(args, args.in(0), args.out()); });
}

Prepared lower_copy(const LoweringContext& c) {
  const View from = blocks_as_bytes(c.operands[0]), to = blocks_as_bytes(c.results[0]);
  if (c.node.op == &op::reshape) {  // the operand's own shape, written densely
    View dense{from.dtype, from.shape, dense_strides(from.shape)};
    return copy_step(from, dense);
  }
  View seen{from.dtype, to.shape, {}};
  int64_t offset = 0;
  if (c.node.op == &op::transpose) {
    seen.strides = pick(from.strides, valid_axes(c.attrs<TransposeAttrs>().permutation, from.shape.size()));
  } else if (c.node.op == &op::slice) {
    const auto& a = c.attrs<SliceAttrs>();
    for (size_t d = 0; d < from.shape.size(); ++d) {
      offset += a.starts[d].value() * from.strides[d];
      seen.strides.push_back(from.strides[d] * (a.strides.empty() ? 1 : a.strides[d]));
    }
  } else if (c.node.op == &op::reverse) {
    seen.strides = from.strides;
    for (int64_t axis : valid_axes(c.attrs<AxesAttrs>().axes, from.shape.size())) {
      auto d = size_t(axis);
      offset += std::max<int64_t>(from.shape[d] - 1, 0) * from.strides[d];
      seen.strides[d] = -from.strides[d];
    }
  } else {
    Axes axes = valid_axes(c.attrs<BroadcastAttrs>().axes, to.shape.size());
    seen.strides.assign(to.shape.size(), 0);
    for (size_t d = 0; d < axes.size(); ++d)
      if (from.shape[d] != 1) seen.strides[size_t(axes[d])] = from.strides[d];
  }
  Copy copy = plan_copy(to.shape, from.element_bytes(), seen.strides, to.strides);
  copy.src_offset = offset * static_cast<int64_t>(from.element_bytes());
  return make_step("copy", 0, [=](const StepArgs& args) { copy.run(args, args.in(0), args.out()); });
}

Prepared lower_concatenate(const LoweringContext& c) {
  const View to = blocks_as_bytes(c.results[0]);
  auto axis = size_t(valid_axis(c.attrs<AxisAttrs>().axis, to.shape.size()));
  std::vector<Copy> copies;
  int64_t start = 0;
  for (const View& operand : c.operands) {
    View from = blocks_as_bytes(operand);
    Copy copy = plan_copy(from.shape, from.element_bytes(), from.strides, to.strides);
    copy.dst_offset = start * to.strides[axis] * static_cast<int64_t>(to.element_bytes());
    start += from.shape[axis];
    copies.push_back(copy);
  }
  return make_step("copy", 0, [copies = std::move(copies)](const StepArgs& args) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(args, args.in(i), args.out());
  });
}

Prepared lower_pad(const LoweringContext& c) {
  const View &from = c.operands[0], &to = c.results[0];
  const auto& a = c.attrs<PadAttrs>();
  Shape low = shape_of(a.low), high = shape_of(a.high);
  Axes interior = a.interior.empty() ? Axes(low.size(), 0) : a.interior;
  auto bytes = static_cast<int64_t>(from.element_bytes());
  kernels::PadPlan plan = kernels::plan_pad(bytes, static_cast<int>(low.size()), from.shape.data(), low.data(),
                                            high.data(), interior.data());
  Copy copy{plan.copy, to.count() * bytes, plan.src_offset, plan.dst_offset};
  int64_t count = to.count();
  return make_step("pad", 0, [=](const StepArgs& args) {
    for_ranges(args, count, 4096, static_cast<double>(count * bytes) * kByte_ns,
               [&](int64_t begin, int64_t end, int64_t) { kernels::fill(args.out(), args.in(1), bytes, begin, end); });
    copy.run(args, args.in(0), args.out());
  });
}

Prepared lower_iota(const LoweringContext& c) {
  const View& to = c.results[0];
  auto axis = size_t(valid_axis(c.attrs<IotaAttrs>().axis, to.shape.size()));
  int64_t inner = 1, extent = to.shape[axis], count = to.count();
  for (size_t d = axis + 1; d < to.shape.size(); ++d) inner *= to.shape[d];
  DType dtype = to.dtype;
  return make_step("iota", 0, [=](const StepArgs& args) {
    for_ranges(args, count, 4096, static_cast<double>(count), [&](int64_t begin, int64_t end, int64_t) {
      kernels::iota(args.out(), dtype, extent, inner, begin, end);
    });
  });
}

Prepared lower_extent(const LoweringContext& c) {
  const auto& a = c.attrs<ExtentAttrs>();
  Tensor value = full(a.dtype, {}, static_cast<double>(a.dim.value()));
  return make_step("extent", 0,
                   [value](const StepArgs& args) { std::memcpy(args.out(), value.data(), value.byte_count()); });
}

Prepared lower_bitcast(const LoweringContext& c) {
  const auto& whole = is_byte_sized(c.operands[0].dtype) ? c.operands[0] : c.results[0];  // the other may be of blocks
  int64_t bytes = whole.count() * static_cast<int64_t>(whole.element_bytes());
  return make_step("copy", 0, [=](const StepArgs& args) {
    if (bytes) std::memcpy(args.out(), args.in(0), static_cast<size_t>(bytes));
  });
}

Prepared lower_nothing(const LoweringContext&) {
  return make_step("nothing", 0, [](const StepArgs&) {});
}

}  // namespace rlx::cpu
