// See the header.
#include "kernels/gemm/grouped.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/cost_model.h"
#include "kernels/gemm/backends.h"
#include "kernels/index/index.h"
#include "kernels/threads/thread_pool.h"
#include "rlx/element.h"

namespace rlx::kernels {
namespace {

constexpr double kCopy_ns = 0.05;  // of a byte, read or written, on one thread

/// Calls f(begin, end) for ranges of [0, count), on several threads if `bytes` are many.
template <class F>
void for_row_ranges(ThreadPool& pool, int threads, int64_t count, int64_t bytes, F f) {
  const double work_ns = static_cast<double>(bytes) * kCopy_ns;
  const int64_t tasks = work_ns < cost_model().split_ns ? 1 : std::min<int64_t>(threads, count);
  if (tasks <= 1) return f(int64_t{0}, count);
  pool.parallel_for(threads, tasks, [&](int64_t task) { f(count * task / tasks, count * (task + 1) / tasks); });
}

/// Copies rows `rows[0..count)` of `from`, which are `stride` bytes apart, to dense rows of `bytes` bytes.
void gather_rows(ThreadPool& pool, int threads, const void* from, int64_t stride, const int64_t* rows, int64_t count,
                 int64_t bytes, std::byte* to) noexcept {
  if (bytes == 0) return;
  for_row_ranges(pool, threads, count, 2 * count * bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(to + i * bytes, static_cast<const std::byte*>(from) + rows[i] * stride, static_cast<size_t>(bytes));
  });
}

}  // namespace

size_t GroupedRows::bytes(int64_t rows, int64_t groups) {
  return aligned(sizeof(int64_t) * static_cast<size_t>(groups + 1 + rows));
}

GroupedRows::GroupedRows(const void* index, DType index_dtype, int64_t count, int64_t groups, void* memory) noexcept
    : starts(static_cast<int64_t*>(memory)), rows(starts + groups + 1) {
  std::fill_n(starts, groups + 1, 0);
  const auto group_of = [&](int64_t row) {
    const int64_t group = read_index(index, index_dtype, row);
    return group < groups ? group : -1;
  };
  for (int64_t row = 0; row < count; ++row)
    if (const int64_t group = group_of(row); group >= 0) ++starts[group + 1];
  for (int64_t group = 0; group < groups; ++group) starts[group + 1] += starts[group];
  // Each start moves to its group's end, which is the start of the next group.
  for (int64_t row = 0; row < count; ++row)
    if (const int64_t group = group_of(row); group >= 0) rows[starts[group]++] = row;
  std::copy_backward(starts, starts + groups, starts + groups + 1);
  starts[0] = 0;
  for (int64_t i = 1; i < starts[groups]; ++i) ascending = ascending && rows[i] == rows[i - 1] + 1;
}

std::vector<int64_t> GroupedPlans::planned_rows(int64_t most) {
  std::vector<int64_t> all;
  for (int64_t rows = 1; rows < most;) {
    all.push_back(rows);
    rows += rows < 8 ? 1 : std::max<int64_t>(8, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows))) / 8);
  }
  if (most > 0) all.push_back(most);
  return all;
}

size_t GroupedPlans::plan_of(int64_t rows) const {
  return static_cast<size_t>(std::lower_bound(rows_.begin(), rows_.end(), rows) - rows_.begin());
}

template <class SpecOf>
void GroupedPlans::plan(SpecOf spec_of) {
  rows_ = planned_rows(s_.m);
  size_t product_bytes = 0;
  for (int64_t rows : rows_) {
    BatchedGemmSpec spec = spec_of(rows);
    spec.lhs_dtype = spec.rhs_dtype = spec.y_dtype = s_.dtype;
    spec.threads = s_.threads, spec.policy = s_.policy;
    plans_.emplace_back(plan_batched_gemm(spec));
    product_bytes = std::max(product_bytes, plans_.back().scratch_bytes());
  }
  order_bytes_ = GroupedRows::bytes(s_.m, s_.groups);
  scratch_bytes_ = order_bytes_ + lhs_bytes_ + other_bytes_ + product_bytes;
}

GroupedGemm::GroupedGemm(const GroupedGemmSpec& spec) : GroupedPlans(spec) {
  lhs_bytes_ = static_cast<size_t>(aligned(row_bytes(s_.k) * s_.m));
  other_bytes_ = static_cast<size_t>(aligned(row_bytes(s_.n) * s_.m));
  plan([&](int64_t rows) {
    BatchedGemmSpec p;
    p.m = rows, p.n = s_.n, p.k = s_.k;
    p.lhs_m_stride = s_.k, p.lhs_k_stride = 1;
    p.rhs_k_stride = s_.w_k_stride, p.rhs_n_stride = s_.w_n_stride;
    p.y_m_stride = s_.n, p.y_n_stride = 1;
    return p;
  });
}

