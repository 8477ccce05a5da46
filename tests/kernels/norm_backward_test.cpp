// Gradients of the norms against scalar loops in double.
#include "kernels/norm/norm_backward.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Gradients {
  std::vector<double> x, gamma, beta;
};

Gradients by_formula(const Elements& x, const Elements& ct, const Elements& gamma, bool has_gamma, int64_t rows,
                     int64_t cols, double eps, bool centred) {
  Gradients d{std::vector<double>(size_t(rows * cols)), std::vector<double>(size_t(cols)),
              std::vector<double>(size_t(cols))};
  for (int64_t row = 0; row < rows; ++row) {
    double mean = 0, square = 0, mean_g = 0, mean_gh = 0;
    auto at = [&](int64_t i) { return row * cols + i; };
    auto g = [&](int64_t i) { return ct[at(i)] * (has_gamma ? gamma[i] : 1); };
    if (centred)
      for (int64_t i = 0; i < cols; ++i) mean += x[at(i)] / double(cols);
    for (int64_t i = 0; i < cols; ++i) square += (x[at(i)] - mean) * (x[at(i)] - mean) / double(cols);
    auto h = [&](int64_t i) { return (x[at(i)] - mean) / std::sqrt(square + eps); };
    for (int64_t i = 0; i < cols; ++i) {
      if (centred) mean_g += g(i) / double(cols);
      mean_gh += g(i) * h(i) / double(cols);
      d.gamma[size_t(i)] += ct[at(i)] * h(i), d.beta[size_t(i)] += ct[at(i)];
    }
    for (int64_t i = 0; i < cols; ++i) d.x[size_t(at(i))] = (g(i) - mean_g - h(i) * mean_gh) / std::sqrt(square + eps);
  }
  return d;
}

}  // namespace

TEST_CASE("the gradients of layer and RMS norms equal the formula, also split over two threads") {
  struct Rows {
    int64_t rows, cols;
  };
  for_each_target([] {
    for (DType t : {f32, f64})
      for (const Rows& r : {Rows{1, 1}, {3, 2}, {4, 7}, {2, 16}, {5, 17}, {130, 20}, {3, 100}, {70, 384}, {2, 1025}})
        for (bool centred : {true, false})
          for (bool has_gamma : {true, false}) {
            const Elements x = Elements::random(t, r.rows * r.cols, 3, -2, 3),
                           ct = Elements::random(t, r.rows * r.cols, 4);
            const Elements gamma = Elements::random(t, r.cols, 5, 0.5, 2);
            Elements d_x = Elements::filled(t, r.rows * r.cols + 8, 77), d_gamma = Elements::filled(t, r.cols + 8, 77),
                     d_beta = Elements::filled(t, r.cols + 8, 77);
            NormBackwardArgs args{.dtype = t, .x = x.data(), .ct = ct.data(), .d_x = d_x.data(), .cols = r.cols};
            args.eps = 0.25, args.centred = centred;
            if (has_gamma) args.gamma = gamma.data();
            const size_t stride_bytes = (norm_backward_scratch_bytes(args) + 63) / 64 * 64;
            Scratch scratch(2 * stride_bytes);
            auto* second = static_cast<std::byte*>(scratch.data()) + stride_bytes;
            clear_norm_backward_sums(args, scratch.data());
            clear_norm_backward_sums(args, second);
            norm_backward_rows(args, 0, r.rows / 3, scratch.data());
            norm_backward_rows(args, r.rows / 3, r.rows / 2, second);
            norm_backward_rows(args, r.rows / 2, r.rows, scratch.data());
            add_norm_backward_sums(args, scratch.data(), stride_bytes, 2, d_gamma.data(), d_beta.data());

            const Gradients want = by_formula(x, ct, gamma, has_gamma, r.rows, r.cols, args.eps, centred);
            for (int64_t i = 0; i < r.rows * r.cols; ++i) require_close(t, i, d_x[i], want.x[size_t(i)], 64, 8);
            for (int64_t i = 0; i < r.cols; ++i) {
              require_close(t, i, d_gamma[i], want.gamma[size_t(i)], 64, double(r.rows));
              require_close(t, i, d_beta[i], want.beta[size_t(i)], 64, double(r.rows));
            }
            for (int64_t i = 0; i < 8; ++i) {
              REQUIRE(d_x[r.rows * r.cols + i] == 77);
              REQUIRE(d_gamma[r.cols + i] == 77);
            }
          }
  });
}
