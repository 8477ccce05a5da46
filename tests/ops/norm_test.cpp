// Hard cases of the normalizations. Expected values: PyTorch 2.15 in f64, torch.nn.functional of the same names.
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const Numbers kGamma{{3}, {1, 2, 3}}, kBeta{{3}, {0, 0.5, -1}}, kRow{{1, 3}, {1, 2, 4}};

std::string one(const Build& build, const std::vector<Numbers>& in, Numbers wanted) {
  return mismatch_of_floats(build, in, {std::move(wanted)});
}

}  // namespace

TEST_CASE("layer_norm applies gamma and beta to the normalized rows") {
  Numbers x{{2, 3}, {1, 2, 4, -1, 0, 1}};
  CHECK(one([](Values v) { return layer_norm(v[0], v[1], v[2]); }, {x, kGamma, kBeta},
            {{2, 3},
             {-1.0690415314502977, -0.03452076572514906, 3.0089057429386155, -1.2247356859083902, 0.5,
              2.6742070577251704}}) == "");
  CHECK(one([](Values v) { return layer_norm(v[0], {}, {}, 1e-3, 1); }, {{{1, 2, 2}, {1, 2, 4, 8}}},
            {{1, 2, 2}, {-1.0256839396197444, -0.6527079615762009, 0.09324399451088584, 1.5851479066850593}}) == "");
  CHECK(one([](Values v) { return layer_norm(v[0], {}, v[1]); }, {{{1, 3}, {3, 3, 3}}, kBeta},
            {{1, 3}, {0, 0.5, -1}}) == "");
}
TEST_CASE("layer_norm of equal elements is 0, of nearly equal large ones still their differences") {
  CHECK(one([](Values v) { return layer_norm(v[0]); }, {{{4}, {3, 3, 3, 3}}}, {{4}, {0, 0, 0, 0}}) == "");
  CHECK(one([](Values v) { return layer_norm(v[0]); }, {{{3}, {1e4, 1e4 + 1, 1e4 + 2}}},
            {{3}, {-1.2247356859083902, 0, 1.2247356859083902}}) == "");
  CHECK(one([](Values v) { return layer_norm(v[0]); }, {{{2, 1}, {5, -7}}}, {{2, 1}, {0, 0}}) == "");
  CHECK(one([](Values v) { return layer_norm(v[0]); }, {{{0, 3}, {}}}, {{0, 3}, {}}) == "");
  CHECK(one([](Values v) { return layer_norm(v[0]); }, {{{3}, {1, kNaN, 2}}}, {{3}, {kNaN, kNaN, kNaN}}) == "");
}
TEST_CASE("an epsilon too small for f16 still keeps equal elements from dividing by 0") {
  CHECK(mismatch([](Values v) { return layer_norm(v[0], {}, {}, 1e-12); }, {vector_of(f16, {2, 2, 2})},
                 {vector_of(f16, {0, 0, 0})}) == "");
}
TEST_CASE("layer_norm says what gamma and beta must be") {
  auto build = [](Values v) { return layer_norm(v[0], v[1], v[2]); };
  CHECK(refusal(build, {{f32, {2, 3}}, {f32, {2}}, {f32, {3}}}) == "gamma must be f32[3], got f32[2]");
  CHECK(refusal(build, {{f32, {2, 3}}, {f16, {3}}, {f32, {3}}}) ==
        "operands must have one dtype, got f32[2, 3] and f16[3]; convert one of them");
  CHECK(refusal([](Values v) { return layer_norm(v[0], {}, {}, -1); }, {{f32, {3}}}) ==
        "epsilon must be a number >= 0, got -1");
  CHECK(refusal(
            [](Values v) {
              return emit(op::layer_norm, {v[0], v[1]}, LayerNormAttrs{});
            },
            {{f32, {3}}, {f32, {3}}}) == "has_gamma = true and has_beta = true calls for 3 operands, got 2");
}
TEST_CASE("layer_norm of unknown extents divides by the count at hand") {
  Dim n = Dim::symbol("n");
  Graph g = trace(std::vector{Type{f64, {Dim::symbol("b"), n}}}, [](Values v) { return layer_norm(v[0], {}, {}, 0); });
  std::array x = {tensor(f64, {1, 2}, {1, 3})};
  CHECK(difference(interpret(made_of_primitives(g), x)[0], tensor(f64, {1, 2}, {-1, 1})) == "");
}

TEST_CASE("rms_norm leaves the mean in place") {
  Numbers x{{2, 3}, {1, 2, 4, -1, 0, 1}};
  CHECK(one([](Values v) { return rms_norm(v[0], v[1]); }, {x, kGamma},
            {{2, 3},
             {0.3779644460117677, 1.5118577840470708, 4.5355733521412125, -1.224743952833969, 0,
              3.6742318585019067}}) == "");
  CHECK(one([](Values v) { return rms_norm(v[0]); }, {{{2}, {0, 0}}}, {{2}, {0, 0}}) == "");
}

