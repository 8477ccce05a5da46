// Gathers by tables against a loop over single elements.
#include "kernels/index/outer_gather.h"

#include <cstring>

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

using Table = std::vector<int64_t>;

Table iota(int64_t n) {
  Table t;
  for (int64_t i = 0; i < n; ++i) t.push_back(i);
  return t;
}

void check(int64_t bytes, const std::vector<int64_t>& dims, const std::vector<Table>& tables) {
  int64_t in = bytes, out = bytes;
  for (int64_t d : dims) in *= d;
  for (const Table& t : tables) out *= static_cast<int64_t>(t.size());
  std::vector<uint8_t> x(size_t(in) + 1), y(size_t(out) + 1, 77);
  Random random(3);
  for (uint8_t& v : x) v = uint8_t(random.below(256));
  const OuterGatherPlan plan = plan_outer_gather(bytes, dims, tables);
  REQUIRE(plan.rows * plan.row_bytes == out);
  for (int64_t task = 0; task < 3; ++task)
    outer_gather(plan, x.data(), y.data(), plan.rows * task / 3, plan.rows * (task + 1) / 3);
  for (int64_t i = 0; i < out / bytes; ++i) {
    int64_t at = 0, stride = 1, rest = i;
    for (size_t d = dims.size(); d-- > 0;) {
      const auto extent = static_cast<int64_t>(tables[d].size());
      at += tables[d][size_t(rest % extent)] * stride;
      rest /= extent, stride *= dims[d];
    }
    INFO("element ", i, " of ", bytes, " bytes");
    REQUIRE(std::memcmp(&y[size_t(i * bytes)], &x[size_t(at * bytes)], size_t(bytes)) == 0);
  }
  REQUIRE(y.back() == 77);
}

}  // namespace

TEST_CASE("whole dims, mirrored edges, repeated indices and permutations, of every size of element") {
  const Table mirrored = {2, 1, 0, 1, 2, 3, 4, 3, 2}, twice = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4},
              mixed = {4, 0, 2, 2, 1, 3};
  const Table third = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}, shrunk = {0, 2, 4}, one = {3}, none = {};
  const std::vector<Table> all = {iota(5), mirrored, twice, mixed, third, shrunk, one, none};
  for (int64_t bytes : {1, 2, 4, 8, 16}) {
    check(bytes, {}, {});
    for (const Table& a : all) {
      check(bytes, {5}, {a});
      for (const Table& b : all) {
        check(bytes, {5, 5}, {a, b});
        for (const Table& c : all) check(bytes, {5, 5, 5}, {a, b, c});
      }
    }
  }
}

TEST_CASE("long rows, large blocks and many dims that are taken whole") {
  Table reversed = iota(300), edge = iota(300);
  std::reverse(reversed.begin(), reversed.end());
  edge.insert(edge.begin(), {2, 1});
  edge.push_back(298);
  check(4, {3, 300}, {iota(3), reversed});
  check(4, {3, 300}, {{0, 0, 2}, edge});
  check(4, {300, 100}, {edge, iota(100)});
  check(2, {2, 3, 4, 5, 6, 2}, {iota(2), iota(3), {3, 0, 1}, iota(5), {0, 0, 1, 1, 5}, iota(2)});
  check(4, {2, 3, 4, 5}, {iota(2), iota(3), iota(4), {4, 4, 0}});
  check(8, {0, 3}, {{}, iota(3)});
  check(8, {3, 0}, {iota(3), {}});
}
