// Hard cases of softmax and its logarithms. Expected values: PyTorch 2.15 in f64.
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string along(Value (*op)(Value, int64_t), int64_t axis, Numbers x, std::vector<double> wanted) {
  return mismatch_of_floats([&](Values v) { return op(v[0], axis); }, {x}, {{x.shape, std::move(wanted)}});
}
std::string of_last(Value (*op)(Value, int64_t), std::vector<double> x, std::vector<double> wanted) {
  return along(op, -1, {{static_cast<int64_t>(x.size())}, x}, std::move(wanted));
}

}  // namespace

TEST_CASE("softmax gives equal weight to equal logits, however large") {
  CHECK(of_last(softmax, {1e4, 1e4, -1e4}, {0.5, 0.5, 0}) == "");
  CHECK(of_last(softmax, {kMost, kMost}, {0.5, 0.5}) == "");
  CHECK(of_last(softmax, {-kMost, -kMost}, {0.5, 0.5}) == "");
}
TEST_CASE("softmax gives no weight to -inf, and NaN where nothing is left or something is infinite") {
  CHECK(of_last(softmax, {0, -kInf, 1}, {0.26894142136999516, 0, 0.7310585786300049}) == "");
  CHECK(of_last(softmax, {-kInf, -kInf}, {kNaN, kNaN}) == "");
  CHECK(of_last(softmax, {kInf, 0}, {kNaN, kNaN}) == "");
  CHECK(of_last(softmax, {kNaN, 0}, {kNaN, kNaN}) == "");
  CHECK(of_last(softmax, {0, kNaN}, {kNaN, kNaN}) == "");
}
TEST_CASE("softmax honours its axis") {
  Numbers x{{2, 2, 2}, {0, 1, 2, 3, 0, 0, 1, 5}};
  double a = 0.11920292202211755, b = 0.8807970779778823, c = 0.2689414213699951, d = 0.7310585786300049;
  double e = 0.0066928509242848554, f = 0.9933071490757153, h = 0.017986209962091555, i = 0.9820137900379085;
  CHECK(along(softmax, -1, x, {c, d, c, d, 0.5, 0.5, h, i}) == "");
  CHECK(along(softmax, 1, x, {a, a, b, b, c, e, d, f}) == "");
  CHECK(along(softmax, 0, x, {0.5, d, d, a, 0.5, c, c, b}) == "");
  CHECK(along(softmax, -3, x, {0.5, d, d, a, 0.5, c, c, b}) == "");
}
TEST_CASE("softmax of one element is 1, of nothing nothing") {
  CHECK(along(softmax, -1, {{2, 1}, {5, -kMost}}, {1, 1}) == "");
  CHECK(along(softmax, -1, {{2, 0}, {}}, {}) == "");
  CHECK(along(softmax, 0, {{0, 2}, {}}, {}) == "");
}
TEST_CASE("softmax of f16 sums in f32") {
  // 4096 equal logits: a running f16 sum of ones would stop at 2048
  Tensor x = full(f16, {4096}, 3), y = full(f16, {4096}, 1.0 / 4096);
  CHECK(mismatch([](Values v) { return softmax(v[0]); }, {x}, {y}, 0) == "");
}
TEST_CASE("softmax refuses integers and axes that are not there") {
  CHECK(refusal([](Values v) { return softmax(v[0]); }, {{i32, {3}}}) ==
        "an operand of float is needed, got i32[3]; convert it first");
  CHECK(refusal([](Values v) { return softmax(v[0], 2); }, {{f32, {3, 4}}}) ==
        "axis 2 is out of range for rank 2; it goes from -2 to 1");
  CHECK(refusal([](Values v) { return softmax(v[0]); }, {{f32, {}}}) ==
        "axis -1 is out of range for rank 0; a scalar has no axes");
}

TEST_CASE("log_softmax keeps what softmax rounds to 0") {
  CHECK(of_last(log_softmax, {1e4, 0, -1e4}, {0, -10000, -20000}) == "");
  CHECK(of_last(log_softmax, {0, -kInf, 1}, {-1.3132616875182228, -kInf, -0.31326168751822286}) == "");
}

TEST_CASE("logsumexp survives large, infinite and absent elements") {
  Numbers x{{6, 2}, {1e4, 1e4, -kInf, -kInf, kInf, 0, kInf, -kInf, kNaN, 1, -1e4, -1e4}};
  std::vector<double> y = {10000.69314718056, -kInf, kInf, kInf, kNaN, -9999.30685281944};
  CHECK(mismatch_of_floats([](Values v) { return logsumexp(v[0], {1}); }, {x}, {{{6}, y}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return logsumexp(v[0], {-1}, true); }, {x}, {{{6, 1}, y}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return logsumexp(v[0], {1}); }, {{{2, 0}, {}}}, {{{2}, {-kInf, -kInf}}}) ==
        "");
  CHECK(mismatch_of_floats(
            [](Values v) {
              return logsumexp(v[0], {1, 0});
            },
            {{{2, 2}, {0, 0, 0, 0}}}, {{{}, {1.3862943611198906}}}) == "");
}
