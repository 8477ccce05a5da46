// Hard cases of attention and the rotary positions. Expected values: PyTorch 2.15 in f64 (scaled_dot_product_attention
// with the mask written out; the rotations as complex products).
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Two heads of q, one of k and v: three queries at positions 1, 2, 3 of four keys, packed.
const Numbers kQ{{1, 3, 4}, {1, 0, 0.5, -1, 0, 1, 1, 0.5, 1, 1, -1, 2}};
const Numbers kK{{1, 4, 2}, {1, 0, 0, 2, 1, -1, 0.5, 0.5}};
const Numbers kV{{1, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
const AttentionAttrs kGrouped{.heads = 2, .kv_heads = 1, .layout = AttentionLayout::packed};

template <class F>
AttentionAttrs grouped(F set) {
  AttentionAttrs a = kGrouped;
  set(a);
  return a;
}
std::string attends(AttentionAttrs a, std::vector<double> wanted, std::vector<Numbers> mask = {}) {
  std::vector<Numbers> in = {kQ, kK, kV};
  in.insert(in.end(), mask.begin(), mask.end());
  auto build = [&](Values v) {
    return v.size() > 3 ? attention(v[0], v[1], v[2], v[3], a) : attention(v[0], v[1], v[2], a);
  };
  return mismatch_of_floats(build, in, {{{1, 3, 4}, std::move(wanted)}});
}

}  // namespace

TEST_CASE("causal attention counts positions from the end of the keys") {
  CHECK(attends(grouped([](auto& a) { a.causal = true; }),
                {1.660476901346686, 2.660476901346686, 1.2916404999872386, 2.2916404999872384, 2.819157168095804,
                 3.8191571680958045, 2.779577554617497, 3.7795775546174974, 3.660476901346686, 4.660476901346686,
                 3.2611370549982612, 4.261137054998261}) == "");
}
TEST_CASE("a query with a NaN gives NaN, also where masked keys follow those that it sees") {
  Numbers q = kQ;
  q.values[0] = kNaN;
  const AttentionAttrs causal = grouped([](auto& a) { a.causal = true; });
  CHECK(mismatch_of_floats([&](Values v) { return attention(v[0], v[1], v[2], causal); }, {q, kK, kV},
                           {{{1, 3, 4},
                             {kNaN, kNaN, 1.2916404999872386, 2.2916404999872384, 2.819157168095804, 3.8191571680958045,
                              2.779577554617497, 3.7795775546174974, 3.660476901346686, 4.660476901346686,
                              3.2611370549982612, 4.261137054998261}}}) == "");
}
TEST_CASE("a window reaches to both sides, and with causal to one") {
  CHECK(attends(grouped([](auto& a) { a.window = 1; }),
                {3, 4, 3.6428071395709845, 4.6428071395709845, 4.1081472624971624, 5.108147262497163, 4.87242267519811,
                 5.872422675198111, 6.339523098653314, 7.339523098653314, 6.844722991863162, 7.844722991863162}) == "");
  CHECK(attends(grouped([](auto& a) { a.window = 1, a.causal = true; }),
                {1.660476901346686, 2.660476901346686, 1.2916404999872386, 2.2916404999872384, 3.2140836029303412,
                 4.214083602930342, 3.825041998320781, 4.825041998320781, 6.339523098653314, 7.339523098653314,
                 6.844722991863162, 7.844722991863162}) == "");
}
TEST_CASE("padding and causality combine, whatever the mask's shape and dtype") {
  std::vector<double> wanted = {1,
                                2,
                                1,
                                2,
                                2.3209538026933725,
                                3.320953802693372,
                                2.6500839966415612,
                                3.6500839966415617,
                                4.197775814640429,
                                5.197775814640428,
                                5.430013283922342,
                                6.430013283922341};
  auto a = grouped([](auto& attrs) { attrs.causal = true, attrs.mask = AttentionMask::key_padding; });
  for (const Shape& shape : {Shape{4}, Shape{1, 4}, Shape{1, 1, 4}, Shape{1, 1, 1, 4}})
    CHECK(attends(a, wanted, {{shape, {1, 0.25, 0.5, 1}}}) == "");
  for (DType dtype : {boolean, i64, u8, f16})
    CHECK(mismatch([&](Values v) { return attention(v[0], v[1], v[2], v[3], a); },
                   {tensor(f64, kQ.shape, kQ.values), tensor(f64, kK.shape, kK.values),
                    tensor(f64, kV.shape, kV.values), vector_of(dtype, {1, 0, 1, 1})},
                   {tensor(f64, {1, 3, 4}, wanted)}) == "");
}
TEST_CASE("a bias is added behind the scale, and -inf in it masks") {
  CHECK(attends(grouped([](auto& a) { a.mask = AttentionMask::bias, a.scale = 0.3; }),
                {5.500570488506975, 6.500570488506974, 5.639334732316475, 6.639334732316475, 3.8738991120927424,
                 4.873899112092742, 3.9060139563381178, 4.906013956338118, 4.519984010723651, 5.519984010723651,
                 3.982669082685581, 4.9826690826855815},
                {{{3, 4}, {0, 1, -kInf, 2, 0, 0, 0, 0, -1, 1, -1, 1}}}) == "");
}
TEST_CASE("the soft cap comes behind the scale and before the softmax") {
  AttentionAttrs a{.heads = 1, .scale = 2.0, .softcap = 1.5};
  CHECK(mismatch_of_floats(
            [&](Values v) { return attention(v[0], v[1], v[2], a); },
            {{{1, 1, 3, 2}, {1, 0, 0, 1, 1, 1}}, {{1, 1, 2, 2}, {1, 0, 0, 2}}, {{1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}}},
            {{{1, 1, 3, 3},
              {1.6399276191032672, 2.6399276191032675, 3.6399276191032675, 3.4462443756276824, 4.446244375627682,
               5.446244375627682, 2.6350036251548206, 3.635003625154821, 4.635003625154821}}}) == "");
}
TEST_CASE("a query that sees no key gives zeros") {
  Numbers q{{1, 1, 3, 2}, {1, 0, 0, 1, 1, 1}}, k{{1, 1, 2, 2}, {1, 0, 0, 2}}, v{{1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}};
  Numbers causal{{1, 1, 3, 3}, {0, 0, 0, 1, 2, 3, 3.0092846479799706, 4.00928464797997, 5.00928464797997}};
  CHECK(mismatch_of_floats([](Values x) { return attention(x[0], x[1], x[2], {.causal = true}); }, {q, k, v},
                           {causal}) == "");
  AttentionAttrs padded{.mask = AttentionMask::key_padding}, biased{.mask = AttentionMask::bias};
  Numbers zeros{{1, 1, 3, 3}, std::vector<double>(9)};
  CHECK(mismatch_of_floats([&](Values x) { return attention(x[0], x[1], x[2], x[3], padded); },
                           {q, k, v, {{2}, {0, 0}}}, {zeros}) == "");
  CHECK(mismatch_of_floats([&](Values x) { return attention(x[0], x[1], x[2], x[3], biased); },
                           {q, k, v, {{}, {-kInf}}}, {zeros}) == "");
  CHECK(mismatch_of_floats([](Values x) { return attention(x[0], x[1], x[2], {}); },
                           {q, {{1, 1, 0, 2}, {}}, {{1, 1, 0, 3}, {}}}, {zeros}) == "");
}
TEST_CASE("scores beyond the range of e^x choose their key") {
  CHECK(mismatch_of_floats([](Values x) { return attention(x[0], x[1], x[2], {.scale = 1.0}); },
                           {{{1, 1, 1, 1}, {1e4}}, {{1, 1, 2, 1}, {1, -1}}, {{1, 1, 2, 1}, {3, 5}}},
                           {{{1, 1, 1, 1}, {3}}}) == "");
}
TEST_CASE("the layouts hold the same attention") {
  // heads first: [1, 2, 3, 2]; heads second: [1, 3, 2, 2], which is the packed one split
  std::vector<double> heads_first = {1, 0, 0, 1, 1, 1, 0.5, -1, 1, 0.5, -1, 2};
  auto run = [](AttentionAttrs a, Numbers q, Shape kv) {
    std::vector<Type> types;
    std::vector<Tensor> in = {tensor(f64, q.shape, q.values), tensor(f64, kv, kK.values), tensor(f64, kv, kV.values)};
    for (const Tensor& t : in) types.push_back(t.type());
    return interpret(trace(types, [&](Values v) { return attention(v[0], v[1], v[2], a); }), in)[0];
  };
  Tensor packed = run(kGrouped, kQ, kK.shape), flat = run(kGrouped, {{3, 4}, kQ.values}, {4, 2});
  Tensor second =
      run(grouped([](auto& a) { a.layout = AttentionLayout::bshd; }), {{1, 3, 2, 2}, kQ.values}, {1, 4, 1, 2});
  Tensor first =
      run(grouped([](auto& a) { a.layout = AttentionLayout::bhsd; }), {{1, 2, 3, 2}, heads_first}, {1, 1, 4, 2});
  CHECK(difference(flat.reshaped({1, 3, 4}), packed) == "");
  CHECK(difference(second.reshaped({1, 3, 4}), packed) == "");
  CHECK(difference(run_op(op::transpose, TransposeAttrs{{0, 2, 1, 3}}, std::array{first})[0].reshaped({1, 3, 4}),
                   packed) == "");
}
TEST_CASE("attention of unknown batch and lengths needs no number") {
  Dim b = Dim::symbol("b"), s = Dim::symbol("s"), t = Dim::symbol("t");
  auto a = grouped([](auto& attrs) { attrs.causal = true, attrs.mask = AttentionMask::key_padding; });
  Graph g = trace(std::vector{Type{f64, {b, s, 4}}, Type{f64, {b, t, 2}}, Type{f64, {b, t, 2}}, Type{boolean, {b, t}}},
                  [&](Values v) { return attention(v[0], v[1], v[2], v[3], a); });
  CHECK(g.output_types()[0] == Type{f64, {b, s, 4}});
  std::array in = {tensor(f64, kQ.shape, kQ.values), tensor(f64, kK.shape, kK.values), tensor(f64, kV.shape, kV.values),
                   tensor(boolean, {1, 4}, {1, 0, 1, 1})};
  CHECK(difference(interpret(made_of_primitives(g), in)[0], interpret(g, in)[0]) == "");
}
TEST_CASE("attention says what does not fit") {
  auto build = [](AttentionAttrs a) { return [=](Values v) { return emit(op::attention, {v.begin(), v.end()}, a); }; };
  CHECK(refusal(build({.heads = 4}), {{f32, {1, 2, 3, 4}}, {f32, {1, 2, 3, 4}}, {f32, {1, 2, 3, 4}}}) ==
        "q f32[1, 2, 3, 4] has 2 heads in the layout bhsd, the attributes say 4");
  CHECK(refusal(build({.heads = 3, .kv_heads = 2}), {{f32, {1, 3, 3, 4}}, {f32, {1, 2, 3, 4}}, {f32, {1, 2, 3, 4}}}) ==
        "3 query heads cannot share 2 heads of k and v evenly");
  CHECK(
      refusal(build({.heads = 3, .layout = AttentionLayout::packed}), {{f32, {2, 4}}, {f32, {2, 4}}, {f32, {2, 4}}}) ==
      "the last dim of q f32[2, 4] does not divide into 3 heads");
  CHECK(refusal(build({.mask = AttentionMask::key_padding}),
                {{f32, {2, 1, 3, 4}}, {f32, {2, 1, 3, 4}}, {f32, {2, 1, 3, 4}}, {f32, {3, 3}}}) ==
        "a key padding mask must be f32[2, 3], got f32[3, 3]; what differs between queries or heads is a bias");
  CHECK(refusal(build({}), {{f32, {2, 1, 3, 4}}, {f32, {2, 1, 3, 4}}, {f32, {2, 1, 3, 4}}, {f32, {2, 3}}}) ==
        "the mask is 'none', but there are 4 operands; the fourth is the mask");
  CHECK(refusal(build({}), {{f32, {2, 1, 3, 4}}, {f32, {2, 1, 5, 4}}, {f32, {2, 1, 3, 4}}}) ==
        "k f32[2, 1, 5, 4] and v f32[2, 1, 3, 4] differ in length: 5 and 3");
}

namespace {

const Numbers kX{{1, 2, 6}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}};
const std::vector<double> kAngles = {0.1, 0.2, 0.3, 1, 2, 3};
Numbers table(Shape shape, double (*f)(double), std::vector<size_t> places) {
  Numbers n{std::move(shape), {}};
  for (size_t i : places) n.values.push_back(f(kAngles[i]));
  return n;
}
std::string turns(RopeAttrs a, Shape shape, std::vector<size_t> places, std::vector<double> wanted) {
  a.layout = AttentionLayout::packed;
  return mismatch_of_floats([&](Values v) { return rope(v[0], v[1], v[2], a); },
                            {kX, table(shape, std::cos, places), table(shape, std::sin, places)},
                            {{{1, 2, 6}, std::move(wanted)}});
}
const std::vector<size_t> kAll = {0, 1, 2, 3, 4, 5};

}  // namespace

