// Products of rows that choose a matrix each, and sums of outer products by segment, beside loops in f64: however many
// rows a group has, in whatever order they stand.
#include "kernels/gemm/grouped.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "kernels/kernel_test.h"
#include "kernels/threads/thread_pool.h"
#include "support/emulated_tiles.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

/// Which group each row chooses.
struct Choice {
  const char* name;
  std::vector<int64_t> groups;
};
/// Orders of `m` rows in `groups` groups: mixed with rows of none, sorted, sorted between rows of none, and all in one.
std::vector<Choice> choices(int64_t m, int64_t groups) {
  Choice mixed{"mixed", {}}, sorted{"sorted", {}}, between{"between rows of none", {}}, one{"one group", {}};
  Random random(static_cast<uint64_t>(m));
  for (int64_t i = 0; i < m; ++i) {
    mixed.groups.push_back(random.below(groups + 2) - 1);
    sorted.groups.push_back(i * groups / m);
    between.groups.push_back(i < 2 ? -1 : i + 3 > m ? groups : i * groups / m);
    one.groups.push_back(groups - 1);
  }
  return {mixed, sorted, between, one};
}
/// Orders of rows of which group g has `counts[g]`: all groups follow each other, or do so backwards, or are mixed.
std::vector<Choice> orders(std::span<const int64_t> counts) {
  Choice in_order{"in order", {}}, backwards{"backwards", {}}, mixed{"mixed", {}};
  for (size_t group = 0; group < counts.size(); ++group)
    in_order.groups.insert(in_order.groups.end(), static_cast<size_t>(counts[group]), static_cast<int64_t>(group));
  backwards.groups.assign(in_order.groups.rbegin(), in_order.groups.rend());
  mixed.groups = in_order.groups;
  Random random(5);
  for (size_t i = mixed.groups.size(); i > 1; --i)
    std::swap(mixed.groups[i - 1], mixed.groups[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  return {in_order, backwards, mixed};
}
Elements index_of(DType dtype, const Choice& choice) {
  Elements index(dtype, static_cast<int64_t>(choice.groups.size()));
  const bool is_signed = kind_of(dtype) == Kind::signed_int;
  for (int64_t i = 0; i < index.size(); ++i) {
    const int64_t group = choice.groups[static_cast<size_t>(i)];
    index.set(i, static_cast<double>(group < 0 && !is_signed ? 200 : group));
  }
  return index;
}
template <class Gemm>
void run(const Gemm& gemm, const Elements& lhs, const Elements& rhs, const Elements& index, Elements& y) {
  Scratch scratch(gemm.scratch_bytes());
  std::memset(scratch.data(), 0xff, gemm.scratch_bytes());  // NaN, in all that is not written before it is read
  gemm.run({lhs.data(), rhs.data(), index.data(), y.data()}, scratch.data(), ThreadPool::shared());
}

}  // namespace

TEST_CASE("each row is multiplied by the matrix that it chose, and what others hold is not seen") {
  for (DType t : float_dtypes())
    for (int64_t m : {1, 3, 9, 100, 300})
      for (const Choice& choice : choices(m, 5)) {
        INFO(std::string(name_of(t)), ", ", m, " rows, ", std::string(choice.name));
        const int64_t k = 33, n = 20, groups = 6, x_stride = m % 2 == 0 ? k + 3 : k;  // the last one is chosen by none
        const bool transposed = m == 100;
        const Elements lhs = Elements::random(t, m * x_stride, 1, -1, 1);
        Elements w = Elements::random(t, groups * k * n, 2, -1, 1);
        for (int64_t i = 0; i < k * n; ++i) w.set((groups - 1) * k * n + i, NAN);
        GroupedGemmSpec s;
        s.m = m, s.n = n, s.k = k, s.groups = groups, s.lhs_stride = x_stride;
        s.w_group_stride = k * n, s.w_k_stride = transposed ? 1 : n, s.w_n_stride = transposed ? k : 1;
        s.dtype = t, s.index_dtype = i32;
        Elements first(t, m * n);
        for (int threads : {1, 3}) {
          s.threads = threads;
          Choice chosen = choice;
          for (int64_t& group : chosen.groups)
            if (group == 5) group = 77;
          Elements y(t, m * n);
          run(GroupedGemm(s), lhs, w, index_of(i32, chosen), y);
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              const int64_t group = chosen.groups[static_cast<size_t>(i)];
              double want = group < 0 || group > 5 ? NAN : 0, scale = 0;
              for (int64_t l = 0; l < k && group >= 0 && group < 5; ++l) {
                const double term = lhs[i * x_stride + l] * w[group * k * n + l * s.w_k_stride + j * s.w_n_stride];
                want += term, scale += std::abs(term);
              }
              require_close(t, i * n + j, y[i * n + j], want, 8, scale);
            }
          if (threads == 1) first = y;
          else CHECK(std::memcmp(first.data(), y.data(), static_cast<size_t>(m * n) * byte_size(t)) == 0);
        }
      }
}

