// The planner of products (kernels/gemm/product_plan.h): what must hold of its table and of how it divides products,
// whatever the machine. The results of the kernels are tested in gemm_test.cpp and its neighbours.
#include "kernels/gemm/product_plan.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/rounded_up.h"
#include "kernels/gemm/ozaki/split_weights.h"

using namespace rlx;
using namespace rlx::kernels;

namespace {

ProductTarget target_with(bool tiles, int64_t l2_bytes = 2 << 20) {
  ProductTarget t;
  t.has_matrix_tiles = t.has_bf16_dots = tiles;
  t.caches.l2_bytes = l2_bytes;
  return t;
}

/// A product of any kind; run-time right operands have strides, dense or transposed.
ProductProblem random_problem(std::mt19937& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  const auto extent = [&] { return below(3) == 0 ? below(70) : below(5000); };
  constexpr DType kDtypes[] = {f32, f32, bf16, f16, f64};
  constexpr int kThreads[] = {1, 2, 3, 8, 64};
  ProductProblem p;
  p.m = extent(), p.n = extent(), p.k = extent();
  p.right = static_cast<RightOperand>(below(3));
  p.lhs_dtype = p.rhs_dtype = p.y_dtype = kDtypes[below(5)];
  if (p.right == RightOperand::splits) {
    p.k += 64, p.n += 48;
    p.lhs_dtype = p.rhs_dtype = p.y_dtype = f32;
    p.split_bytes = SplitLayout{p.k, p.n}.bytes(0);
  }
  if (p.right == RightOperand::run_time) p.batches = below(2) ? 1 : below(40);
  p.lhs_m_stride = p.k;
  p.rhs_k_stride = p.n, p.rhs_n_stride = 1;
  if (below(3) == 0) p.rhs_k_stride = 1, p.rhs_n_stride = p.k;
  p.threads = kThreads[below(5)];
  p.policy.batch_invariant = below(6) == 0;
  return p;
}

/// What the columns of a product are divided into.
int64_t column_blocks(const ProductProblem& p, const ProductTarget& t, ProductKernel kernel) {
  if (kernel == ProductKernel::multiply_adds) return PanelLayout{p.n, t.lanes(p.rhs_dtype)}.panels();
  return divided_up(p.n, kTiledColumns);
}

}  // namespace

TEST_CASE("the first rule that holds decides, the last one holds always, and each has a reason of its own") {
  std::set<std::string_view> reasons;
  for (const ProductRule& rule : product_rules()) CHECK(reasons.insert(rule.reason).second);
  std::mt19937 random(1);
  std::set<std::string_view> taken;
  for (int i = 0; i < 20000; ++i) {
    const ProductProblem p = random_problem(random);
    const ProductTarget t = target_with(i % 4 != 0);
    const ProductStrategy s = plan_product(p, t);
    for (const ProductRule& rule : product_rules()) {
      if (!rule.holds(p, t)) continue;
      CHECK(rule.reason == s.reason);
      CHECK(rule.kernel == s.kernel);
      break;
    }
    taken.insert(s.reason);
    CHECK(plan_product(p, t) == s);
    CHECK(s.text().find(std::string(s.reason)) != std::string::npos);
  }
  CHECK(product_rules().back().holds({}, {}));
  CHECK(taken.size() >= 9);
}

TEST_CASE("tasks cover a product: none is empty, one thread divides no columns, and rows are divided by the cache") {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    const ProductProblem p = random_problem(random);
    const ProductTarget t = target_with(i % 3 != 0, int64_t{1} << (18 + i % 6));
    const ProductStrategy s = plan_product(p, t);
    INFO(p.m, " x ", p.k, " x ", p.n, ", ", p.threads, " threads: ", s.text());
    if (p.m > 0 && p.n > 0 && p.batches > 0) CHECK(s.tasks() > 0);
    CHECK(s.row_tasks <= std::max<int64_t>(p.m, 1));
    CHECK(s.column_tasks <= std::max<int64_t>(column_blocks(p, t, s.kernel), 1));
    if (p.threads == 1) CHECK(s.column_tasks <= 1);
    CHECK(s.packs_together == (s.piece_panels > 0));
    if (s.packs_rows_per_thread || s.splits_columns || s.transposes_sums) CHECK(s.rows_first);
    if (s.kernel != ProductKernel::bf16_tiles) CHECK(!s.rows_first);
    CHECK((s.k_pieces == 1 || (s.splits_columns && s.k_pieces == (p.k + kPieceTerms - 1) / kPieceTerms)));
    if (s.kernel != ProductKernel::ozaki_splits) CHECK(!s.shares_rows);
    // A larger cache holds more rows, and never needs more tasks of one thread.
    ProductProblem alone = p;
    alone.threads = 1;
    ProductTarget larger = t;
    larger.caches.l2_bytes *= 2;
    CHECK(plan_product(alone, larger).row_tasks <= std::max<int64_t>(1, plan_product(alone, t).row_tasks));
  }
}

