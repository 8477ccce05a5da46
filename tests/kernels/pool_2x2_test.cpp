// Pools of 2 by 2 against their definition, for rows of every width, odd extents, ties and NaN.
#include "kernels/reduce/pool_2x2.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

bool stays(Kept kept, float best, float next) {
  switch (kept) {
    case Kept::first_max: return best >= next;
    case Kept::last_max: return best > next;
    case Kept::first_min: return best <= next;
    default: return best < next;
  }
}

}  // namespace

TEST_CASE("2 x 2 pools and their gradients equal their definition") {
  for_each_target([&] {
    for (int64_t width = 1; width <= 40; ++width) {
      Random r(static_cast<uint64_t>(width));
      const int64_t planes = 3, rows = 4 + width % 2, columns = 2 * width + r.below(2), height = rows / 2;
      std::vector<float> x(static_cast<size_t>(planes * rows * columns)),
          source(static_cast<size_t>(planes * height * width));
      for (float& v : x) v = r.below(30) == 0 ? std::nanf("") : static_cast<float>(r.below(4));
      for (float& v : source) v = static_cast<float>(1 + r.below(9));
      std::vector<float> y(source.size(), 7.0F), back(x.size(), 7.0F);

      ReduceWindowArgs pool;
      pool.x = x.data(), pool.y = y.data(), pool.rank = 3;
      SelectAndScatterArgs select;
      select.x = x.data(), select.source = source.data(), select.y = back.data(), select.rank = 2,
      select.images = planes;
      const int64_t x_dims[] = {planes, rows, columns}, out_dims[] = {planes, height, width};
      for (int d = 0; d < 3; ++d) {
        pool.x_dims[d] = x_dims[d], pool.x_strides[d] = d == 0 ? rows * columns : d == 1 ? columns : 1;
        pool.out_dims[d] = out_dims[d], pool.window[d] = pool.stride[d] = d == 0 ? 1 : 2;
        pool.base_dilation[d] = pool.window_dilation[d] = 1;
        if (d > 0) select.x_dims[d - 1] = x_dims[d], select.out_dims[d - 1] = out_dims[d];
        if (d > 0) select.window[d - 1] = select.stride[d - 1] = 2, select.dilation[d - 1] = 1;
      }
      REQUIRE(is_pool_2x2(pool) == false);  // a sum
      REQUIRE(is_pool_2x2(select));
      auto positions = [&](int64_t k) {
        const int64_t at = (k / width * 2 + k / width / height * (rows - 2 * height)) * columns + k % width * 2;
        return std::array<int64_t, 4>{at, at + 1, at + columns, at + columns + 1};
      };
      const auto count = static_cast<int64_t>(y.size());
      for (ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
        pool.op = op;
        REQUIRE(is_pool_2x2(pool));
        const int64_t middle = r.below(count + 1);
        reduce_window(pool, 0, middle);
        reduce_window(pool, middle, count);
        for (int64_t k = 0; k < count; ++k) {
          float want = x[static_cast<size_t>(positions(k)[0])];
          for (int64_t at : positions(k)) {
            const float v = x[static_cast<size_t>(at)];
            if (want == want && (v != v || (op == ReduceOp::max ? v > want : v < want))) want = v;
          }
          const float got = y[static_cast<size_t>(k)];
          REQUIRE((got == want || (got != got && want != want)));
        }
      }
      for (Kept kept : {Kept::first_max, Kept::last_max, Kept::first_min, Kept::last_min}) {
        select.kept = kept;
        std::vector<int64_t> scratch(16);
        select_and_scatter(select, 0, 1, scratch.data());
        select_and_scatter(select, 1, planes, scratch.data());
        std::vector<float> want(x.size(), 0.0F);
        for (int64_t k = 0; k < count; ++k) {
          int64_t best = positions(k)[0];
          for (int64_t at : positions(k))
            if (at != best && !stays(kept, x[static_cast<size_t>(best)], x[static_cast<size_t>(at)])) best = at;
          want[static_cast<size_t>(best)] += source[static_cast<size_t>(k)];
        }
        CAPTURE(width);
        REQUIRE(back == want);
      }
    }
  });
}

TEST_CASE("planes that are fewer behind the window than before it are no 2 x 2 pool to scatter into") {
  SelectAndScatterArgs a;
  a.rank = 3;
  const int64_t x_dims[] = {5, 4, 6}, out_dims[] = {5, 2, 3};
  for (int d = 0; d < 3; ++d) {
    a.x_dims[d] = x_dims[d], a.out_dims[d] = out_dims[d];
    a.window[d] = a.stride[d] = d == 0 ? 1 : 2, a.dilation[d] = 1;
  }
  CHECK(is_pool_2x2(a));
  a.out_dims[0] = 3;  // padding below nothing
  CHECK_FALSE(is_pool_2x2(a));
}

namespace {

template <class T>
void check_pools_of_bytes(DType dtype) {
  for (int64_t width = 1; width <= 70; ++width) {
    Random r(static_cast<uint64_t>(width));
    const int64_t planes = 2, rows = 4 + width % 2, columns = 2 * width + r.below(2), height = rows / 2;
    std::vector<T> x(static_cast<size_t>(planes * rows * columns)), y(static_cast<size_t>(planes * height * width) + 1);
    for (T& v : x) v = static_cast<T>(r.below(256));
    ReduceWindowArgs pool;
    pool.dtype = dtype, pool.x = x.data(), pool.y = y.data(), pool.rank = 3;
    const int64_t x_dims[] = {planes, rows, columns}, out_dims[] = {planes, height, width};
    for (int d = 0; d < 3; ++d) {
      pool.x_dims[d] = x_dims[d], pool.x_strides[d] = d == 0 ? rows * columns : d == 1 ? columns : 1;
      pool.out_dims[d] = out_dims[d], pool.window[d] = pool.stride[d] = d == 0 ? 1 : 2;
      pool.base_dilation[d] = pool.window_dilation[d] = 1;
    }
    const auto count = static_cast<int64_t>(y.size()) - 1;
    for (ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
      pool.op = op;
      REQUIRE(is_pool_2x2(pool));
      y.back() = 77;
      const int64_t middle = r.below(count + 1);
      reduce_window(pool, 0, middle);
      reduce_window(pool, middle, count);
      int64_t wrong = y.back() != 77;
      for (int64_t k = 0; k < count; ++k) {
        const int64_t at = k / width / height * rows * columns + k / width % height * 2 * columns + k % width * 2;
        T wanted = x[static_cast<size_t>(at)];
        for (int64_t next : {at + 1, at + columns, at + columns + 1}) {
          const T v = x[static_cast<size_t>(next)];
          if (op == ReduceOp::max ? v > wanted : v < wanted) wanted = v;
        }
        wrong += y[static_cast<size_t>(k)] != wanted;
      }
      CAPTURE(width);
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE("2 x 2 pools of bytes equal their definition, of either sign") {
  for_each_target([&] {
    check_pools_of_bytes<int8_t>(i8);
    check_pools_of_bytes<uint8_t>(u8);
  });
}