TEST_CASE("sums of outer products by segment, of which empty ones are zeros") {
  for (DType t : float_dtypes())
    for (int64_t m : {1, 3, 9, 100, 300})
      for (const Choice& choice : choices(m, 5)) {
        INFO(std::string(name_of(t)), ", ", m, " rows, ", std::string(choice.name));
        const int64_t k = 17, n = 20, groups = 6, y_stride = m % 2 == 0 ? n + 1 : n;
        Elements lhs = Elements::random(t, m * k, 1, -1, 1), rhs = Elements::random(t, m * y_stride, 2, -1, 1);
        for (int64_t i = 0; i < m; ++i)  // rows that are in no sum
          if (const int64_t group = choice.groups[static_cast<size_t>(i)]; group < 0 || group >= 5)
            lhs.set(i * k, INFINITY), rhs.set(i * y_stride, NAN);
        Choice chosen = choice;
        for (int64_t& group : chosen.groups)
          if (group == 5) group = 77;
        GroupedGemmSpec s;
        s.m = m, s.n = n, s.k = k, s.groups = groups, s.lhs_stride = k, s.rhs_stride = y_stride;
        s.dtype = t, s.index_dtype = i64;
        Elements first(t, groups * k * n);
        for (int threads : {1, 3}) {
          s.threads = threads;
          Elements y = Elements::filled(t, groups * k * n, 7);
          run(SegmentGemm(s), lhs, rhs, index_of(i64, chosen), y);
          for (int64_t group = 0; group < groups; ++group)
            for (int64_t l = 0; l < k; ++l)
              for (int64_t j = 0; j < n; ++j) {
                double want = 0, scale = 0;
                for (int64_t i = 0; i < m; ++i)
                  if (chosen.groups[static_cast<size_t>(i)] == group) {
                    const double term = lhs[i * k + l] * rhs[i * y_stride + j];
                    want += term, scale += std::abs(term);
                  }
                const int64_t at = (group * k + l) * n + j;
                require_close(t, at, y[at], want, 8, scale);
              }
          if (threads == 1) first = y;
          else CHECK(std::memcmp(first.data(), y.data(), static_cast<size_t>(groups * k * n) * byte_size(t)) == 0);
        }
      }
}

namespace {

// Of one row, of as few as tiles take, of others, of none, of a number between those that are planned, and of so many
// that tiles take weights along k, too.
constexpr int64_t kRowsOfGroups[] = {1, 24, 40, 0, 27, 66};
constexpr int64_t kRows = 158, kDepth = 72, kColumns = 80;

GroupedGemmSpec tiled_spec(DType t) {
  GroupedGemmSpec s;
  s.m = kRows, s.n = kColumns, s.k = kDepth, s.groups = std::ssize(kRowsOfGroups);
  s.lhs_stride = kDepth, s.rhs_stride = kColumns;
  s.w_group_stride = kDepth * kColumns, s.w_k_stride = kColumns;
  s.dtype = t, s.index_dtype = i32;
  return s;
}
}  // namespace

TEST_CASE_FIXTURE(MatrixTiles, "groups of as many rows as matrix tiles take are multiplied like others, in any order") {
  const int64_t m = kRows, k = kDepth, n = kColumns;
  for (DType t : float_dtypes())
    for (const bool along_k : {false, true}) {
      GroupedGemmSpec s = tiled_spec(t);
      if (along_k) s.w_k_stride = 1, s.w_n_stride = k;
      const Elements lhs = Elements::random(t, m * k, 1, -1, 1);
      Elements w = Elements::random(t, s.groups * k * n, 2, -1, 1);
      for (int64_t i = 0; i < k * n; ++i) w.set(3 * k * n + i, NAN);  // no row chooses it
      const std::vector<double> x = lhs.values(), weights = w.values();
      for (const Choice& choice : orders(kRowsOfGroups)) {
        INFO(std::string(name_of(t)), std::string(along_k ? ", weights along k, " : ", weights along n, "),
             std::string(choice.name));
        REQUIRE(choice.groups.size() == static_cast<size_t>(m));
        Elements first(t, m * n);
        for (int threads : {1, 3}) {
          s.threads = threads;
          Elements y = Elements::filled(t, m * n, 7);
          run(GroupedGemm(s), lhs, w, index_of(i32, choice), y);
          if (threads > 1) {
            CHECK(std::memcmp(first.data(), y.data(), static_cast<size_t>(m * n) * byte_size(t)) == 0);
            continue;
          }
          first = y;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              const int64_t begin = choice.groups[static_cast<size_t>(i)] * s.w_group_stride + j * s.w_n_stride;
              double want = 0, scale = 0;
              for (int64_t l = 0; l < k; ++l) {
                const double term =
                    x[static_cast<size_t>(i * k + l)] * weights[static_cast<size_t>(begin + l * s.w_k_stride)];
                want += term, scale += std::abs(term);
              }
              require_close(t, i * n + j, y[i * n + j], want, 8, scale);
            }
        }
      }
    }
}

