// Gather, scatter and dynamic slices. Each index vector is decoded once per slice. A slice is then a strided copy or,
// for a scatter that combines, an element-wise step.
#include "backends/cpu/body_call.h"
#include "backends/cpu/lowerings.h"
#include "backends/cpu/scalar_combine.h"
#include "kernels/index/index.h"
#include "kernels/index/move.h"
#include "kernels/index/scatter_add.h"
#include "rlx/ops/index.h"
#include "rlx/ops/take.h"

namespace rlx::cpu {

using kernels::read_index;

namespace {

constexpr size_t kMaxRank = 16;

/// What gather and scatter share: the slices of x, one for each index vector, and the slices of the result or of the
/// updates (`other`) that belong to them.
struct Slices {
  Shape x_shape, sizes;            // extents of x, and of a slice along each dim of x
  std::vector<int64_t> x_strides;  // in elements
  std::vector<int64_t> limits;     // the largest start that is in range, per dim of x
  DType index_dtype = i64;
  int64_t element = 1;  // bytes of an element
  Axes index_map;
  // The batch dims are all dims of the indices except that of the vectors, in order: extents, and strides in elements.
  Shape batch;
  std::vector<int64_t> index_strides, other_strides;
  std::vector<int64_t> batch_to_x;  // for each batch dim the dim of x that it batches, or -1
  int64_t vector_stride = 0;
  // The dims of a slice, without the collapsed ones: extents, and strides in x and in `other`.
  Shape window;
  std::vector<int64_t> window_x_strides, window_other_strides;

  int64_t count() const {
    int64_t n = 1;
    for (int64_t extent : batch) n *= extent;
    return n;
  }
  int64_t window_count() const {
    int64_t n = 1;
    for (int64_t extent : window) n *= extent;
    return n;
  }
  /// Whether a slice is contiguous in x and in `other`.
  bool is_run() const {
    int64_t n = 1;
    for (size_t d = window.size(); d-- > 0;) {
      if (window[d] != 1 && (window_x_strides[d] != n || window_other_strides[d] != n)) return false;
      n *= window[d];
    }
    return true;
  }

  Slices(const View& x, const View& indices, const View& other, const Axes& window_dims, const Axes& collapsed,
         const Axes& x_batch, const Axes& index_batch, const Axes& map, int64_t vector_dim, const Shape& slice_sizes)
      : x_shape(x.shape), sizes(slice_sizes), x_strides(x.strides), index_dtype(indices.dtype),
        element(static_cast<int64_t>(x.element_bytes())), index_map(map) {
    if (x.shape.size() > kMaxRank || other.shape.size() > kMaxRank)
      fail(ErrorCode::unsupported, "indexing into rank ", x.shape.size());
    for (size_t d = 0; d < x.shape.size(); ++d) limits.push_back(x.shape[d] - sizes[d]);
    Axes other_batch = other_axes(other.shape.size(), window_dims);
    size_t next = 0;
    for (size_t d = 0; d < indices.shape.size(); ++d) {
      if (int64_t(d) == vector_dim) {
        vector_stride = indices.strides[d];
        continue;
      }
      batch.push_back(indices.shape[d]);
      index_strides.push_back(indices.strides[d]);
      other_strides.push_back(other.strides[size_t(other_batch[next++])]);
      auto along = std::find(index_batch.begin(), index_batch.end(), int64_t(d));
      batch_to_x.push_back(along == index_batch.end() ? -1 : x_batch[size_t(along - index_batch.begin())]);
    }
    next = 0;
    for (size_t d = 0; d < x.shape.size(); ++d) {
      auto is_in = [&](const Axes& axes) { return std::find(axes.begin(), axes.end(), int64_t(d)) != axes.end(); };
      if (is_in(collapsed) || is_in(x_batch)) continue;
      window.push_back(sizes[d]);
      window_x_strides.push_back(x.strides[d]);
      window_other_strides.push_back(other.strides[size_t(window_dims[next++])]);
    }
  }

