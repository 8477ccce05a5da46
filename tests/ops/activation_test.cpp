// Hard cases of the activations. Expected values: PyTorch 2.15 in f64, torch.nn.functional of the same names.
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::vector<double> kInputs = {-kInf, -kMost, -20, -3, -1, -0.5,  -1e-3, 0,
                                     1e-3,  0.5,    1,   3,  20, kMost, kInf,  kNaN};
struct Row {
  std::string_view op;
  std::vector<double> wanted;  // of kInputs
};
const Row kRows[] = {
    {"relu", {0, 0, 0, 0, 0, 0, 0, 0, 0.001, 0.5, 1, 3, 20, kMost, kInf, kNaN}},
    {"relu6", {0, 0, 0, 0, 0, 0, 0, 0, 0.001, 0.5, 1, 3, 6, 6, 6, kNaN}},
    {"gelu",
     {kNaN, -0, -0, -0.00404969409489031, -0.15865525393145702, -0.15426876936299344, -0.000499601057786089, 0,
      0.000500398942213911, 0.34573123063700656, 0.841344746068543, 2.99595030590511, 20, kMost, kInf, kNaN}},
    {"gelu_tanh",
     {kNaN, -0, -0, -0.0036373920817729943, -0.1588080093917233, -0.15428599017485606, -0.000499601057786418, 0,
      0.000500398942213582, 0.34571400982514394, 0.8411919906082768, 2.996362607918227, 20, kMost, kInf, kNaN}},
    {"silu",
     {kNaN, -0, -4.122307236380407e-08, -0.14227761953270035, -0.2689414213699951, -0.1887703343990727,
      -0.0004997500000208334, 0, 0.0005002499999791667, 0.3112296656009273, 0.7310585786300049, 2.8577223804672998,
      19.999999958776925, kMost, kInf, kNaN}},
    {"softplus",
     {0, 0, 2.061153620314381e-09, 0.04858735157374206, 0.31326168751822286, 0.4740769841801067, 0.6926473055599401,
      0.6931471805599453, 0.6936473055599401, 0.9740769841801067, 1.3132616875182228, 3.048587351573742,
      20.000000002061153, kMost, kInf, kNaN}},
    {"log_sigmoid",
     {-kInf, -kMost, -20.000000002061153, -3.048587351573742, -1.3132616875182228, -0.9740769841801067,
      -0.6936473055599401, -0.6931471805599453, -0.6926473055599401, -0.4740769841801067, -0.31326168751822286,
      -0.04858735157374206, -2.061153620314381e-09, 0, 0, kNaN}},
    {"mish",
     {kNaN, -0, -4.122307240628762e-08, -0.1456474612756246, -0.30340146137410895, -0.22074377465173,
      -0.0005996799840458664, 0, 0.000600319983954133, 0.37524521130489513, 0.8650983882673103, 2.9865350049679575, 20,
      kMost, kInf, kNaN}},
    {"softsign",
     {kNaN, -1, -0.9523809523809523, -0.75, -0.5, -0.3333333333333333, -0.0009990009990009992, 0, 0.0009990009990009992,
      0.3333333333333333, 0.5, 0.75, 0.9523809523809523, 1, kNaN, kNaN}},
    {"selu",
     {-1.7580993408473766, -1.7580993408473766, -1.758099337223664, -1.6705687287671118, -1.1113307378125625,
      -0.6917581878028713, -0.0017572205841202705, 0, 0.0010507009873554805, 0.5253504936777402, 1.0507009873554805,
      3.1521029620664414, 21.014019747109607, 3.575349975927421e+38, kInf, kNaN}},
    {"hard_swish",
     {kNaN, -0, -0, -0, -0.3333333333333333, -0.20833333333333334, -0.0004998333333333334, 0, 0.0005001666666666667,
      0.2916666666666667, 0.6666666666666666, 3, 20, kMost, kInf, kNaN}},
    {"leaky_relu",
     {-kInf, -3.4028234663852885e+36, -0.2, -0.03, -0.01, -0.005, -1e-05, 0, 0.001, 0.5, 1, 3, 20, kMost, kInf, kNaN}},
    {"elu",
     {-1, -1, -0.9999999979388464, -0.950212931632136, -0.6321205588285577, -0.3934693402873666, -0.0009995001666250085,
      0, 0.001, 0.5, 1, 3, 20, kMost, kInf, kNaN}},
    {"celu",
     {-1, -1, -0.9999999979388464, -0.950212931632136, -0.6321205588285577, -0.3934693402873666, -0.0009995001666250085,
      0, 0.001, 0.5, 1, 3, 20, kMost, kInf, kNaN}},
    {"hard_sigmoid",
     {0, 0, 0, 0, 0.3333333333333333, 0.4166666666666667, 0.49983333333333335, 0.5, 0.5001666666666666,
      0.5833333333333334, 0.6666666666666666, 1, 1, 1, 1, kNaN}},
};

}  // namespace

