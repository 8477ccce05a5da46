// Hard cases of the losses. Expected values: PyTorch 2.15 in f64, torch.nn.functional of the same names.
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string of_labels(Value (*loss)(Value, Value, int64_t), int64_t axis, Numbers x, Shape shape,
                      std::vector<double> labels, std::vector<double> wanted) {
  for (DType dtype : {f64, f32})
    for (DType index : {i32, i64}) {
      auto why =
          mismatch([&](Values v) { return loss(v[0], v[1], axis); },
                   {tensor(dtype, x.shape, x.values), tensor(index, shape, labels)}, {tensor(dtype, shape, wanted)});
      if (!why.empty()) return why;
    }
  return "";
}

}  // namespace

TEST_CASE("cross entropy is exact for confident, impossible and absent classes") {
  Numbers logits{{3, 3}, {1, 2, 3, 0, -kInf, 0, 1e4, 0, -1e4}};
  auto loss = softmax_cross_entropy_with_logits;
  CHECK(of_labels(loss, -1, logits, {3}, {2, 1, 2}, {0.4076059644443804, kInf, 20000}) == "");
  CHECK(of_labels(loss, -1, logits, {3}, {2, 0, 0}, {0.4076059644443804, 0.6931471805599453, 0}) == "");
  CHECK(of_labels(loss, -1, logits, {3}, {3, -1, 0}, {kNaN, kNaN, 0}) == "");  // never a loss that looks like one
  CHECK(of_labels(loss, 1, {{1, 3, 2}, {1, 2, 3, 5, 0, 1}}, {1, 2}, {1, 2}, {0.16984601955628567, 4.065883903757429}) ==
        "");
  CHECK(of_labels(loss, 0, {{3}, {1, 2, 3}}, {}, {2}, {0.4076059644443804}) == "");
  CHECK(of_labels(loss, -1, {{0, 3}, {}}, {0}, {}, {}) == "");
  CHECK(of_labels(nll, -1, {{2, 2}, {-0.5, -1, -kInf, 0}}, {2}, {1, 1}, {1, 0}) == "");
  CHECK(refusal([](Values v) { return softmax_cross_entropy_with_logits(v[0], v[1]); }, {{f32, {2, 3}}, {f32, {2}}}) ==
        "an index of integer is needed, got f32[2]; convert it first");
  CHECK(refusal([](Values v) { return nll(v[0], v[1]); }, {{f32, {2, 3}}, {i32, {3}}}) ==
        "labels must be i32[2], got i32[3]");
}
TEST_CASE("cross entropy with soft targets adds nothing where the target is 0") {
  auto build = [](Values v) { return softmax_cross_entropy(v[0], v[1]); };
  CHECK(mismatch_of_floats(build, {{{1, 3}, {1, 2, 3}}, {{1, 3}, {0.2, 0.3, 0.5}}}, {{{1}, {1.1076059644443805}}}) ==
        "");
  CHECK(mismatch_of_floats(build, {{{1, 2}, {0, -kInf}}, {{1, 2}, {1, 0}}}, {{{1}, {0}}}) == "");
}
TEST_CASE("binary cross entropy neither overflows nor takes the logarithm of 0") {
  Numbers x{{4}, {100, -100, 0, 2}}, t{{4}, {1, 1, 0.25, 0}};
  CHECK(mismatch_of_floats([](Values v) { return binary_cross_entropy_with_logits(v[0], v[1], LossReduction::none); },
                           {x, t},
                           {{{4}, {3.720075976020836e-44, 100, 0.6931471805599453, 2.1269280110429727}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return binary_cross_entropy_with_logits(v[0], v[1]); }, {x, t},
                           {{{}, {25.70501879790073}}}) == "");
}
TEST_CASE("mse reduces as it is told") {
  Numbers x{{3}, {1, 2, 3}}, t{{3}, {1, 0, 7}};
  CHECK(mismatch_of_floats([](Values v) { return mse(v[0], v[1]); }, {x, t}, {{{}, {6.666666666666667}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return mse(v[0], v[1], LossReduction::sum); }, {x, t}, {{{}, {20}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return mse(v[0], v[1], LossReduction::none); }, {x, t},
                           {{{3}, {0, 4, 16}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return mse(v[0], v[1]); }, {{{0}, {}}, {{0}, {}}}, {{{}, {kNaN}}}) == "");
}