TEST_CASE("more rows, columns or k never turn tiles that pay into multiply-adds while scratch memory suffices") {
  const ProductTarget t = target_with(true);
  for (DType dtype : {f32, bf16, f16})
    for (RightOperand right : {RightOperand::run_time, RightOperand::panels})
      for (bool along_k : {false, true}) {
        const auto uses_tiles = [&](int64_t m, int64_t n, int64_t k) {
          ProductProblem p;
          p.m = m, p.n = n, p.k = k, p.right = right;
          p.lhs_dtype = p.rhs_dtype = p.y_dtype = dtype;
          p.lhs_m_stride = k, p.rhs_k_stride = along_k ? 1 : n, p.rhs_n_stride = along_k ? k : 1;
          return plan_product(p, t).kernel == ProductKernel::bf16_tiles;
        };
        constexpr int64_t kExtents[] = {1, 4, 15, 16, 24, 31, 32, 48, 63, 64, 100, 500, 1500};
        bool any = false;
        for (int64_t m : kExtents)
          for (int64_t n : kExtents)
            for (int64_t k : kExtents) {
              if (!uses_tiles(m, n, k)) continue;
              any = true;
              INFO(m, " x ", k, " x ", n);
              CHECK(uses_tiles(m + 1, n, k));
              CHECK(uses_tiles(m, n + 1, k));
              CHECK(uses_tiles(m, n, k + 1));
            }
        CHECK(any);
      }
}

TEST_CASE("a batch-invariant product has one kernel for any number of rows, and no processor changes it") {
  for (int64_t m : {1, 4, 16, 64, 1000})
    for (bool tiles : {false, true}) {
      ProductProblem p;
      p.m = m, p.n = 512, p.k = 512, p.right = RightOperand::panels, p.lhs_m_stride = 512;
      p.policy.batch_invariant = true;
      CHECK(plan_product(p, target_with(tiles)).kernel == ProductKernel::multiply_adds);
    }
}

TEST_CASE("larger weights are split for fewer rows") {
  const ProductTarget t = target_with(true);
  WeightsSpec w;
  w.policy.row_relative = true;
  w.n_stride = 1;
  int64_t before = 1 << 20;
  for (int64_t extent = 64; extent <= 4096; extent *= 2) {
    w.k = w.n = w.k_stride = extent;
    const int64_t rows = min_rows_for_splits(w, t);
    CHECK(rows > 0);
    CHECK(rows <= before);
    before = rows;
    CHECK(min_rows_for_splits(w, target_with(false)) == 0);
  }
}

TEST_CASE("a plan follows the cost model of its time: one that was made with other figures is not used again") {
  BatchedGemmSpec s;
  s.m = 128, s.n = s.k = 384, s.threads = 4;
  s.lhs_m_stride = s.k, s.rhs_k_stride = s.n, s.y_m_stride = s.n;
  const std::string as_it_is = prepare_batched_gemm(s).strategy();
  CostModel one_task;
  one_task.task_work = int64_t{1} << 50, one_task.tile_rows = int64_t{1} << 40;
  WeightsSpec w;
  w.k = w.n = w.k_stride = 384, w.n_stride = 1;
  const std::vector<float> data(384 * 384, 1);
  const auto weights = PackedWeights::pack(w, data.data());
  GemmSpec g;
  g.m = 128, g.x_stride = g.y_stride = 384, g.threads = 4;
  const std::string packed = weights->prepare(g).strategy();
  {
    const ScopedCostModel here(one_task);
    CHECK(prepare_batched_gemm(s).strategy().find("1 x 1 task") != std::string::npos);
    CHECK(weights->prepare(g).strategy().find("1 x 1 task") != std::string::npos);
  }
  CHECK(as_it_is.find("1 x 1 task") == std::string::npos);
  CHECK(prepare_batched_gemm(s).strategy() == as_it_is);
  CHECK(weights->prepare(g).strategy() == packed);
}
