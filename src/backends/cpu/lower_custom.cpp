// Reductions, windows and sorts whose combiner or comparator is a sub-graph. The sub-graph's plan runs on scalars,
// one element after another, which is slow but works for every dtype. Ops with a named combiner have kernels.
#include "backends/cpu/body_call.h"
#include "backends/cpu/lowerings.h"
#include "ops/core/combine.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

/// The body of a named reduction, for dtypes without a kernel.
Graph named_body(Reduction kind, DType dtype) {
  Type scalar{dtype, {}};
  return trace(std::array{scalar, scalar},
               [&](Values v) { return kind == Reduction::prod ? v[0] * v[1] : v[0] + v[1]; });
}

}  // namespace

Prepared lower_reduce_custom(const LoweringContext& c) {
  const auto& a = c.attrs<ReduceAttrs>();
  size_t n = c.results.size();
  auto fold = std::make_shared<Fold>(c, *a.body, n);
  Shape shape = c.operands[0].shape;
  Axes kept = other_axes(shape.size(), valid_axes(a.axes, shape.size()));
  std::vector<int64_t> result_strides(shape.size(), 0), dense = dense_strides(c.results[0].shape);
  for (size_t k = 0; k < kept.size(); ++k) result_strides[size_t(kept[k])] = dense[k];
  int64_t count = c.operands[0].count(), results = c.results[0].count();
  size_t index_bytes = aligned(shape.size() * sizeof(int64_t));
  return make_step("reduce by a sub-graph", fold->scratch_bytes() + index_bytes, [=](const StepArgs& args) {
    auto combine = fold->ready(args.scratch + index_bytes, args.control);
    for (size_t i = 0; i < n; ++i)
      for (int64_t result_index = 0; result_index < results; ++result_index)
        std::memcpy(args.out<std::byte>(i) + size_t(result_index) * fold->size(i), args.in(n + i), fold->size(i));
    auto* at = reinterpret_cast<int64_t*>(args.scratch);
    std::fill_n(at, shape.size(), int64_t{0});
    int64_t result_index = 0;
    for (int64_t e = 0; e < count; ++e) {
      combine([&](size_t i) { return args.out<std::byte>(i) + size_t(result_index) * fold->size(i); },
              [&](size_t i) { return args.in<std::byte>(i) + size_t(e) * fold->size(i); });
      for (size_t d = shape.size(); d-- > 0;) {
        result_index += result_strides[d];
        if (++at[d] < shape[d]) break;
        result_index -= result_strides[d] * shape[d];
        at[d] = 0;
      }
    }
  });
}

Prepared lower_reduce_window_custom(const LoweringContext& c) {
  const auto& a = c.attrs<ReduceWindowAttrs>();
  size_t n = c.results.size();
  bool named = a.kind != Reduction::custom;
  auto fold = std::make_shared<Fold>(c, named ? named_body(a.kind, c.operands[0].dtype) : *a.body, n);
  Tensor start = named ? initial_value(a.kind, c.operands[0].dtype) : Tensor();
  Shape in = c.operands[0].shape, out = c.results[0].shape, window = shape_of(a.window_dims),
        low = shape_of(a.padding_low);
  auto given = [&](const Axes& list, int64_t otherwise) { return list.empty() ? Axes(in.size(), otherwise) : list; };
  Axes strides = given(a.strides, 1), base = given(a.base_dilation, 1), dilation = given(a.window_dilation, 1),
       before = given(low, 0);
  auto strides_in = dense_strides(in);
  int64_t results = c.results[0].count();
  bool any_window = std::find(window.begin(), window.end(), 0) == window.end();
  return make_step("reduce_window by a sub-graph", fold->scratch_bytes(), [=](const StepArgs& args) {
    auto combine = fold->ready(args.scratch, args.control);
    for (int64_t result_index = 0; result_index < results; ++result_index) {
      for (size_t i = 0; i < n; ++i)
        std::memcpy(args.out<std::byte>(i) + size_t(result_index) * fold->size(i),
                    named ? start.data() : args.in<std::byte>(n + i), fold->size(i));
      int64_t taps = any_window ? 1 : 0;
      for (int64_t w : window) taps *= w;
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t at = 0, rest_result = result_index, rest_tap = tap;
        bool inside = true;
        for (size_t d = in.size(); d-- > 0;) {
          int64_t o = rest_result % out[d], t = rest_tap % window[d];
          rest_result /= out[d], rest_tap /= window[d];
          int64_t position = o * strides[d] + t * dilation[d] - before[d];
          if (position < 0 || position % base[d] != 0 || position / base[d] >= in[d]) inside = false;
          else at += position / base[d] * strides_in[d];
        }
        // Padding holds the initial value and is combined like an element.
        combine([&](size_t i) { return args.out<std::byte>(i) + size_t(result_index) * fold->size(i); },
                [&](size_t i) {
                  if (inside) return args.in<std::byte>(i) + size_t(at) * fold->size(i);
                  return named ? start.data() : args.in<std::byte>(n + i);
                });
      }
    }
  });
}

Prepared lower_sort_custom(const LoweringContext& c) {
  const auto& a = c.attrs<SortAttrs>();
  auto compare = std::make_shared<BodyCall>(c, *a.comparator);
  Shape shape = c.operands[0].shape;
  auto axis = size_t(valid_axis(a.axis, shape.size()));
  int64_t extent = shape[axis], inner = 1, vectors = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d > axis) inner *= shape[d];
    if (d != axis) vectors *= shape[d];
  }
  size_t n = c.operands.size();
  std::vector<size_t> sizes;
  for (const View& v : c.operands) sizes.push_back(v.element_bytes());
  size_t order_bytes = aligned(size_t(extent) * sizeof(int64_t));
  return make_step("sort by a sub-graph", compare->scratch_bytes() + 2 * order_bytes, [=](const StepArgs& args) {
    auto body = compare->ready(args.scratch + 2 * order_bytes, args.control);
    auto* order = reinterpret_cast<int64_t*>(args.scratch);
    auto* other = reinterpret_cast<int64_t*>(args.scratch + order_bytes);
    for (int64_t vector = 0; vector < vectors; ++vector) {
      int64_t base = vector / inner * inner * extent + vector % inner;
      auto before = [&](int64_t x, int64_t y) {
        for (size_t i = 0; i < n; ++i) {
          body.inputs[2 * i] = const_cast<std::byte*>(args.in<std::byte>(i) + size_t(base + x * inner) * sizes[i]);
          body.inputs[2 * i + 1] = const_cast<std::byte*>(args.in<std::byte>(i) + size_t(base + y * inner) * sizes[i]);
        }
        body();
        return *body.result(0) != std::byte{0};
      };
      for (int64_t i = 0; i < extent; ++i) order[i] = i;
      // Bottom-up merge sort: stable, and without memory of its own (std::stable_sort allocates).
      for (int64_t width = 1; width < extent; width *= 2) {
        for (int64_t first = 0; first < extent; first += 2 * width) {
          int64_t middle = std::min(first + width, extent), last = std::min(first + 2 * width, extent);
          for (int64_t left = first, right = middle, to = first; to < last; ++to)
            other[to] =
                left < middle && (right >= last || !before(order[right], order[left])) ? order[left++] : order[right++];
        }
        std::swap(order, other);
      }
      for (size_t i = 0; i < n; ++i)
        for (int64_t r = 0; r < extent; ++r)
          std::memcpy(args.out<std::byte>(i) + size_t(base + r * inner) * sizes[i],
                      args.in<std::byte>(i) + size_t(base + order[r] * inner) * sizes[i], sizes[i]);
    }
  });
}

}  // namespace rlx::cpu
