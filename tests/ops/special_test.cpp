// Special functions to their last digits: relative errors, where the comparison of all golden cases is absolute
// below 1.
#include "ops/hard_cases.h"
#include "rlx/session.h"
#include "support/golden_family.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// How much larger the relative error of a function may be than 1e-13 in f64 and 8 units in the last place (5e-7) in
/// f32.
double slack(std::string_view op, DType dtype) {
  // Powers and exponentials of large numbers: their exponents are rounded, and that error is multiplied by them.
  if (op == "igamma" || op == "igammac") return dtype == f64 ? 10 : 40;
  if (op == "zeta" || op == "polygamma") return dtype == f64 ? 10 : 8;
  if (op == "i0" || op == "i1" || op == "erfcx" || op == "log_ndtr") return 2;
  if (op == "ndtr") return 2;  // the reference rounds x / sqrt 2, whose square is an exponent
  // Near their zeros between the poles, where they are differences of two larger numbers.
  if (op == "lgamma" || op == "digamma") return 4;
  return 1;
}

struct Worst {
  double error = 0, at = 0;
};

}  // namespace

TEST_CASE("special functions keep their digits over their whole range, on the CPU and by the reference") {
  Session session(Device::cpu(), {1});
  size_t points = 0;
  for (const GoldenCase& c : golden_family("special")) {
    DType dtype = c.outputs[0].dtype();
    std::string_view op;
    for (const Node& node : c.graph.nodes()) op = node.op->name;
    for (bool on_cpu : {false, true}) {
      Tensor got = on_cpu ? session.compile(c.graph).run_ordered(c.inputs)[0] : interpret(c.graph, c.inputs)[0];
      double allowed = (dtype == f64 ? 1e-13 : 5e-7) * slack(op, dtype);
      Worst worst;
      for (size_t i = 0; i < got.element_count(); ++i) {
        double x = load<double>(got, i), y = load<double>(c.outputs[0], i);
        double error = x == y || (std::isnan(x) && std::isnan(y)) ? 0 : std::abs(x - y) / std::abs(y);
        if (!(error <= worst.error)) worst = {error, load<double>(c.inputs.back(), i)};
        ++points;
      }
      CHECK_MESSAGE(worst.error <= allowed, c.graph.name(), on_cpu ? " on the CPU" : "", ": a relative error of ",
                    worst.error, " at ", worst.at);
    }
  }
  MESSAGE(points, " points");
  CHECK(points > 5000);
}

TEST_CASE("the multivariate gamma function is SciPy's") {
  // scipy.special.multigammaln
  CHECK(mismatch_of_floats([](Values v) { return multigammaln(v[0], 3); }, {{{3}, {2.5, 4, 10}}},
                           {{{3}, {1.8809954616117743, 5.402975080909175, 36.81285863239809}}}) == "");
}
TEST_CASE("special functions refuse what they have no meaning for") {
  CHECK(refusal([](Values v) { return polygamma(v[0], -1); }, {{f64, {2}}}) == "n must lie between 0 and 100, got -1");
  CHECK(refusal([](Values v) { return lgamma(v[0]); }, {{i32, {2}}}) ==
        "an operand of float is needed, got i32[2]; convert it first");
  CHECK(refusal([](Values v) { return multigammaln(v[0], 0); }, {{f64, {2}}}) ==
        "the multivariate gamma function needs a dim, got 0");
}
