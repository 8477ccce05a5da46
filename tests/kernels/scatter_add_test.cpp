// Runs added to runs, of every dtype that has a sum of its own.
#include "kernels/index/scatter_add.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

TEST_CASE("a run is added element by element, and nothing behind it changes") {
  for (DType t : {f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean})
    for (int64_t n : {0, 1, 3, 8, 17, 33, 100}) {
      Elements into = Elements::random(t, n + 1, 1, 0, t == boolean ? 2 : 100);
      const Elements from = Elements::random(t, n + 1, 2, 0, t == boolean ? 2 : 100), before = into;
      add_run(t)(into.data(), from.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        Elements want(t, 1);
        if (t == boolean) want.set(0, before[i] != 0 || from[i] != 0);
        else
          want.set(0, is_float(t) ? double(t == f32 ? float(before[i]) + float(from[i]) : before[i] + from[i])
                                  : before[i] + from[i]);
        REQUIRE(into[i] == want[0]);
      }
      REQUIRE(into[n] == before[n]);
    }
  CHECK(!add_run(f16));
  CHECK(!add_run(i4));
}

TEST_CASE("complex numbers are added by real and imaginary part") {
  std::vector<float> into = {1, 2, 3, 4, 5, 6}, from = {10, 20, 30, 40, 50, 60};
  add_run(c64)(into.data(), from.data(), 2);
  CHECK(into == std::vector<float>{11, 22, 33, 44, 5, 6});
}
