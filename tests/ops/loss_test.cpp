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
  CHECK(refusal([](Values v) { return softmax_cross_entropy_with_logits(v[0], v[1]); },
                {{f32, {2, 3}}, {boolean, {2}}}) == "an index of integer is needed, got bool[2]; convert it first");
  CHECK(refusal([](Values v) { return nll(v[0], v[1]); }, {{f32, {2, 3}}, {i32, {3}}}) ==
        "labels must be i32[2], got i32[3]");
}
TEST_CASE("labels given as floats name the class that is their value, and no other") {
  const Numbers x{{6, 3}, {1, 2, 3, 0, -1, 2, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}};
  const double first = 0.4076059644443804, second = 2.1698460195562856;
  for (DType dtype : {f64, f32, f16, bf16}) {
    CAPTURE(dtype);
    const std::vector<Tensor> in = {tensor(f64, x.shape, x.values),
                                    tensor(dtype, {6}, {2, -0.0, 1.5, -0.5, kNaN, kInf})};
    const Tensor wanted = tensor(f64, {6}, {first, second, kNaN, kNaN, kNaN, kNaN});
    CHECK(mismatch([](Values v) { return softmax_cross_entropy_with_logits(v[0], v[1]); }, in, {wanted}) == "");
    CHECK(mismatch([](Values v) { return nll(log_softmax(v[0], -1), v[1]); }, in, {wanted}) == "");
    CHECK(mismatch([](Values v) { return cross_entropy(v[0], v[1], {.reduction = LossReduction::none}); }, in,
                   {wanted}) == "");
  }
  // -100 does not count, and beyond what i32 holds there is no class.
  const std::vector<Tensor> in = {tensor(f64, {3, 3}, {1, 2, 3, 0, -1, 2, 1, 2, 3}), tensor(f32, {3}, {2, 0, -100})};
  CHECK(mismatch([](Values v) { return cross_entropy(v[0], v[1]); }, in, {tensor(f64, {}, {(first + second) / 2})}) ==
        "");
  const std::vector<Tensor> far = {tensor(f64, {2, 3}, {1, 2, 3, 1, 2, 3}), tensor(f64, {2}, {4294967298.0, -1e300})};
  CHECK(mismatch([](Values v) { return nll(v[0], v[1]); }, far, {tensor(f64, {2}, {kNaN, kNaN})}) == "");
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
TEST_CASE("cross_entropy leaves out labels that do not count, whatever their logits are, and weighs the others") {
  // Row 2 holds NaN and inf, and its label does not count.
  Numbers x{{3, 3}, {1, 2, 3, 0, -1, 2, kNaN, kInf, 0}};
  Tensor labels = tensor(i64, {3}, {2, 0, -100});
  auto of = [&](CrossEntropyAttrs a, std::vector<double> weight, Shape shape, std::vector<double> wanted) {
    std::vector<Tensor> in = {tensor(f64, x.shape, x.values), labels};
    if (!weight.empty()) in.push_back(tensor(f64, {3}, weight));
    return mismatch(
        [&](Values v) { return v.size() > 2 ? cross_entropy(v[0], v[1], v[2], a) : cross_entropy(v[0], v[1], a); }, in,
        {tensor(f64, shape, wanted)});
  };
  const double first = 0.4076059644443804, second = 2.1698460195562856;
  CHECK(of({.reduction = LossReduction::none}, {}, {3}, {first, second, 0}) == "");
  CHECK(of({}, {}, {}, {(first + second) / 2}) == "");
  CHECK(of({.reduction = LossReduction::sum}, {}, {}, {first + second}) == "");
  CHECK(of({.reduction = LossReduction::batch_mean}, {}, {}, {(first + second) / 3}) == "");
  CHECK(of({}, {3, 0, 1}, {}, {(3 * second + first) / 4}) == "");
  CHECK(of({.ignore_index = 0}, {}, {}, {kNaN}) == "");  // -100 is no class then
  // Smoothing pulls towards the mean of all classes: 0.7 of the label's loss, 0.3 of their mean.
  CHECK(of({.label_smoothing = 0.3, .reduction = LossReduction::none}, {}, {3}, {first + 0.3, second - 0.1, 0}) == "");
}
TEST_CASE("huber is a parabola within delta and a line beyond, and overflows nowhere") {
  Numbers x{{5}, {0, 0.5, 1, -3, 1e30}}, t{{5}, {0, 0, 0, 0, 0}};
  CHECK(mismatch_of_floats([](Values v) { return huber(v[0], v[1], 1, LossReduction::none); }, {x, t},
                           {{{5}, {0, 0.125, 0.5, 2.5, 1e30}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return huber(v[0], v[1], 0.5); }, {{{2}, {2, 0.25}}, {{2}, {0, 0}}},
                           {{{}, {0.453125}}}) == "");
}
TEST_CASE("kl_divergence adds nothing where the target is 0") {
  Numbers x{{2, 2}, {-kInf, 0, -0.6931471805599453, -0.6931471805599453}}, t{{2, 2}, {0, 1, 0.5, 0.5}};
  CHECK(mismatch_of_floats([](Values v) { return kl_divergence(v[0], v[1], {.reduction = LossReduction::batch_mean}); },
                           {x, t}, {{{}, {0}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return kl_divergence(v[0], v[1], {.reduction = LossReduction::sum}); },
                           {{{2}, {-1, -2}}, {{2}, {0.25, 0.75}}}, {{{}, {1.1876648553811917}}}) == "");
}
