// General products: two operands of any strides, contracted over any axes. Floats are multiplied by the kernels of
// kernels/gemm. An operand is read in its own memory if its free axes, and its contracted axes, each merge into one
// axis with one stride; otherwise it is first copied into that order. Integers, bools and complex numbers are always
// copied, to [batch, free, contracted].
#include <complex>

#include "backends/cpu/lowerings.h"
#include "backends/cpu/product.h"
#include "base/rounded_up.h"
#include "kernels/gemm/dot.h"
#include "kernels/index/move.h"
#include "kernels/integer_type.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

/// Several axes that are merged into one: its extent and its stride.
struct Merged {
  int64_t extent = 1, stride = 1;
};
int64_t extent_of(const View& v, const Axes& axes) {
  int64_t n = 1;
  for (int64_t axis : axes) n *= v.shape[size_t(axis)];
  return n;
}
/// Merges axes, of which the last is the innermost. Empty if they have no common stride in this order.
std::optional<Merged> merged(const View& v, const Axes& axes) {
  if (v.count() == 0) return Merged{extent_of(v, axes), 1};  // no element, so no stride is wrong
  Merged m;
  bool first = true;
  for (size_t i = axes.size(); i-- > 0;) {
    auto d = size_t(axes[i]);
    if (v.shape[d] == 1) continue;
    if (first) m.stride = v.strides[d], first = false;
    else if (v.strides[d] != m.stride * m.extent) return {};
    m.extent *= v.shape[d];
  }
  return m;
}
Axes in_order(const Axes& batch, const Axes& second, const Axes& third) {
  Axes all = batch;
  all.insert(all.end(), second.begin(), second.end());
  all.insert(all.end(), third.begin(), third.end());
  return all;
}

/// sum over p of lhs[i, p] rhs[j, p], with integers wrapping in the width of the sum.
template <class T, class Sum>
void loop_product(const void* lhs_data, const void* rhs_data, void* y_data, int64_t m, int64_t n, int64_t k) {
  const auto* lhs = static_cast<const T*>(lhs_data);
  const auto* rhs = static_cast<const T*>(rhs_data);
  auto* y = static_cast<Sum*>(y_data);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      Sum sum{};
      for (int64_t p = 0; p < k; ++p) {
        T a = lhs[i * k + p], b = rhs[j * k + p];
        if constexpr (std::is_same_v<T, bool>) sum = sum || (a && b);
        else if constexpr (std::is_integral_v<Sum>)
          sum = static_cast<Sum>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(static_cast<Sum>(a)) *
                                                                  static_cast<uint64_t>(static_cast<Sum>(b)));
        else sum += static_cast<Sum>(a) * static_cast<Sum>(b);
      }
      y[i * n + j] = sum;
    }
}
using LoopProduct = void (*)(const void*, const void*, void*, int64_t, int64_t, int64_t);

template <class T>
LoopProduct loop_product_into(DType sum) {
  if (sum == dtype_of<T>()) return loop_product<T, T>;
  if constexpr (std::is_same_v<T, bool>) return nullptr;
  else if constexpr (std::is_integral_v<T>) {
    if (kind_of(sum) == Kind::signed_int)
      return sum == i64   ? loop_product<T, int64_t>
             : sum == i32 ? loop_product<T, int32_t>
             : sum == i16 ? loop_product<T, int16_t>
                          : nullptr;
    return sum == u64   ? loop_product<T, uint64_t>
           : sum == u32 ? loop_product<T, uint32_t>
           : sum == u16 ? loop_product<T, uint16_t>
                        : nullptr;
  } else {
    return sum == c128 ? loop_product<T, std::complex<double>> : nullptr;
  }
}
LoopProduct loop_product_for(DType t, DType sum) {
  if (is_integer(t)) return kernels::with_integer_type(t, [&]<class T>() { return loop_product_into<T>(sum); });
  switch (t) {
    case DType::boolean: return loop_product_into<bool>(sum);
    case DType::c64: return loop_product_into<std::complex<float>>(sum);
    case DType::c128: return loop_product_into<std::complex<double>>(sum);
    default: return nullptr;
  }
}

