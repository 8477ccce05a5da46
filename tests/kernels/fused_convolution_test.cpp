// Convolutions with what follows them, by each of the CPU's ways (products, depthwise, oneDNN, our own), against the
// reference.
#include <doctest/doctest.h>

#include <cmath>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/emulated_tiles.h"
#include "support/sanitized.h"

using namespace rlx;
using rlx::test::MatrixTiles;
using rlx::test::sanitized;

namespace {

struct Case {
  Dims x, w;
  FusedConvAttrs attrs;
  bool bias = true, residual = false;
};

/// x, residual and, unless they are bound, weights and bias are inputs.
struct Built {
  Graph graph{"g"};
  std::vector<Tensor> inputs;
  std::map<std::string, Tensor, std::less<>> params;
};
Built built(const Case& c, bool bound, float first = 0.5F) {
  Built b;
  uint64_t seed = 3;
  const auto leaf = [&](const char* name, const Dims& dims, bool is_param) {
    Tensor t = random_tensor(f32, shape_of(dims), seed++, -1, 1);
    if (is_param) return b.params.emplace(name, t), b.graph.param(name, f32, dims);
    b.inputs.push_back(t);
    return b.graph.input(name, f32, dims);
  };
  Value x = leaf("x", c.x, false), w = leaf("w", c.w, bound), bias, residual;
  if (c.bias) bias = leaf("b", {c.w[0]}, bound);
  if (c.residual) residual = leaf("r", fused_conv(x, w, {}, {}, c.attrs).dims(), false);
  b.graph.output(fused_conv(x, w, bias, residual, c.attrs), "y");
  if (b.inputs[0].element_count() > 0) b.inputs[0].mutable_values<float>()[0] = first;
  return b;
}

/// What the reference gives, or nothing under a sanitizer: that judges the memory which the kernels touch, and there
/// the reference would take minutes.
std::vector<Tensor> expected(const Graph& g, const std::vector<Tensor>& in,
                             const std::map<std::string, Tensor, std::less<>>& params) {
  if (sanitized()) return {};
  return interpret(g, in, {params.begin(), params.end()});
}
std::string differs(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  return wanted.empty() ? "" : difference(got, wanted, 2e-5);
}

std::string differs(const Case& c, float first = 0.5F) {
  std::vector<Tensor> wanted;  // the same numbers, whether weights are bound or given
  for (bool bound : {true, false}) {
    if (sanitized() && bound != (c.w[0].value() % 2 == 0)) continue;  // one of the two
    const Built b = built(c, bound, first);
    if (wanted.empty()) wanted = expected(b.graph, b.inputs, b.params);
    for (int threads : {1, 2, 3}) {
      if (sanitized() && threads != 3) continue;
      auto compiled = Session(Device::cpu(), {threads}).compile(b.graph);
      compiled.set_params(b.params);
      for (int again = 0; again < 2; ++again)
        if (auto why = differs(compiled.run_ordered(b.inputs), wanted); !why.empty())
          return text_of(bound ? "bound, " : "given, ", threads, " threads: ", why);
    }
  }
  return "";
}

/// The same convolution with channels behind the spatial dims.
Case last(Case c) {
  std::rotate(c.x.begin() + 1, c.x.begin() + 2, c.x.end());
  c.attrs.channels_last = true;
  return c;
}

const std::vector<Case> kCases = {
    {{1, 24, 9, 7}, {40, 24, 1, 1}, {.activation = Activation::relu}, true, true},       // a product
    {{3, 70, 5, 5}, {33, 70, 1, 1}, {.activation = Activation::hard_swish}},             // columns left over
    {{2, 16, 6, 6}, {8, 16, 1, 1}, {.stride = {2, 2}, .activation = Activation::relu}},  // no product
    {{1, 16, 1, 1}, {8, 16, 1, 1}, {.activation = Activation::sigmoid}, true, true},     // one place
    {{2, 35, 11, 19}, {35, 1, 3, 3}, {.padding = {1, 1}, .groups = 35, .activation = Activation::relu6}, true, true},
    {{1, 48, 12, 9}, {48, 1, 5, 5}, {.stride = {2, 2}, .padding = {2, 2}, .groups = 48}},  // depthwise
    {{1, 17, 8, 30},
     {17, 1, 3, 3},
     {.padding = {2, 0}, .dilation = {2, 2}, .padding_high = {0, 4}, .groups = 17},
     false},
    {{0, 64, 12, 12}, {40, 64, 3, 3}, {.padding = {1, 1}}},  // no image
    {{0, 64, 12, 12}, {40, 64, 1, 1}, {.stride = {2, 2}}},
    {{1, 20, 2, 2}, {20, 1, 5, 5}, {.padding = {4, 4}, .groups = 20}},  // most taps see nothing
    {{2, 6, 40}, {6, 1, 7}, {.stride = {3}, .padding = {3}, .groups = 6, .activation = Activation::silu}},
    {{1, 32, 16, 9}, {32, 32, 3, 3}, {.padding = {1, 1}, .activation = Activation::relu}, true, true},   // oneDNN
    {{2, 33, 12, 11}, {37, 33, 3, 3}, {.padding = {1, 1}, .activation = Activation::relu}, true, true},  // tiles
    {{1, 32, 14, 10}, {33, 32, 5, 2}, {.padding = {2, 0}, .dilation = {1, 2}, .padding_high = {1, 3}}, false},
    {{1, 65, 12, 11}, {33, 65, 1, 3}, {.padding = {0, 1}, .activation = Activation::silu}, true, true},
    {{2, 32, 9, 11}, {32, 32, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .activation = Activation::gelu}},
    {{1, 3, 33, 29}, {16, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}, .activation = Activation::relu}},
    {{1, 32, 10, 10}, {32, 16, 3, 3}, {.padding = {1, 1}, .groups = 2, .activation = Activation::tanh}, true, true},
    {{2, 48, 90}, {32, 48, 5}, {.padding = {2}, .activation = Activation::gelu_tanh}, true, true},
    {{1, 16, 5, 6, 4}, {16, 16, 3, 3, 3}, {.padding = {1, 1, 1}, .activation = Activation::relu}, true, true},
    {{1, 64, 64}, {33, 64, 3}, {.activation = Activation::relu}},                // a slice of one channel
    {{1, 32, 6, 5, 4}, {17, 32, 3, 3, 3}, {.padding = {1, 1, 1}}, true, true},   // likewise
    {{2, 3, 5, 4}, {5, 3, 2, 2}, {.activation = Activation::relu}, true, true},  // our own
    // A few channels; 60 outputs beside each other, a residual, rows that see nothing, gaps.
    {{2, 3, 20, 60}, {40, 3, 3, 3}, {.padding = {1, 1}, .activation = Activation::relu6}, true, true},
    {{1, 1, 17, 40}, {33, 1, 5, 3}, {.stride = {3, 2}, .padding = {4, 2}, .dilation = {2, 3}}, true},
    {{3, 4, 9, 31}, {8, 4, 1, 2}, {.stride = {1, 3}, .padding = {0, 0}, .activation = Activation::gelu}, false, true},
    {{1, 2, 6, 7}, {16, 2, 2, 2}, {.stride = {5, 4}, .padding = {2, 2}, .padding_high = {9, 8}}, true},
    // Tiles: steps whose planes are odd and even rows, some of them without taps; few places of many channels, whose
    // threads take channels; products of few places; more places than the cache holds.
    {{2, 40, 15, 13},
     {33, 40, 3, 3},
     {.stride = {2, 2}, .padding = {1, 1}, .activation = Activation::relu},
     true,
     true},
    {{1, 32, 31, 26}, {32, 32, 3, 2}, {.stride = {3, 2}, .padding = {2, 1}, .dilation = {2, 2}}, true, true},
    {{1, 33, 25, 26}, {32, 33, 1, 1}, {.stride = {4, 3}, .padding = {0, 0}, .activation = Activation::silu}},
    {{3, 96, 7, 7}, {200, 96, 3, 3}, {.padding = {1, 1}, .activation = Activation::relu6}, true, true},
    {{1, 64, 7, 7}, {100, 64, 1, 1}, {.activation = Activation::hard_swish}, true, true},
    {{3, 40, 5, 6}, {70, 40, 1, 1}, {.activation = Activation::relu}, true, true},
    {{2, 64, 13, 14}, {130, 64, 1, 1}, {.stride = {2, 2}}, true, true},
    {{1, 64, 90, 40}, {40, 64, 3, 1}, {.padding = {1, 0}, .activation = Activation::relu}, true, true},
    {{1, 4, 4, 4}, {8, 1, 3, 3}, {.groups = 4}, false, true},  // two outputs a group
    {{0, 4, 4, 4}, {8, 4, 3, 3}, {}, true, true},
    {{2, 0, 4, 4}, {8, 0, 1, 1}, {.activation = Activation::sigmoid}, true, true},
};

}  // namespace

