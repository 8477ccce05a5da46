// Fourier transforms: the CPU's kernels against the reference over lengths, axes and threads; helpers; refusals. Values
// from NumPy are in tests/golden.
#include "ops/hard_cases.h"
#include "rlx/session.h"
#include "support/tolerance.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// The largest distance of an element, as a part of the root mean square: what errors of a transform are measured by.
double distance(const Tensor& got, const Tensor& wanted) {
  REQUIRE(got.type() == wanted.type());
  double most = 0, sum = 0;
  auto element = [](const Tensor& t, size_t i) {
    return is_complex(t.dtype()) ? load<Complex>(t, i) : Complex(load<double>(t, i));
  };
  for (size_t i = 0; i < got.element_count(); ++i) {
    most = std::max(most, std::abs(element(got, i) - element(wanted, i)));
    sum += std::norm(element(wanted, i));
  }
  return got.element_count() ? most / std::sqrt(sum / static_cast<double>(got.element_count())) : 0;
}
Graph transform(const Type& x, const FftAttrs& a) {
  return trace(std::array{x}, [&](Values v) { return emit(op::fft, {v[0]}, a); });
}

}  // namespace

TEST_CASE("transforms of every length up to 140, and of some long ones, agree with the reference") {
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 140; ++n) lengths.push_back(n);
  for (int64_t n : {169, 243, 256, 257, 500, 512, 625, 997, 1000, 1001, 1009, 1024, 2310, 4096}) lengths.push_back(n);
  Session session(Device::cpu(), {2});
  for (int64_t n : lengths)
    for (DType t : {c64, c128}) {
      double allowed = t == c64 ? 3e-6 : 2e-14;  // the reference adds up long primes term by term
      for (const Dims& dims : {Dims{n}, Dims{5, n}}) {
        Tensor x = random_tensor(t, shape_of(dims), uint64_t(n));
        for (FftKind kind : {FftKind::fft, FftKind::ifft}) {
          Graph g = transform(x.type(), {kind});
          double d = distance(session.compile(g).run_ordered(std::array{x})[0], interpret(g, std::array{x})[0]);
          CHECK_MESSAGE(d < allowed, t, dims.size(), " x ", n, ": ", d);
        }
      }
    }
}
TEST_CASE(
    "roots of few parts of a turn are the nearest doubles, so what cancels leaves the rounding that it leaves others") {
  // sin(2 pi j / 11), and numpy.fft.fft of it (NumPy 2.4): nine of its frequencies are rounding alone.
  const double sine[11] = {0.0,
                           0.5406408174555976,
                           0.9096319953545183,
                           0.9898214418809328,
                           0.7557495743542583,
                           0.28173255684142967,
                           -0.2817325568414294,
                           -0.7557495743542582,
                           -0.9898214418809327,
                           -0.9096319953545186,
                           -0.5406408174555974};
  const Complex wanted[6] = {{3.885780586188048e-16, 0.0},
                             {-3.5365982358508463e-16, -5.499999999999999},
                             {3.026981444479023e-16, -3.885780586188048e-16},
                             {1.550079864382564e-16, 9.992007221626409e-16},
                             {6.106970865923214e-17, 1.1102230246251565e-16},
                             {-3.5940504526970855e-16, 4.440892098500626e-16}};
  Tensor x(c128, {11});
  for (size_t j = 0; j < 11; ++j) store<Complex>(x, j, sine[j]);
  Tensor y = Session(Device::cpu(), {1}).compile(transform(x.type(), {FftKind::fft})).run_ordered(std::array{x})[0];
  for (size_t k = 0; k < 6; ++k) {
    CHECK(load<Complex>(y, k) == wanted[k]);
    if (k > 0) CHECK(load<Complex>(y, 11 - k) == std::conj(wanted[k]));
  }
}