TEST_CASE("activations give PyTorch's values, also at infinities, NaN and the largest finite numbers") {
  for (const Row& row : kRows) {
    CAPTURE(row.op);
    CHECK(mismatch_of_floats([&](Values in) { return emit(find_op(row.op), {in[0]}); }, {{{16}, kInputs}},
                             {{{16}, row.wanted}}) == "");
  }
}

TEST_CASE("activations with attributes give PyTorch's values") {
  auto check = [](auto build, std::vector<double> in, std::vector<double> wanted) {
    auto n = static_cast<int64_t>(in.size());
    CHECK(mismatch_of_floats([&](Values v) { return build(v[0]); }, {{{n}, in}}, {{{n}, wanted}}) == "");
  };
  check([](Value x) { return leaky_relu(x, 0.2); }, {-2, 0, 3}, {-0.4, 0, 3});
  check([](Value x) { return elu(x, 2); }, {-1, 0, 3, -kInf}, {-1.2642411176571153, 0, 3, -2});
  check([](Value x) { return celu(x, 2); }, {-1, 0, 3, -kInf}, {-0.7869386805747332, 0, 3, -2});
  check([](Value x) { return hard_sigmoid(x, 0.2, 0.5); }, {-3, -1, 0, 3, kNaN},
        {0, 0.3, 0.5, 1, kNaN});  // ONNX's defaults
  check([](Value x) { return prelu(x, full_like(x, 0.25)); }, {-2, 0, 3}, {-0.5, 0, 3});
}

TEST_CASE("activate applies what it is told") {
  auto one = [](Activation kind, double wanted) {
    CHECK(mismatch_of_floats([&](Values v) { return activate(v[0], kind); }, {{{}, {-1}}}, {{{}, {wanted}}}) == "");
  };
  one(Activation::none, -1);
  one(Activation::relu, 0);
  one(Activation::gelu, -0.15865525393145702);
  one(Activation::gelu_tanh, -0.1588080093917233);
  one(Activation::silu, -0.2689414213699951);
  one(Activation::sigmoid, 0.2689414213699951);
  one(Activation::tanh, -0.7615941559557649);
}

TEST_CASE("activations keep shapes, also of scalars and of nothing") {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{2, 0, 3}, Shape{1, 1}}) {
    std::vector<double> ones(static_cast<size_t>(element_count(shape)), 1.0);
    CHECK(mismatch_of_floats([](Values v) { return relu6(v[0]); }, {{shape, ones}}, {{shape, ones}}) == "");
  }
}

TEST_CASE("relu takes integers, gelu refuses them") {
  CHECK(mismatch([](Values v) { return relu(v[0]); }, {vector_of(i32, {-3, 0, 5})}, {vector_of(i32, {0, 0, 5})}) == "");
  CHECK(refusal([](Values v) { return gelu(v[0]); }, {{i32, {3}}}) ==
        "an operand of float is needed, got i32[3]; convert it first");
}

TEST_CASE("an activation of f16 is computed in f32 and rounded once") {
  // gelu(2) = 1.95449973 and gelu(-2) = -0.04550026, each the nearest f16
  CHECK(mismatch([](Values v) { return gelu(v[0]); }, {vector_of(f16, {2, -2})},
                 {vector_of(f16, {1.954500, -0.045500})}, 0) == "");
}