TEST_CASE_FIXTURE(
    MatrixTiles,
    "a finished convolution gives the reference's numbers, channels first and last, for each way and width") {
  for (const Case& c : kCases)
    for (const Case& laid_out : {c, last(c)}) {
      if (sanitized() && laid_out.attrs.channels_last != ((&c - kCases.data()) % 2 == 0)) continue;  // one of the two
      CAPTURE(laid_out.x);
      CAPTURE(laid_out.w);
      CHECK(differs(laid_out) == "");
    }
}
TEST_CASE_FIXTURE(MatrixTiles,
                  "a convolution alone by tiles gives the reference's numbers, also of an image that lies otherwise") {
  for (const bool turned : {false, true})
    for (int64_t step : {1, 2}) {
      if (sanitized() && turned != (step == 1)) continue;  // each once
      Graph g("alone");
      const Dims x = turned ? Dims{2, 17, 14, 50} : Dims{2, 50, 17, 14};
      const Value image = g.input("x", f32, x), w = g.param("w", f32, {70, 50, 3, 3});
      g.output(convolution(turned ? transpose(image, {0, 3, 1, 2}) : image, w,
                           {.strides = {step, step}, .padding_low = {1, 2}, .padding_high = {2, 0}}));
      const std::vector<Tensor> in = {random_tensor(f32, shape_of(x), 7, -1, 1)};
      const std::map<std::string, Tensor, std::less<>> params = {{"w", random_tensor(f32, {70, 50, 3, 3}, 8, -1, 1)}};
      const auto wanted = expected(g, in, params);
      for (int threads : {1, 2, 3}) {
        auto compiled = Session(Device::cpu(), {threads}).compile(g);
        compiled.set_params(params);
        CHECK(differs(compiled.run_ordered(in), wanted) == "");
      }
    }
}
TEST_CASE("products around a depthwise convolution give the reference's numbers, band by band") {
  struct Block {
    Dims x;
    int64_t inner, out, step;
    bool expands, residual;
    Activation first = Activation::relu6, second = Activation::relu6, last = Activation::none;
    int64_t size = 3, padding = 1;
  };
  const Block blocks[] = {
      {{2, 61, 53, 24}, 100, 24, 1, true, true},
      {{1, 90, 57, 16}, 96, 24, 2, true, false, Activation::relu, Activation::none, Activation::relu},
      {{3, 64, 50, 48}, 48, 17, 1, false, false},
      {{1, 70, 66, 33}, 64, 40, 2, true, false, Activation::gelu, Activation::silu, Activation::relu, 5, 2},
      {{1, 75, 75, 40}, 80, 40, 1, true, true, Activation::tanh, Activation::hard_swish, Activation::sigmoid, 3, 1},
      {{1, 66, 70, 20}, 64, 20, 1, true, false, Activation::relu6, Activation::relu6, Activation::none, 3, 0},
  };
  for (const Block& b : blocks) {
    if (sanitized() && &b - blocks >= 2) continue;
    Graph g("block");
    std::vector<Tensor> in = {random_tensor(f32, shape_of(b.x), 5, -2, 2)};
    std::map<std::string, Tensor, std::less<>> params;
    const auto param = [&](const Dims& dims) {
      const std::string name = text_of("p", params.size());
      params.emplace(name, random_tensor(f32, shape_of(dims), 50 + params.size(), -1, 1));
      return g.param(name, f32, dims);
    };
    const auto conv = [&](Value x, int64_t out, const FusedConvAttrs& given, Value residual = {}) {
      FusedConvAttrs a = given;
      a.channels_last = true;
      const int64_t size = a.groups > 1 ? b.size : 1, channels = x.dims()[3].value() / a.groups;
      const Value w = param({out, channels, size, size});
      return fused_conv(x, w, param({out}), residual, a);
    };
    const Value x = g.input("x", f32, b.x);
    const Value many = b.expands ? conv(x, b.inner, {.activation = b.first}) : x;
    const Value made = conv(
        many, b.inner,
        {.stride = {b.step, b.step}, .padding = {b.padding, b.padding}, .groups = b.inner, .activation = b.second});
    g.output(conv(made, b.out, {.activation = b.last}, b.residual ? x : Value{}), "y");
    for (float odd : {0.25F, NAN}) {  // NaN passes through all of it
      if (sanitized() && !std::isnan(odd)) continue;
      in[0].mutable_values<float>()[77] = odd;
      const auto wanted = expected(g, in, params);
      for (int threads : {1, 2, 3}) {
        auto compiled = Session(Device::cpu(), {threads}).compile(g);
        compiled.set_params(params);
        for (int again = 0; again < 2; ++again) CHECK(differs(compiled.run_ordered(in), wanted) == "");
      }
    }
  }
}
TEST_CASE("separable convolutions one after the other: a product that ends one chain may begin no other") {
  Graph g("stack");
  Value x = g.input("x", f32, {1, 80, 78, 32});
  std::map<std::string, Tensor, std::less<>> params;
  const auto conv = [&](int64_t out, int64_t size, int64_t groups) {
    const std::string name = text_of("w", params.size());
    const Dims dims{out, x.dims()[3].value() / groups, size, size};
    params.emplace(name, random_tensor(f32, shape_of(dims), 60 + params.size(), -0.4, 0.4));
    x = fused_conv(x, g.param(name, f32, dims), {}, {},
                   {.padding = {size / 2, size / 2}, .groups = groups, .channels_last = true});
  };
  conv(32, 3, 32), conv(32, 1, 1), conv(32, 3, 32), conv(40, 1, 1), conv(40, 3, 40), conv(24, 1, 1);
  g.output(x, "y");
  const std::vector<Tensor> in = {random_tensor(f32, {1, 80, 78, 32}, 9, -1, 1)};
  const auto wanted = expected(g, in, params);
  for (int threads : {1, 2}) {
    auto compiled = Session(Device::cpu(), {threads}).compile(g);
    compiled.set_params(params);
    CHECK(differs(compiled.run_ordered(in), wanted) == "");
  }
}
TEST_CASE_FIXTURE(MatrixTiles, "one place that matrix tiles do not stand for costs its neighbours nothing but time") {
  if (sanitized() && !are_there) return;  // built for one instruction set, which has no tiles
  for (const float odd : {0x1p-70F, 0x1p70F, INFINITY, NAN})
    for (const int64_t step : {1, 2})
      for (Case c : {Case{{2, 40, 19, 15},
                          {36, 40, 3, 3},
                          {.stride = {step, step}, .padding = {1, 1}, .activation = Activation::relu},
                          true,
                          true}}) {
        for (Case laid_out : {c, last(c)}) {
          Built b = built(laid_out, true);
          const bool channels_last = laid_out.attrs.channels_last;
          const auto v = b.inputs[0].mutable_values<float>();
          for (int64_t channel = 0; channel < 40; ++channel)  // row 7, column 4 of the second image
            v[static_cast<size_t>(channels_last ? ((19 + 7) * 15 + 4) * 40 + channel
                                                : ((40 + channel) * 19 + 7) * 15 + 4)] = odd;
          const auto wanted = expected(b.graph, b.inputs, b.params);
          for (int threads : {1, 2}) {
            auto compiled = Session(Device::cpu(), {threads}).compile(b.graph);
            compiled.set_params(b.params);
            CHECK(differs(compiled.run_ordered(b.inputs), wanted) == "");
          }
        }
      }
}
TEST_CASE_FIXTURE(MatrixTiles, "numbers that matrix tiles do not stand for keep their digits") {
  if (sanitized() && !are_there) return;  // built for one instruction set, which has no tiles
  for (float scale : {0x1p-60F, 0x1p-100F, 0x1p63F}) {
    for (const Case& c : {kCases[12], kCases[27], kCases[30], kCases[31], kCases[34]})
      for (Case laid_out : {c, last(c)}) {
        laid_out.bias = laid_out.residual = false;
        laid_out.attrs.activation = Activation::none;
        Built b = built(laid_out, true);
        for (float& v : b.inputs[0].mutable_values<float>()) v *= scale;
        std::vector<Tensor> wanted = interpret(b.graph, b.inputs, {b.params.begin(), b.params.end()});
        auto compiled = Session(Device::cpu(), {2}).compile(b.graph);
        compiled.set_params(b.params);
        std::vector<Tensor> got = compiled.run_ordered(b.inputs);
        for (std::vector<Tensor>* all : {&got, &wanted})
          for (float& v : (*all)[0].mutable_values<float>()) v /= scale;
        CHECK(difference(got, wanted, 2e-5) == "");
      }
  }
}
TEST_CASE("paddings, strides and distances may be as large as numbers are") {
  constexpr int64_t kHuge = int64_t{1} << 62, kLess = kHuge - (int64_t{1} << 40);
  for (const FusedConvAttrs& attrs :
       {FusedConvAttrs{.stride = {kHuge + (int64_t{1} << 41)}, .padding = {kLess}, .groups = 20},
        FusedConvAttrs{.stride = {kHuge}, .padding = {kHuge - 3}, .padding_high = {3}, .groups = 20},
        FusedConvAttrs{.stride = {1}, .padding = {0}, .dilation = {3}, .padding_high = {0}, .groups = 20}}) {
    const Case c{{1, 20, 7}, {20, 1, 3}, attrs};
    CHECK(differs(c) == "");
    CHECK(differs(last(c)) == "");
    const int64_t pad = attrs.padding[0], high = attrs.padding_high.empty() ? pad : attrs.padding_high[0];
    const int64_t gap = attrs.dilation.empty() ? 1 : attrs.dilation[0];
    Graph g("pool");
    g.output(reduce_window(g.input("x", f32, {7}), {.kind = Reduction::max,
                                                    .window_dims = {3},
                                                    .strides = {attrs.stride[0]},
                                                    .window_dilation = {gap},
                                                    .padding_low = {pad},
                                                    .padding_high = {high}}));
    const Tensor x = random_tensor(f32, {7}, 1);
    const Tensor got = Session(Device::cpu()).compile(g).run_ordered({{x}})[0];
    for (size_t o = 0; o < got.element_count(); ++o) {
      float most = -INFINITY;
      for (int t = 0; t < 3; ++t) {
        const long double at = static_cast<long double>(o) * attrs.stride[0] + t * gap - static_cast<long double>(pad);
        if (at >= 0 && at < 7) most = std::max(most, x.values<float>()[static_cast<size_t>(at)]);
      }
      CHECK(got.values<float>()[o] == most);
    }
  }
}
TEST_CASE("NaN and infinities pass through what follows a convolution") {
  for (Activation activation : {Activation::relu, Activation::relu6, Activation::hard_swish})
    for (float first : {NAN, INFINITY, -INFINITY}) {
      if (sanitized() && (first > 0 || activation != Activation::relu6)) continue;
      for (const Case& c : {kCases[0], kCases[4], kCases[9], kCases[10], kCases[20], kCases[30]}) {
        Case other = last(c);
        other.attrs.activation = activation;
        CAPTURE(other.w);
        CHECK(differs(other, first) == "");
      }
    }
}
