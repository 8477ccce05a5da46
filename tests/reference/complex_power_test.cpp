// Powers of complex zeros, by the interpreter and by the CPU's kernels: 0, 1 or NaN, as NumPy 2 has them
// (np.power(0j, y)), where std::pow gives an infinity or a zero.
#include <doctest/doctest.h>

#include <cmath>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

TEST_CASE("a complex zero to a power is 0, 1 or NaN by the sign of the power's real part") {
  const std::vector<Complex> exponents = {2, 0.5, 1e-3, {1, 2}, 0, -1, -0.5, {0, 1}, {-1, 2}};
  const std::vector<double> wanted = {0, 0, 0, 0, 1, NAN, NAN, NAN, NAN};
  for (DType t : {c64, c128}) {
    Graph g("power");
    Value x = g.input("x", t, {9}), y = g.input("y", t, {9});
    g.output(pow(x, y));
    std::vector<Tensor> in = {Tensor(t, {9}), Tensor(t, {9})};
    for (size_t i = 0; i < 9; ++i) store<Complex>(in[1], i, exponents[i]);
    for (const Tensor& out : {interpret(g, in)[0], Session(Device::cpu()).compile(g).run_ordered(in)[0]})
      for (size_t i = 0; i < 9; ++i) {
        const auto z = load<Complex>(out, i);
        CAPTURE(i);
        if (std::isnan(wanted[i])) CHECK((std::isnan(z.real()) && std::isnan(z.imag())));
        else CHECK(z == Complex(wanted[i]));
      }
  }
}