/// A copy of an operand into scratch: dense, with its dims in another order.
struct Gathered {
  kernels::CopyPlan plan{};
  size_t bytes = 0;
  Gathered(const View& v, const Axes& order) {
    auto size = static_cast<int64_t>(v.element_bytes());
    Shape shape = pick(v.shape, order);
    std::vector<int64_t> from = pick(v.strides, order), to = dense_strides(shape);
    for (auto* list : {&from, &to})
      for (int64_t& stride : *list) stride *= size;
    if (order.size() > static_cast<size_t>(kernels::kMaxCopyRank))
      fail(ErrorCode::unsupported, "a product of rank ", order.size());
    plan = kernels::plan_copy(size, static_cast<int>(order.size()), shape.data(), from.data(), to.data());
    bytes = aligned(static_cast<size_t>(v.count() * size));
  }
  void run(const StepArgs& args, const void* from, std::byte* to) const {
    for_ranges(args, plan.chunks, 1, static_cast<double>(bytes) * 0.2,
               [&](int64_t begin, int64_t end, int64_t) { kernels::copy_strided(plan, from, to, begin, end); });
  }
};

View regrouped(const View& v, const Axes& order) {
  View r{v.dtype, pick(v.shape, order), {}};
  r.strides = dense_strides(r.shape);
  return r;
}

/// An operand of a float product. It is read in its own memory if its free axes and its contracted axes each merge;
/// otherwise it is copied into scratch. If its last free axis is contiguous, that stays the innermost axis of the copy.
struct Operand {
  View view;
  Axes batch, contract;  ///< axes of the view
  std::optional<Gathered> copy;

  Operand(const View& v, const Axes& batch_axes, const Axes& free, const Axes& contract_axes)
      : view(v), batch(batch_axes), contract(contract_axes) {
    if (merged(v, free) && merged(v, contract)) return;
    const bool free_last = !free.empty() && v.strides[size_t(free.back())] == 1;
    const Axes order = free_last ? in_order(batch, contract, free) : in_order(batch, free, contract);
    copy.emplace(v, order);
    view = regrouped(v, order);
    contract = axes_from(int64_t(batch.size() + (free_last ? 0 : free.size())), contract.size());
    batch = axes_from(0, batch.size());
  }
  size_t bytes() const { return copy ? copy->bytes : 0; }
  const void* ready(const StepArgs& args, const void* from, std::byte* scratch) const {
    if (!copy) return from;
    copy->run(args, from, scratch);
    return scratch;
  }
};

/// The product of two operands. Empty if the free or the contracted axes of one of them do not merge. `axes` are axes
/// of these views.
std::optional<kernels::BatchedGemmSpec> gemm_spec(const LoweringContext& c, const View& lhs, const View& rhs,
                                                  const View& y, const DotAxes& axes) {
  auto rows = merged(lhs, axes.lhs_free), columns = merged(rhs, axes.rhs_free);
  auto lhs_inner = merged(lhs, axes.lhs_contract), rhs_inner = merged(rhs, axes.rhs_contract);
  if (!rows || !columns || !lhs_inner || !rhs_inner || axes.lhs_batch.size() > kernels::BatchedGemmSpec::kMaxBatchRank)
    return {};
  kernels::BatchedGemmSpec s;
  s.m = rows->extent, s.n = columns->extent, s.k = lhs_inner->extent;
  s.lhs_m_stride = rows->stride, s.lhs_k_stride = lhs_inner->stride;
  s.rhs_k_stride = rhs_inner->stride, s.rhs_n_stride = columns->stride;
  s.y_m_stride = s.n, s.y_n_stride = 1;
  s.batch_rank = static_cast<int>(axes.lhs_batch.size());
  for (size_t b = 0; b < axes.lhs_batch.size(); ++b) {
    s.batch_dims[b] = y.shape[b];
    s.lhs_batch_strides[b] = lhs.strides[size_t(axes.lhs_batch[b])];
    s.rhs_batch_strides[b] = rhs.strides[size_t(axes.rhs_batch[b])];
    s.y_batch_strides[b] = y.strides[b];
  }
  s.lhs_dtype = lhs.dtype, s.rhs_dtype = rhs.dtype, s.y_dtype = y.dtype;
  s.threads = c.threads, s.policy = c.policy;
  return s;
}

/// Whether the product is the dot product of two dense f32 vectors.
bool is_single_sum(const View& lhs, const View& rhs, const View& y) {
  return lhs.dtype == f32 && rhs.dtype == f32 && y.dtype == f32 && y.count() == 1 && lhs.rank() == 1 &&
         rhs.rank() == 1 && is_dense(lhs) && is_dense(rhs);
}
Prepared dot_step(int64_t count, int threads) {
  return make_step("dot", static_cast<size_t>(threads) * sizeof(double), [=](const StepArgs& args) {
    auto* sums = new (args.scratch) double[static_cast<size_t>(threads)]();
    for_ranges(args, count, 4096, static_cast<double>(count) * 0.1, [&](int64_t begin, int64_t end, int64_t slot) {
      sums[slot] = kernels::dot(args.in<float>(0) + begin, args.in<float>(1) + begin, end - begin);
    });
    double sum = 0;
    for (int t = 0; t < threads; ++t) sum += sums[t];
    *args.out<float>() = static_cast<float>(sum);
  });
}

}  // namespace

