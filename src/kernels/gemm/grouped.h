// Products of rows that each choose one of several matrices, and sums of outer products by segment. Rows are ordered by
// what they chose, and each group is one product of gemm.h. How many rows a group has is known only in a run, in which
// nothing can be planned: products are planned for some numbers of rows, and a group takes the next larger one. What
// its plan has beyond the rows of the group is discarded, or is zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"

namespace rlx::kernels {

struct GroupedGemmSpec {
  int64_t m = 0, n = 0, k = 0;
  int64_t groups = 0;
  int64_t lhs_stride = 0;                                      ///< between rows of lhs, in elements
  int64_t rhs_stride = 0;                                      ///< between rows of rhs[m, n], for SegmentGemm
  int64_t w_group_stride = 0, w_k_stride = 0, w_n_stride = 1;  ///< of products: rhs is w[groups, k, n]
  DType dtype = f32;                                           ///< of all three: f32, f64, bf16 or f16
  DType index_dtype = i32;                                     ///< an integer of whole bytes
  int threads = 1;
  ProductPolicy policy = {};
};
struct GroupedGemmOperands {
  const void* lhs = nullptr;
  const void* rhs = nullptr;
  const void* index = nullptr;  ///< [m]
  void* y = nullptr;            ///< dense, overlaps no operand
};

/// Rows in the order of the groups that they choose, and in their own order within each.
struct GroupedRows {
  int64_t* starts;        ///< of each group in `rows`, and the end of the last one
  int64_t* rows;          ///< those of no group are left out
  bool ascending = true;  ///< `rows` are consecutive: those of no group lie before or behind them

  /// The size of `memory` for the constructor; a multiple of 64.
  static size_t bytes(int64_t rows, int64_t groups);
  GroupedRows(const void* index, DType index_dtype, int64_t count, int64_t groups, void* memory) noexcept;
};

/// What both kinds share: plans for numbers of rows.
class GroupedPlans {
 public:
  size_t scratch_bytes() const { return scratch_bytes_; }
  /// PreparedProduct::strategy() of the plan for a group of all m rows; empty if m is 0.
  std::string strategy() const { return plans_.empty() ? "" : plans_.back().strategy(); }

 protected:
  explicit GroupedPlans(const GroupedGemmSpec& spec) : s_(spec) {}
  /// The numbers of rows for which there are plans: all up to 8, then multiples of 8 that are at most an eighth apart.
  static std::vector<int64_t> planned_rows(int64_t most);
  size_t plan_of(int64_t rows) const;
  template <class SpecOf>
  void plan(SpecOf spec_of);
  GroupedRows sorted(const void* index, void* scratch) const noexcept {
    return {index, s_.index_dtype, s_.m, s_.groups, scratch};
  }
  int64_t row_bytes(int64_t columns) const { return columns * static_cast<int64_t>(byte_size(s_.dtype)); }

  GroupedGemmSpec s_;
  std::vector<int64_t> rows_;
  std::vector<PreparedBatchedGemm> plans_;
  size_t order_bytes_ = 0, lhs_bytes_ = 0, other_bytes_ = 0, scratch_bytes_ = 0;
};

/// y[i] = lhs[i] w[index[i]], of y[m, n]; NaN where index[i] is no group.
class GroupedGemm : public GroupedPlans {
 public:
  explicit GroupedGemm(const GroupedGemmSpec& spec);
  void run(const GroupedGemmOperands& operands, void* scratch, ThreadPool& pool) const noexcept;
};

/// y[g] = the sum of lhs[i]ᵀ rhs[i] over the rows i with index[i] = g, of y[groups, k, n].
class SegmentGemm : public GroupedPlans {
 public:
  explicit SegmentGemm(const GroupedGemmSpec& spec);
  void run(const GroupedGemmOperands& operands, void* scratch, ThreadPool& pool) const noexcept;
};

}  // namespace rlx::kernels