  struct Start {
    int64_t x, other;  // offsets in elements
    bool in_range;
  };
  /// Where the slice of index vector `i` starts. With `clip` the start is moved into range.
  Start start(const std::byte* indices, int64_t i, bool clip) const {
    int64_t at[kMaxRank] = {};
    int64_t index_offset = 0;
    Start s{0, 0, true};
    for (size_t d = batch.size(); d-- > 0;) {
      int64_t position = i % batch[d];
      i /= batch[d];
      index_offset += position * index_strides[d];
      s.other += position * other_strides[d];
      if (batch_to_x[d] >= 0) at[size_t(batch_to_x[d])] = position;
    }
    auto index_size = static_cast<int64_t>(byte_size(index_dtype));
    for (size_t v = 0; v < index_map.size(); ++v)
      at[size_t(index_map[v])] =
          read_index(indices + (index_offset + int64_t(v) * vector_stride) * index_size, index_dtype);
    for (size_t d = 0; d < x_shape.size(); ++d) {
      if (clip) at[d] = std::clamp<int64_t>(at[d], 0, std::max<int64_t>(limits[d], 0));
      if (at[d] < 0 || at[d] > limits[d]) s.in_range = false;
      else s.x += at[d] * x_strides[d];
    }
    return s;
  }
};

/// Calls f(offset in a, offset in b) for each element of a box.
template <class F>
void for_each_pair(const Shape& box, const std::vector<int64_t>& a, const std::vector<int64_t>& b, F f) {
  int64_t index[kMaxRank] = {};
  int64_t at_a = 0, at_b = 0;
  for (int64_t extent : box)
    if (extent == 0) return;
  for (;;) {
    f(at_a, at_b);
    size_t d = box.size();
    for (;;) {
      if (d == 0) return;
      --d;
      at_a += a[d], at_b += b[d];
      if (++index[d] < box[d]) break;
      at_a -= a[d] * box[d], at_b -= b[d] * box[d];
      index[d] = 0;
    }
  }
}

kernels::CopyPlan window_copy(const Slices& s, bool from_x) {
  Shape box = s.window;
  auto from = from_x ? s.window_x_strides : s.window_other_strides,
       to = from_x ? s.window_other_strides : s.window_x_strides;
  for (auto* list : {&from, &to})
    for (int64_t& stride : *list) stride *= s.element;
  if (box.size() > static_cast<size_t>(kernels::kMaxCopyRank))
    fail(ErrorCode::unsupported, "slices of rank ", box.size());
  return kernels::plan_copy(s.element, static_cast<int>(box.size()), box.data(), from.data(), to.data());
}

std::string index_types(const Question& q) {
  if (auto why = when::is_byte_sized(q); !why.empty()) return why;
  for (const Type& t : q.operands)
    if (t.rank() > kMaxRank) return text_of("rank ", t.rank(), " is above ", kMaxRank);
  return "";
}

}  // namespace

std::string when_gather(const Question& q) {
  if (!is_block(q.operands[0].dtype)) return index_types(q);
  return q.operands[0].rank() > kMaxRank ? text_of("rank ", q.operands[0].rank(), " is above ", kMaxRank) : "";
}
Prepared lower_gather(const LoweringContext& c) {
  GatherAttrs a = c.attrs<GatherAttrs>();
  const View x = blocks_as_bytes(c.operands[0]), &indices = c.operands[1], y = blocks_as_bytes(c.results[0]);
  bool blocks = is_block(c.operands[0].dtype);
  if (blocks) a.slice_sizes.back() = x.shape.back();
  Slices s(x, indices, y, a.offset_dims, a.collapsed_slice_dims, a.operand_batching_dims, a.start_indices_batching_dims,
           a.start_index_map, a.index_vector_dim, shape_of(a.slice_sizes));
  kernels::CopyPlan copy = window_copy(s, true);
  Tensor fill = blocks ? Tensor(u8, {}) : out_of_range_value(x.dtype);
  bool clip = a.out_of_range == OutOfRange::clip;
  int64_t count = s.count(), window = s.window_count(), bytes = window * s.element;
  bool contiguous = window == 0 || copy.chunks == 1;
  return make_step("gather", 0, [=](const StepArgs& args) {
    const auto* from = args.in<std::byte>(0);
    auto* to = args.out<std::byte>();
    for_ranges(args, count, 1, static_cast<double>(count) * (20 + static_cast<double>(bytes) * 0.05),
               [&](int64_t begin, int64_t end, int64_t) {
                 for (int64_t i = begin; i < end; ++i) {
                   auto start = s.start(args.in<std::byte>(1), i, clip);
                   std::byte* target = to + start.other * s.element;
                   if (start.in_range) kernels::copy_strided(copy, from + start.x * s.element, target, 0, copy.chunks);
                   else if (contiguous && window == 1) std::memcpy(target, fill.data(), static_cast<size_t>(s.element));
                   else
                     for_each_pair(s.window, s.window_other_strides, s.window_other_strides, [&](int64_t at, int64_t) {
                       std::memcpy(target + at * s.element, fill.data(), static_cast<size_t>(s.element));
                     });
                 }
               });
  });
}

std::string when_scatter(const Question& q) {
  if (auto why = index_types(q); !why.empty()) return why;
  const auto& a = q.node.attrs.as<ScatterAttrs>();
  return a.kind == ScatterKind::custom || scalar_combine(a.kind, q.operands[0].dtype)
             ? ""
             : text_of("no kernel combines ", q.operands[0].dtype);
}
Prepared lower_scatter(const LoweringContext& c) {
  const auto& a = c.attrs<ScatterAttrs>();
  size_t n = c.results.size();  // operands: n arrays, the indices, n updates
  const View &x = c.operands[0], &indices = c.operands[n], &updates = c.operands[n + 1];
  Shape sizes = x.shape;
  {
    size_t next = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      auto is_in = [&](const Axes& axes) { return std::find(axes.begin(), axes.end(), int64_t(d)) != axes.end(); };
      sizes[d] = is_in(a.inserted_window_dims) || is_in(a.input_batching_dims)
                     ? 1
                     : updates.shape[size_t(a.update_window_dims[next++])];
    }
  }
  View dense = x;
  dense.strides = dense_strides(x.shape);
  Slices s(dense, indices, updates, a.update_window_dims, a.inserted_window_dims, a.input_batching_dims,
           a.scatter_indices_batching_dims, a.scatter_dims_to_operand_dims, a.index_vector_dim, sizes);
  // The arrays have the same shape: the index of an element in one is its index in the others.
  struct Array {
    std::shared_ptr<const Step> initial;
    int64_t element;
  };
  std::vector<Array> arrays;
  for (size_t i = 0; i < n; ++i) {
    const View& array = c.operands[i];
    arrays.push_back(
        {copy_step(array, {array.dtype, array.shape, dense.strides}), static_cast<int64_t>(array.element_bytes())});
  }
  auto prepare = [=](const StepArgs& args) {
    for (size_t i = 0; i < n; ++i)
      if (args.in(i) != args.out(i))
        arrays[i].initial->run({args.operands + i, args.results + i, args.scratch, args.width, args.control});
  };
  int64_t count = s.count();
  // Updates of the same element apply in order, so one thread does all of them. (To split x over threads the indices
  // would have to be sorted first.)
  auto each_update = [=](const StepArgs& args, auto f) {
    for (int64_t i = 0; i < count; ++i) {
      auto start = s.start(args.in<std::byte>(n), i, false);
      if (start.in_range)
        for_each_pair(s.window, s.window_x_strides, s.window_other_strides,
                      [&](int64_t at, int64_t update) { f(start.x + at, start.other + update); });
    }
  };
  if (a.kind == ScatterKind::custom) {
    auto fold = std::make_shared<Fold>(c, *a.body, n);
    for (size_t i = 0; i < n; ++i)
      if (c.operands[n + 1 + i].strides != updates.strides)
        fail(ErrorCode::unsupported, "updates of different strides");
    return make_step("scatter by a sub-graph", fold->scratch_bytes(), [=](const StepArgs& args) {
      prepare(args);
      auto combine = fold->ready(args.scratch, args.control);
      each_update(args, [&](int64_t at, int64_t update) {
        combine([&](size_t i) { return args.out<std::byte>(i) + at * arrays[i].element; },
                [&](size_t i) { return args.in<std::byte>(n + 1 + i) + update * arrays[i].element; });
      });
    });
  }
  kernels::AddRun add = a.kind == ScatterKind::add ? kernels::add_run(x.dtype) : nullptr;
  if (s.is_run() && s.window_count() > 1 && (add || a.kind == ScatterKind::update)) {
    int64_t window = s.window_count();
    return make_step("scatter of runs", 0, [=](const StepArgs& args) {
      prepare(args);
      for (int64_t i = 0; i < count; ++i) {
        auto start = s.start(args.in<std::byte>(n), i, false);
        if (!start.in_range) continue;
        std::byte* to = args.out<std::byte>() + start.x * s.element;
        const std::byte* from = args.in<std::byte>(n + 1) + start.other * s.element;
        if (add) add(to, from, window);
        else std::memcpy(to, from, static_cast<size_t>(window * s.element));
      }
    });
  }
  ScalarCombine combine = scalar_combine(a.kind, x.dtype);
  return make_step("scatter", 0, [=](const StepArgs& args) {
    prepare(args);
    each_update(args, [&](int64_t at, int64_t update) {
      combine(args.out<std::byte>() + at * s.element, args.in<std::byte>(n + 1) + update * s.element);
    });
  });
}