TEST_CASE("rope turns halves or neighbours") {
  CHECK(turns({}, {2, 3}, kAll,
              {0.5956704986907132, 0.9667865017071772, 1.092888227408781, 4.079850077758931, 5.297671550796331,
               6.618579554737655, -2.8255816333634463, -5.378780807222694, -3.8166975381605397, 3.002680208280456,
               -0.26213932908434856, -5.516594955423072}) == "");
  CHECK(turns({.style = RopeStyle::gptj}, {2, 3}, kAll,
              {0.7953373319843695, 2.08984174720288, 2.1455224103434802, 4.5162743037501505, 3.0035612056599925,
               7.209619968060334, -1.1426396637476532, 1.922075596544176, -4.885630216944154, 1.0633049342884755,
               -5.79668253136143, -5.234354939303337}) == "");
}
TEST_CASE("partial rope takes the row stride of its table from the table") {
  std::vector<double> neox = {0.6955039153375413,  1.1654558325022384, 3.0848459124809056, 4.317604972955089,  5, 6,
                              -1.9841106485555495, -4.469483380397012, 2.4623779024123156, 0.1540075074627938, 5, 6};
  std::vector<double> gptj = {0.7953373319843695,  2.08984174720288,  2.1455224103434802, 4.5162743037501505, 5, 6,
                              -1.1426396637476532, 1.922075596544176, -4.885630216944154, 1.0633049342884753, 5, 6};
  for (RopeStyle style : {RopeStyle::neox, RopeStyle::gptj}) {
    const auto& wanted = style == RopeStyle::neox ? neox : gptj;
    RopeAttrs a{.rotary_dims = 4, .style = style};
    CHECK(turns(a, {2, 3}, kAll, wanted) == "");
    CHECK(turns(a, {2, 2}, {0, 1, 3, 4}, wanted) == "");
    CHECK(turns(a, {4}, {0, 1, 3, 4}, wanted) == "");
    CHECK(turns(a, {1, 2, 3}, kAll, wanted) == "");
  }
  CHECK(turns({.rotary_dims = 0}, {2, 0}, {}, kX.values) == "");
}
TEST_CASE("a table of B * S rows belongs to the tokens") {
  // two batches of one position, with the angles of positions 0 and 1
  auto build = [](Values v) { return rope(v[0], v[1], v[2], {.layout = AttentionLayout::packed}); };
  CHECK(mismatch_of_floats(
            build, {{{2, 1, 2}, {1, 0, 1, 0}}, table({2, 1}, std::cos, {0, 3}), table({2, 1}, std::sin, {0, 3})},
            {{{2, 1, 2}, {0.9950041652780258, 0.09983341664682815, 0.5403023058681398, 0.8414709848078965}}}) == "");
}
TEST_CASE("rope of unknown batch and length needs no number, and takes tables of f32 beside f16") {
  Dim b = Dim::symbol("b"), s = Dim::symbol("s");
  for (RopeStyle style : {RopeStyle::neox, RopeStyle::gptj}) {
    RopeAttrs a{.layout = AttentionLayout::packed, .rotary_dims = 4, .style = style};
    Graph g = trace(std::vector{Type{f16, {b, s, 6}}, Type{f32, {s, 3}}, Type{f32, {s, 3}}},
                    [&](Values v) { return rope(v[0], v[1], v[2], a); });
    Numbers cos = table({2, 3}, std::cos, kAll), sin = table({2, 3}, std::sin, kAll);
    std::array in = {tensor(f16, kX.shape, kX.values), tensor(f32, cos.shape, cos.values),
                     tensor(f32, sin.shape, sin.values)};
    CHECK(difference(interpret(made_of_primitives(g), in)[0], interpret(g, in)[0]) == "");
  }
}
TEST_CASE("rope refuses odd widths and tables of other lengths") {
  auto build = [](Values v) { return rope(v[0], v[1], v[2], {.layout = AttentionLayout::packed}); };
  CHECK(refusal(build, {{f32, {1, 2, 5}}, {f32, {2, 2}}, {f32, {2, 2}}}) ==
        "5 rotary dims; heads of 5 elements turn in pairs");
  CHECK(refusal(build, {{f32, {3, 2, 6}}, {f32, {5, 3}}, {f32, {5, 3}}}) ==
        "a table of angles must be f32[2, 3], or have 3 times as many rows; got f32[5, 3]");
}