TEST_CASE("transforms of real numbers, along any axes, agree with the reference") {
  for (int threads : {1, 3}) {
    Session session(Device::cpu(), {threads});
    for (int64_t n : {1, 2, 3, 8, 15, 40, 67, 300, 514})
      for (DType t : {f32, f64})
        for (const Axes& axes : {Axes{2}, Axes{0}, Axes{1, 2}, Axes{2, 0}, Axes{0, 1, 2}}) {
          Dims dims = {4, 18, 3};
          dims[size_t(axes.back())] = n;
          FftAttrs forward{FftKind::rfft, axes, FftNorm::ortho}, backward{FftKind::irfft, axes, FftNorm::ortho, n};
          Tensor x = random_tensor(t, shape_of(dims), uint64_t(n));
          Graph g = transform(x.type(), forward);
          Tensor y = session.compile(g).run_ordered(std::array{x})[0];
          double allowed = t == f32 ? 4e-6 : 1e-14;
          CHECK(distance(y, interpret(g, std::array{x})[0]) < allowed);
          Graph back = transform(y.type(), backward);
          Tensor z = session.compile(back).run_ordered(std::array{y})[0];
          CHECK(distance(z, interpret(back, std::array{y})[0]) < allowed);
          CHECK(distance(z, x) < allowed);
          CHECK(distance(y, session.compile(g).run_ordered(std::array{x})[0]) == 0);  // the operand was left as it was
        }
  }
}
TEST_CASE("a transform made of products is within 1e-12 of the reference") {
  for (int64_t n : {64, 65, 67, 100, 128, 131, 134, 256, 521, 1000}) {
    Tensor x = random_tensor(c128, {n}, 7);
    Graph g = transform(x.type(), {});
    CHECK(distance(interpret(made_of_primitives(g), std::array{x})[0], interpret(g, std::array{x})[0]) < 1e-12);
  }
}
TEST_CASE("a length that is known at run time only is transformed by the CPU") {
  Graph g = transform({c64, {Dim::symbol("N")}}, {});
  Tensor x = random_tensor(c64, {12}, 1);
  CHECK(distance(Session().compile(g).run_ordered(std::array{x})[0], interpret(g, std::array{x})[0]) < 1e-6);
}
TEST_CASE("shifts and frequencies are NumPy's") {
  // numpy.fft.fftfreq(6, 0.5), numpy.fft.fftfreq(5), numpy.fft.rfftfreq(6), numpy.fft.fftshift, ifftshift
  auto constant = [](auto build) {
    Graph g;
    g.output(build(g));
    return interpret(g, {})[0];
  };
  CHECK(constant([](Graph& g) { return fftfreq(g, 6, 0.5, f64); }) ==
        tensor(f64, {6}, {0, 1.0 / 3, 2.0 / 3, -1, -2.0 / 3, -1.0 / 3}));
  CHECK(constant([](Graph& g) { return fftfreq(g, 5, 1, f64); }) == tensor(f64, {5}, {0, 0.2, 0.4, -0.4, -0.2}));
  CHECK(constant([](Graph& g) { return rfftfreq(g, 6, 1, f64); }) == tensor(f64, {4}, {0, 1.0 / 6, 2.0 / 6, 0.5}));
  Numbers x{{5}, {0, 1, 2, 3, 4}};
  CHECK(mismatch_of_floats([](Values v) { return fftshift(v[0]); }, {x}, {{{5}, {3, 4, 0, 1, 2}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return ifftshift(v[0]); }, {x}, {{{5}, {2, 3, 4, 0, 1}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return ifftshift(fftshift(v[0], {1}), {-1}); },
                           {{{2, 3}, {1, 2, 3, 4, 5, 6}}}, {{{2, 3}, {1, 2, 3, 4, 5, 6}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return resized(v[0], 0, 7); }, {x}, {{{7}, {0, 1, 2, 3, 4, 0, 0}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return resized(v[0], 0, 2); }, {x}, {{{2}, {0, 1}}}) == "");
  // numpy.fft.hfft([1, 2, 3]) and of its inverse
  CHECK(mismatch_of_floats([](Values v) { return hfft(v[0]); }, {{{3}, {1, 2, 3}}}, {{{4}, {8, -2, 0, -2}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return real(ihfft(v[0])); }, {{{4}, {8, -2, 0, -2}}}, {{{3}, {1, 2, 3}}}) ==
        "");
}
TEST_CASE("transforms that cannot be meant are refused") {
  auto refused = [](const Type& t, FftAttrs a) {
    return refusal([&](Values v) { return emit(op::fft, {v[0]}, a); }, {t});
  };
  CHECK(refused({f32, {4}}, {}) == "an operand of complex is needed, got f32[4]; convert it first");
  CHECK(refused({c64, {4}}, {FftKind::rfft}) ==
        "rfft transforms f32 and f64, got c64[4]; fft transforms complex numbers");
  CHECK(refused({c64, {4, 0}}, {}) == "there is nothing to transform along axis 1 of c64[4, 0]");
  CHECK(refused({c64, {4}}, {FftKind::irfft, {-1}, FftNorm::backward, 9}) ==
        "a real signal of 9 places has 5 in its spectrum, but c64[4] has 4 along axis 0; `resized` cuts or fills");
  CHECK(refused({c64, {1}}, {FftKind::irfft}) ==
        "a real signal of 0 places has 1 in its spectrum, but c64[1] has 1 along axis 0; give its length");
  CHECK(refused({c64, {4}}, {FftKind::fft, {-1}, FftNorm::backward, 4}) ==
        "`length` is irfft's; `resized` cuts or fills what others transform");
  CHECK(refused({c64, {4}}, {FftKind::fft, {}}) ==
        "axes is empty; name the axes to transform, or leave it out for the last");
}