void GroupedGemm::run(const GroupedGemmOperands& o, void* scratch, ThreadPool& pool) const noexcept {
  if (s_.m == 0 || s_.n == 0) return;
  const GroupedRows order = sorted(o.index, scratch);
  auto* lhs = static_cast<std::byte*>(scratch) + order_bytes_;
  std::byte *y = lhs + lhs_bytes_, *own = y + other_bytes_;
  const int64_t lhs_bytes = row_bytes(s_.k), y_bytes = row_bytes(s_.n);
  auto* to = static_cast<std::byte*>(o.y);
  for (int64_t group = 0; group < s_.groups; ++group) {
    const int64_t begin = order.starts[group], count = order.starts[group + 1] - begin;
    if (count == 0) continue;
    const size_t plan = plan_of(count);
    const int64_t first = order.rows[begin], last = order.rows[begin + count - 1], planned = rows_[plan];
    const void* w = static_cast<const std::byte*>(o.rhs) + group * row_bytes(s_.w_group_stride);
    // Rows of later groups, and of none, may be overwritten: they are computed, or filled, after this.
    const bool in_place = s_.lhs_stride == s_.k && last - first == count - 1 &&
                          (planned == count || (order.ascending && first + planned <= s_.m));
    if (in_place) {
      plans_[plan].run({static_cast<const std::byte*>(o.lhs) + first * lhs_bytes, w, to + first * y_bytes}, own, pool);
      continue;
    }
    const int64_t* rows = order.rows + begin;
    gather_rows(pool, s_.threads, o.lhs, row_bytes(s_.lhs_stride), rows, count, lhs_bytes, lhs);
    std::memset(lhs + count * lhs_bytes, 0, static_cast<size_t>((planned - count) * lhs_bytes));
    plans_[plan].run({lhs, w, y}, own, pool);
    for_row_ranges(pool, s_.threads, count, 2 * count * y_bytes, [&](int64_t from, int64_t end) {
      for (int64_t i = from; i < end; ++i)
        std::memcpy(to + rows[i] * y_bytes, y + i * y_bytes, static_cast<size_t>(y_bytes));
    });
  }
  if (order.starts[s_.groups] == s_.m) return;
  const auto element = static_cast<int64_t>(byte_size(s_.dtype));
  const uint64_t nan = encode_float(s_.dtype, NAN);
  for (int64_t row = 0; row < s_.m; ++row) {
    const int64_t group = read_index(o.index, s_.index_dtype, row);
    if (group >= 0 && group < s_.groups) continue;
    for (int64_t j = 0; j < s_.n; ++j)
      std::memcpy(to + row * y_bytes + j * element, &nan, static_cast<size_t>(element));
  }
}

SegmentGemm::SegmentGemm(const GroupedGemmSpec& spec) : GroupedPlans(spec) {
  lhs_bytes_ = static_cast<size_t>(aligned(row_bytes(s_.k) * s_.m));
  other_bytes_ = static_cast<size_t>(aligned(row_bytes(s_.n) * s_.m));
  plan([&](int64_t rows) {
    BatchedGemmSpec p;
    p.m = s_.k, p.n = s_.n, p.k = rows;
    p.lhs_m_stride = 1, p.lhs_k_stride = s_.k;
    p.rhs_k_stride = s_.n, p.rhs_n_stride = 1;
    p.y_m_stride = s_.n, p.y_n_stride = 1;
    return p;
  });
}

void SegmentGemm::run(const GroupedGemmOperands& o, void* scratch, ThreadPool& pool) const noexcept {
  if (s_.k == 0 || s_.n == 0) return;
  const GroupedRows order = sorted(o.index, scratch);
  auto* lhs = static_cast<std::byte*>(scratch) + order_bytes_;
  std::byte *rhs = lhs + lhs_bytes_, *own = rhs + other_bytes_;
  const int64_t lhs_bytes = row_bytes(s_.k), rhs_bytes = row_bytes(s_.n), sum_bytes = row_bytes(s_.k * s_.n);
  for (int64_t group = 0; group < s_.groups; ++group) {
    std::byte* y = static_cast<std::byte*>(o.y) + group * sum_bytes;
    const int64_t begin = order.starts[group], count = order.starts[group + 1] - begin;
    if (count == 0) {
      for_row_ranges(pool, s_.threads, sum_bytes, sum_bytes,
                     [&](int64_t from, int64_t end) { std::memset(y + from, 0, static_cast<size_t>(end - from)); });
      continue;
    }
    const size_t plan = plan_of(count);
    const int64_t* rows = order.rows + begin;
    const int64_t rest = rows_[plan] - count;
    const bool together = rest == 0 && rows[count - 1] - rows[0] == count - 1;
    // Terms that the plan has too many are products of zeros.
    const auto ready = [&](const void* from, int64_t stride, int64_t bytes, std::byte* to) -> const void* {
      if (together && stride == bytes) return static_cast<const std::byte*>(from) + rows[0] * bytes;
      gather_rows(pool, s_.threads, from, stride, rows, count, bytes, to);
      std::memset(to + count * bytes, 0, static_cast<size_t>(rest * bytes));
      return to;
    };
    plans_[plan].run({ready(o.lhs, row_bytes(s_.lhs_stride), lhs_bytes, lhs),
                      ready(o.rhs, row_bytes(s_.rhs_stride), rhs_bytes, rhs), y},
                     own, pool);
  }
}

}  // namespace rlx::kernels