/// Any strides will do, except those of a single number that is broadcast to all elements (a cotangent of ones, say):
/// it has no contiguous dim, and kernels read such operands so slowly that writing the elements out first is faster.
bool dot_strided(const Node&, size_t, const Shape& shape, std::span<const int64_t> strides) {
  bool is_scalar = true, is_one = true;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) is_one = false, is_scalar = is_scalar && strides[d] == 0;
  return is_one || !is_scalar;
}

std::string when_dot(const Question& q) {
  if (auto why = when::is_byte_sized(q); !why.empty()) return why;
  DType t = q.operands[0].dtype, sum = q.node.types[0].dtype;
  if (is_float(t)) return when::is_float(q);
  return loop_product_for(t, sum) ? "" : text_of("no kernel multiplies ", t, " into ", sum);
}

Prepared lower_dot(const LoweringContext& c) {
  const View &lhs = c.operands[0], &rhs = c.operands[1], &y = c.results[0];
  DotAxes axes(c.attrs<DotAttrs>(), lhs.shape.size(), rhs.shape.size());
  if (is_single_sum(lhs, rhs, y)) return dot_step(lhs.count(), c.threads);
  if (is_float(lhs.dtype)) {
    if (axes.lhs_batch.empty())
      if (auto rows = merged(lhs, axes.lhs_free), inner = merged(lhs, axes.lhs_contract);
          rows && inner && (inner->stride == 1 || inner->extent == 1))
        if (auto columns = merged(rhs, axes.rhs_free), along = merged(rhs, axes.rhs_contract); columns && along) {
          Product product{rows->extent, columns->extent, inner->extent, rows->stride, along->stride, columns->stride};
          if (auto step = packed_product(c, product, {})) return step;
        }
    const Operand left(lhs, axes.lhs_batch, axes.lhs_free, axes.lhs_contract);
    const Operand right(rhs, axes.rhs_batch, axes.rhs_free, axes.rhs_contract);
    const DotAttrs regular{left.batch, right.batch, left.contract, right.contract};
    auto spec = gemm_spec(c, left.view, right.view, y, DotAxes(regular, lhs.shape.size(), rhs.shape.size()));
    if (!spec)
      fail(ErrorCode::unsupported, "a product with ", axes.lhs_batch.size(), " batch dims; the CPU takes ",
           kernels::BatchedGemmSpec::kMaxBatchRank);
    auto gemm = kernels::prepare_batched_gemm(*spec);
    const auto run = [=](const StepArgs& args) {
      std::byte *for_right = args.scratch + left.bytes(), *own = for_right + right.bytes();
      gemm.run({left.ready(args, args.in(0), args.scratch), right.ready(args, args.in(1), for_right), args.out()}, own,
               thread_pool());
    };
    return make_step("gemm", left.bytes() + right.bytes() + gemm.scratch_bytes(), run,
                     [gemm] { return gemm.strategy(); });
  }
  // Copy both operands to [batch, free, contracted].
  Gathered left(lhs, in_order(axes.lhs_batch, axes.lhs_free, axes.lhs_contract)),
      right(rhs, in_order(axes.rhs_batch, axes.rhs_free, axes.rhs_contract));
  int64_t batches = extent_of(lhs, axes.lhs_batch), m = extent_of(lhs, axes.lhs_free),
          n = extent_of(rhs, axes.rhs_free), k = extent_of(lhs, axes.lhs_contract);
  LoopProduct product = loop_product_for(lhs.dtype, y.dtype);
  auto size = static_cast<int64_t>(lhs.element_bytes()), y_size = static_cast<int64_t>(y.element_bytes());
  return make_step("product", left.bytes + right.bytes, [=](const StepArgs& args) {
    left.run(args, args.in(0), args.scratch);
    right.run(args, args.in(1), args.scratch + left.bytes);
    const std::byte *l = args.scratch, *r = args.scratch + left.bytes;
    for_ranges(
        args, batches * m, 1, static_cast<double>(batches * m * n * k), [&](int64_t begin, int64_t end, int64_t) {
          for (int64_t row = begin; row < end; ++row)
            product(l + row * k * size, r + row / m * n * k * size, args.out<std::byte>() + row * n * y_size, 1, n, k);
        });
  });
}

}  // namespace rlx::cpu