TEST_CASE_FIXTURE(MatrixTiles, "segments of as many rows as matrix tiles take are summed like others, in any order") {
  const int64_t m = kRows, k = kDepth, n = kColumns;
  for (DType t : float_dtypes()) {
    GroupedGemmSpec s = tiled_spec(t);
    const Elements lhs = Elements::random(t, m * k, 1, -1, 1), rhs = Elements::random(t, m * n, 2, -1, 1);
    const std::vector<double> x = lhs.values(), other = rhs.values();
    for (const Choice& choice : orders(kRowsOfGroups)) {
      INFO(std::string(name_of(t)), ", ", std::string(choice.name));
      std::vector<double> want(static_cast<size_t>(s.groups * k * n)), scale(want.size());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t l = 0; l < k; ++l)
          for (int64_t j = 0; j < n; ++j) {
            const auto at = static_cast<size_t>((choice.groups[static_cast<size_t>(i)] * k + l) * n + j);
            const double term = x[static_cast<size_t>(i * k + l)] * other[static_cast<size_t>(i * n + j)];
            want[at] += term, scale[at] += std::abs(term);
          }
      Elements first(t, s.groups * k * n);
      for (int threads : {1, 3}) {
        s.threads = threads;
        Elements y = Elements::filled(t, s.groups * k * n, 7);
        run(SegmentGemm(s), lhs, rhs, index_of(i32, choice), y);
        if (threads == 1) first = y;
        else CHECK(std::memcmp(first.data(), y.data(), want.size() * byte_size(t)) == 0);
        for (size_t at = 0; at < want.size(); ++at)
          require_close(t, static_cast<int64_t>(at), y[static_cast<int64_t>(at)], want[at], 8, scale[at]);
      }
    }
  }
}

TEST_CASE("a choice may be of any integer dtype, and products may be over nothing and of nothing") {
  const Choice choice{"", {0, 1, -1, 1}};
  const Elements lhs = Elements::filled(f32, 8, 1), w = Elements::filled(f32, 12, 2);
  for (DType index : integer_dtypes()) {
    GroupedGemmSpec s;
    s.m = 4, s.k = 2, s.n = 3, s.groups = 2, s.lhs_stride = 2, s.rhs_stride = 3;
    s.w_group_stride = 6, s.w_k_stride = 3, s.index_dtype = index;
    Elements y(f32, 12), sums(f32, 12);
    run(GroupedGemm(s), lhs, w, index_of(index, choice), y);
    run(SegmentGemm(s), lhs, w, index_of(index, choice), sums);
    for (int64_t i = 0; i < 12; ++i) {
      CHECK((i / 3 == 2 ? std::isnan(y[i]) : y[i] == 4));
      CHECK(sums[i] == (i < 6 ? 2 : 4));
    }
  }
  GroupedGemmSpec s;
  s.m = 4, s.n = 3, s.groups = 2, s.w_k_stride = 3;
  Elements y = Elements::filled(f32, 12, 7);
  run(GroupedGemm(s), lhs, w, index_of(i32, choice), y);  // of no terms
  for (int64_t i = 0; i < 12; ++i) CHECK((i / 3 == 2 ? std::isnan(y[i]) : y[i] == 0));
  s.groups = 0;
  run(GroupedGemm(s), lhs, w, index_of(i32, choice), y);  // there is no matrix
  for (int64_t i = 0; i < 12; ++i) CHECK(std::isnan(y[i]));
  s.groups = 2, s.m = 0, s.k = 2;
  y = Elements::filled(f32, 12, 7);
  run(SegmentGemm(s), lhs, w, index_of(i32, {"", {}}), y);  // no row
  for (int64_t i = 0; i < 12; ++i) CHECK(y[i] == 0);
}