std::string when_scatter_add_rows(const Question& q) {
  if (auto why = index_types(q); !why.empty()) return why;
  return kernels::add_run(q.operands[0].dtype) ? "" : text_of("sums of ", q.operands[0].dtype, " belong in f32");
}
Prepared lower_scatter_add_rows(const LoweringContext& c) {
  const View &updates = c.operands[0], &indices = c.operands[1], &y = c.results[0];
  auto axis = size_t(valid_axis(c.attrs<ScatterAddRowsAttrs>().axis, y.shape.size()));
  int64_t outer = 1, inner = 1, size = y.shape[axis], count = indices.count();
  for (size_t d = 0; d < y.shape.size(); ++d)
    if (d != axis) (d < axis ? outer : inner) *= y.shape[d];
  const int64_t row_bytes = inner * static_cast<int64_t>(y.element_bytes());
  const DType index_dtype = indices.dtype;
  kernels::AddRun add = kernels::add_run(y.dtype);
  double work = static_cast<double>((outer * size + updates.count() / std::max<int64_t>(inner, 1)) * row_bytes) * 0.1;
  return make_step("scatter_add_rows", 0, [=](const StepArgs& args) {
    // Each thread owns rows of the result and searches the indices for updates to them, so updates of a row apply in
    // order.
    for_ranges(args, outer * size, 1, work, [&](int64_t begin, int64_t end, int64_t) {
      auto* to = args.out<std::byte>();
      std::memset(to + begin * row_bytes, 0, static_cast<size_t>((end - begin) * row_bytes));
      for (int64_t o = begin / size; o * size < end; ++o)
        for (int64_t i = 0; i < count; ++i) {
          const int64_t index = kernels::read_index(args.in(1), index_dtype, i);
          if (index < 0 || index >= size) continue;
          const int64_t row = o * size + index;
          if (row < begin || row >= end) continue;
          add(to + row * row_bytes, args.in<std::byte>(0) + (o * count + i) * row_bytes, inner);
        }
    });
  });
}