TEST_CASE("norms over channels know batch, channels and any space") {
  Numbers x{{1, 4, 2}, {1, 2, 3, 5, 0, 1, 2, 2}}, gamma{{4}, {1, 2, 3, 4}}, beta{{4}, {0, 1, 0, 1}};
  CHECK(one([](Values v) { return group_norm(v[0], 2, v[1], v[2]); }, {x, gamma, beta},
            {{1, 4, 2},
             {-1.1832132521355803, -0.5070913937723915, 1.3380609291815946, 4.04254836263435, -4.5226372768785925,
              -0.9045274553757183, 4.618109821502874, 4.618109821502874}}) == "");
  std::vector<double> instance = {-0.9999800005999799, 0.9999800005999799, -0.9999950000374997, 0.9999950000374997};
  CHECK(one([](Values v) { return instance_norm(v[0]); }, {{{1, 2, 2}, {1, 2, 3, 5}}}, {{1, 2, 2}, instance}) == "");
  CHECK(one([](Values v) { return group_norm(v[0], 2); }, {{{1, 2, 2}, {1, 2, 3, 5}}}, {{1, 2, 2}, instance}) == "");
  CHECK(one([](Values v) { return layer_norm_2d(v[0], v[1], v[2]); },
            {{{1, 3, 1, 2}, {1, 3, 2, -1, 4, 0}}, kGamma, kBeta},
            {{1, 3, 1, 2},
             {-1.0690415314502977, 1.37281056995105, -0.03452076572514906, -1.4611579570729287, 3.0089057429386155,
              -2.1766947742437575}}) == "");
  CHECK(refusal([](Values v) { return group_norm(v[0], 3); }, {{f32, {2, 4, 5}}}) ==
        "4 channels of f32[2, 4, 5] do not divide into 3 groups");
  CHECK(refusal([](Values v) { return instance_norm(v[0]); }, {{f32, {2, 4}}}) ==
        "x must be of rank at least 3, got f32[2, 4]");
}
TEST_CASE("batch_norm_inference takes its features from any axis") {
  std::vector<Numbers> statistics = {{{2}, {2, 3}}, {{2}, {1, -1}}, {{2}, {0.5, 1}}, {{2}, {4, 0}}};
  auto in = statistics;
  in.insert(in.begin(), {{2, 2}, {1, 2, 3, 4}});
  // In f32 the root of epsilon alone loses some digits.
  CHECK(mismatch_of_floats([](Values v) { return batch_norm_inference(v[0], v[1], v[2], v[3], v[4]); }, in,
                           {{{2, 2}, {1.4999993750011718, 947.6832980505137, 3.499996875005859, 2845.049894151541}}},
                           1e-5) == "");
  in[0] = {{2, 2}, {1, 3, 2, 4}};
  CHECK(mismatch_of_floats([](Values v) { return batch_norm_inference(v[0], v[1], v[2], v[3], v[4], 1e-5, 0); }, in,
                           {{{2, 2}, {1.4999993750011718, 3.499996875005859, 947.6832980505137, 2845.049894151541}}},
                           1e-5) == "");
}

TEST_CASE("l2_normalize leaves rows of zeros, and divides short ones by epsilon") {
  CHECK(one([](Values v) { return l2_normalize(v[0]); }, {{{3, 2}, {3, 4, 0, 0, 1e-20, 0}}},
            {{3, 2}, {0.6, 0.8, 0, 0, 1e-8, 0}}) == "");
  CHECK(one([](Values v) { return l2_normalize(v[0], 0); }, {{{2, 2}, {3, 4, 0, 0}}}, {{2, 2}, {1, 1, 0, 0}}) == "");
  CHECK(one([](Values v) { return l2_normalize(v[0]); }, {{{2}, {kNaN, 1}}}, {{2}, {kNaN, kNaN}}) == "");
}

TEST_CASE("a fused residual norm also gives the sum") {
  Numbers residual{{1, 3}, {0.5, -1, 1}}, bias{{3}, {1, 0, -1}}, sum{{1, 3}, {2.5, 1, 4}};
  auto layer = [](Values v) {
    auto r = fused_residual_layer_norm(v[0], v[1], v[2], v[3], v[4]);
    return std::vector{r.norm, r.sum};
  };
  CHECK(mismatch_of_floats(layer, {kRow, residual, bias, kGamma, kBeta},
                           {{{1, 3}, {0, -1.9494815778581933, 2.6742223667872898}}, sum}) == "");
  auto rms = [](Values v) {
    auto r = fused_residual_rms_norm(v[0], v[1], v[2], v[3]);
    return std::vector{r.norm, r.sum};
  };
  CHECK(mismatch_of_floats(rms, {kRow, residual, bias, kGamma},
                           {{{1, 3}, {0.8980264521966859, 0.7184211617573487, 4.3105269705440925}}, sum}) == "");
  auto no_bias = [](Values v) { return fused_residual_layer_norm(v[0], v[1], {}, v[2], v[3]).sum; };
  CHECK(mismatch_of_floats(no_bias, {kRow, residual, kGamma, kBeta}, {{{1, 3}, {1.5, 1, 5}}}) == "");
}

TEST_CASE("modulated norms and gates broadcast") {
  Numbers scale{{3}, {0.5, 0, -1}}, shift{{3}, {1, 2, 3}};
  CHECK(one([](Values v) { return ada_layer_norm(v[0], v[1], v[2]); }, {kRow, scale, shift},
            {{1, 3}, {-0.6035622971754466, 1.7327396171374254, 3}}) == "");
  CHECK(one([](Values v) { return ada_layer_norm(v[0], v[1], v[2], AdaNormKind::rms_norm, 1e-6); },
            {kRow, scale, shift}, {{1, 3}, {1.5669466690176517, 2.7559288920235354, 3}}) == "");
  CHECK(one([](Values v) { return gated_residual(v[0], v[1], v[2]); }, {kRow, scale, {{1, 1}, {10}}},
            {{1, 3}, {6, 2, -6}}) == "");
  CHECK(refusal([](Values v) { return gated_residual(v[0], v[1], v[2]); }, {{f32, {1, 3}}, {f32, {2, 3}}, {f32, {}}}) ==
        "y must broadcast to f32[1, 3], got f32[2, 3]");
}