TEST_CASE("axial_rope2d turns by x in the first half of a head and by y in the second") {
  std::vector<double> x(16), y = {0,
                                  1,
                                  2,
                                  3,
                                  -2.0461457005669237,
                                  6.067395468572284,
                                  6,
                                  7,
                                  8,
                                  9,
                                  -3.8531577742054646,
                                  14.358035212628502,
                                  -4.455495132084977,
                                  17.121581793980575,
                                  -5.057832489964491,
                                  19.88512837533265};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  auto grid = [](int64_t end_x, int64_t end_y, double theta) {
    return [=](Values v) { return axial_rope2d(v[0], {.end_x = end_x, .end_y = end_y, .theta = theta}); };
  };
  CHECK(mismatch_of_floats(grid(2, 2, 100), {{{1, 4, 4}, x}}, {{{1, 4, 4}, y}}) == "");
  CHECK(mismatch_of_floats(grid(2, 1, 100), {{{1, 2, 8}, x}},
                           {{{1, 2, 8},
                             {0, 1, 2, 3, 4, 5, 6, 7, -3.2508204163259506, 11.59448863127643, 8.851874069665149,
                              11.943379984526565, 12, 13, 14, 15}}}) == "");
  CHECK(refusal(grid(2, 2, 100), {{f32, {1, 5, 4}}}) ==
        "5 positions of f32[1, 5, 4] do not fill a grid of 2 by 2, repeated 1 times");
}