namespace {

/// The start of a dynamic slice, which is one index vector or a scalar for each dim; it is clamped so that the slice
/// fits.
struct Starts {
  size_t first;  // the operand that holds the start, or its first scalar
  bool vector;   // whether one operand holds the whole start
  DType dtype;
  Shape limits;
  std::vector<int64_t> strides;

  Starts(const LoweringContext& c, size_t first_operand, const View& x, const Shape& sizes)
      : first(first_operand), vector(c.operands.size() == first_operand + 1 && c.operands[first_operand].rank() == 1),
        dtype(c.operands.size() > first_operand ? c.operands[first_operand].dtype : i64),
        strides(dense_strides(x.shape)) {
    for (size_t d = 0; d < sizes.size(); ++d) limits.push_back(x.shape[d] - sizes[d]);
  }
  /// The offset of the start, in elements of a dense x.
  int64_t offset(const StepArgs& args) const {
    int64_t at = 0;
    for (size_t d = 0; d < limits.size(); ++d) {
      const std::byte* from = vector ? args.in<std::byte>(first) + d * byte_size(dtype) : args.in<std::byte>(first + d);
      at += std::clamp<int64_t>(read_index(from, dtype), 0, limits[d]) * strides[d];
    }
    return at;
  }
};

}  // namespace

std::string when_dynamic(const Question& q) {
  if (!is_block(q.operands[0].dtype)) return index_types(q);
  return q.operands[0].rank() > kMaxRank ? text_of("rank ", q.operands[0].rank(), " is above ", kMaxRank) : "";
}
Prepared lower_dynamic_slice(const LoweringContext& c) {
  const View &x = c.operands[0], &y = c.results[0];
  Starts starts(c, 1, x, y.shape);
  std::shared_ptr<const Step> copy(copy_step({x.dtype, y.shape, starts.strides}, y));
  auto element = static_cast<int64_t>(x.element_bytes());
  return make_step("dynamic_slice", 0, [=](const StepArgs& args) {
    void* from =
        args.in<std::byte>(0) ? const_cast<std::byte*>(args.in<std::byte>(0)) + starts.offset(args) * element : nullptr;
    StepArgs moved{&from, args.results, args.scratch, args.width, args.control};
    copy->run(moved);
  });
}
bool update_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t>) { return operand == 1; }

Prepared lower_dynamic_update_slice(const LoweringContext& c) {
  const View x = blocks_as_bytes(c.operands[0]), update = blocks_as_bytes(c.operands[1]),
             y = blocks_as_bytes(c.results[0]);
  Starts starts(c, 2, x, update.shape);
  std::shared_ptr<const Step> whole(copy_step(x, y));
  std::shared_ptr<const Step> write(copy_step(update, {x.dtype, update.shape, starts.strides}));
  auto element = static_cast<int64_t>(x.element_bytes());
  return make_step("dynamic_update_slice", 0, [=](const StepArgs& args) {
    if (args.in(0) != args.out()) whole->run(args);
    void* from = args.operands[1];
    void* to = args.out<std::byte>() + starts.offset(args) * element;
    StepArgs moved{&from, &to, args.scratch, args.width, args.control};
    write->run(moved);
  });
}

}  // namespace rlx::cpu
