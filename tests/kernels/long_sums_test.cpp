// The promise of docs/runtime.md, "Sums of f32", for long sums of equal terms: these are what a running sum rounds
// worst, since its errors have one sign for as long as the sum stays between two powers of two. Of everything that sums
// but products, which product_accuracy_test.cpp has. Expected values are closed forms in double.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/conv/depthwise_channels_last.h"
#include "kernels/conv/few_channels.h"
#include "kernels/conv/fma_convolution.h"
#include "kernels/conv/onednn_convolution.h"
#include "kernels/kernel_test.h"
#include "kernels/norm/group_norm.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/norm/rows.h"
#include "kernels/quant/blocks.h"
#include "kernels/recurrent/lstm_backward.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/window.h"
#include "kernels/threads/thread_pool.h"
#include "rlx/blocks.h"
#include "support/sanitized.h"
#include "support/tolerance.h"

namespace rlx::kernels {
namespace {

using test::Scratch;

std::vector<float> all(int64_t count, float value) { return std::vector<float>(static_cast<size_t>(count), value); }

/// An error over what the promise allows a sum of `terms` terms whose magnitudes add up to `magnitude`.
double of_promise(double error, double terms, double magnitude) {
  return std::fabs(error) / (kProductErrorOfRoot * std::sqrt(terms) * 0x1p-24 * std::fabs(magnitude));
}

/// Calls f(x, w) with pairs whose products fall on many places between two numbers of f32; f returns an error over what
/// is allowed. Returns the worst. Sanitized, two pairs: each is a sum as long as any.
template <class F>
double worst_of_pairs(F f) {
  double worst = 0;
  for (int i = 0; i < 24; i += test::sanitized() ? 12 : 1) {
    const double of = f(1 + static_cast<float>(i) / 37 + 0.001234F * static_cast<float>(i * i),
                        0.7F + 0.0311F * static_cast<float>(i));
    if (!(of <= worst)) worst = of;  // also if it is NaN
  }
  return worst;
}
double of_product_sum(const std::vector<float>& sums, float x, float w, int64_t terms) {
  double worst = 0;
  const double n = static_cast<double>(terms), exact = n * static_cast<double>(x) * static_cast<double>(w);
  for (const float sum : sums) {
    const double of = of_promise(static_cast<double>(sum) - exact, n, exact);
    if (!(of <= worst)) worst = of;
  }
  return worst;
}

/// Strides of dense operands, in which channels are the last dim, or dim 1.
void make_dense(ConvolutionArgs& a, bool channels_last) {
  int64_t x = channels_last ? a.in_channels : 1, w = 1, y = channels_last ? a.out_channels : 1;
  for (int d = a.spatial - 1; d >= 0; --d) {
    a.x_strides[d] = x, a.w_strides[d] = w, a.y_strides[d] = y;
    x *= a.in_dims[d], w *= a.kernel[d], y *= a.out_dims[d];
  }
  a.x_channel_stride = channels_last ? 1 : x, a.y_channel_stride = channels_last ? 1 : y;
  a.x_batch_stride = channels_last ? x : x * a.in_channels, a.y_batch_stride = channels_last ? y : y * a.out_channels;
  a.w_in_stride = w, a.w_out_stride = w * (a.in_channels / a.groups);
}
/// Of x, w and y.
struct Counts {
  int64_t x, w, y, terms;
  explicit Counts(const ConvolutionArgs& a)
      : x(a.batch * a.in_channels), w(a.out_channels * (a.in_channels / a.groups)), y(a.batch * a.out_channels),
        terms(a.in_channels / a.groups) {
    for (int d = 0; d < a.spatial; ++d) x *= a.in_dims[d], w *= a.kernel[d], y *= a.out_dims[d], terms *= a.kernel[d];
  }
};
ConvolutionArgs convolution_of(int64_t in_channels, int64_t out_channels, int64_t side, int64_t kernel, int spatial,
                               bool channels_last, int64_t groups = 1) {
  ConvolutionArgs a;
  a.spatial = spatial, a.in_channels = in_channels, a.out_channels = out_channels, a.groups = groups;
  for (int d = 0; d < spatial; ++d) a.in_dims[d] = side, a.kernel[d] = kernel, a.out_dims[d] = side - kernel + 1;
  make_dense(a, channels_last);
  return a;
}

}  // namespace

TEST_CASE("long sums of equal terms: our own convolutions") {
  test::for_each_target([] {
    for (ConvolutionArgs a : {convolution_of(4096, 5, 7, 1, 1, false), convolution_of(2, 5, 3003, 3000, 1, false),
                              convolution_of(130, 2, 11, 7, 2, true), convolution_of(512, 1, 5, 1, 2, false)}) {
      const Counts count(a);
      INFO(count.terms, " terms");
      Scratch scratch(convolution_scratch_bytes(a));
      CHECK(worst_of_pairs([&](float x, float w) {
              const std::vector<float> xs = all(count.x, x), ws = all(count.w, w);
              std::vector<float> y = all(count.y, 0);
              a.x = xs.data(), a.w = ws.data(), a.y = y.data();
              convolution(a, 0, a.batch * a.out_channels * a.out_dims[0], scratch.data());
              return of_product_sum(y, x, w, count.terms);
            }) <= 1);
    }
    ConvolutionArgs few = convolution_of(4, 24, 42, 40, 2, true), alone = convolution_of(21, 21, 72, 70, 2, true, 21);
    REQUIRE(has_few_channels(few));
    REQUIRE(is_depthwise_of_channels(alone));
    CHECK(worst_of_pairs([&](float x, float w) {
            const Counts count(few);
            const std::vector<float> xs = all(count.x, x), packed = all(few_channels_weights_count(few), w);
            std::vector<float> y = all(count.y, 0);
            few.x = xs.data(), few.y = y.data();
            Scratch scratch(few_channels_scratch_bytes(few));
            few_channels(few, packed.data(), {}, 0, few.out_dims[0], scratch.data());
            return of_product_sum(y, x, w, count.terms);
          }) <= 1);
    CHECK(worst_of_pairs([&](float x, float w) {
            const Counts count(alone);
            const std::vector<float> xs = all(count.x, x), packed = all(depthwise_weights_count(alone), w);
            std::vector<float> y = all(count.y, 0);
            alone.x = xs.data(), alone.y = y.data();
            depthwise_of_channels(alone, packed.data(), {}, 0, alone.out_dims[0]);
            return of_product_sum(y, x, w, count.terms);
          }) <= 1);
    for (const ConvolutionArgs& a : {convolution_of(64, 40, 6, 3, 2, true), convolution_of(700, 9, 5, 3, 2, false),
                                     convolution_of(4096, 16, 2, 1, 2, true)})
      CHECK(worst_of_pairs([&](float x, float w) {
              const Counts count(a);
              const std::vector<float> xs = all(count.x, x), ws = all(count.w, w);
              std::vector<float> y = all(count.y, 0);
              FmaConvolution convolution(a, 1);
              Scratch packed(convolution.weights_bytes()), scratch(convolution.scratch_bytes());
              convolution.pack(ws.data(), packed.data(), ThreadPool::shared());
              convolution.run(xs.data(), packed.data(), y.data(), {}, scratch.data(), ThreadPool::shared());
              return of_product_sum(y, x, w, count.terms);
            }) <= 1);
    for (const int64_t rows : {3, 30})
      CHECK(worst_of_pairs([&](float x, float w) {
              SkinnyProduct p;
              p.rows = rows, p.k = 4096, p.n = 41;
              const std::vector<float> xs = all(p.rows * p.k, x), ws = all(p.k * p.n, w);
              std::vector<float> y = all(p.rows * p.n, 0);
              p.x = xs.data(), p.weights = ws.data(), p.y = y.data();
              skinny_product(p);
              return of_product_sum(y, x, w, p.k);
            }) <= 1);
  });
}

#if RLX_HAS_ONEDNN
TEST_CASE("long sums of equal terms: convolutions by oneDNN, their values and the gradients of weights") {
  std::vector<ConvolutionArgs> cases = {
      convolution_of(64, 48, 10, 3, 2, true),   convolution_of(64, 48, 10, 3, 2, false),
      convolution_of(512, 32, 6, 3, 2, true),   convolution_of(512, 32, 6, 3, 2, false),
      convolution_of(96, 64, 8, 3, 2, true, 2), convolution_of(300, 40, 20, 5, 1, false),
      convolution_of(48, 32, 7, 3, 3, false),   convolution_of(3, 32, 30, 13, 2, false)};
  // The gradient of weights: the images of the batch are input channels, the pixels of an image are the kernel.
  ConvolutionArgs gradient = convolution_of(5, 32, 30, 28, 2, false);
  gradient.batch = 16;
  make_dense(gradient, false);
  gradient.x_batch_stride = gradient.in_dims[0] * gradient.in_dims[1];
  gradient.x_channel_stride = gradient.batch * gradient.x_batch_stride;
  gradient.w_out_stride = gradient.kernel[0] * gradient.kernel[1];
  gradient.w_in_stride = gradient.out_channels * gradient.w_out_stride;
  cases.push_back(gradient);
  for (const ConvolutionArgs& a : cases)
    for (const bool packs : {false, true}) {
      const Counts count(a);
      const int threads = packs ? 2 : 1;
      CHECK(worst_of_pairs([&](float x, float w) {
              const std::vector<float> xs = all(count.x, x), ws = all(count.w, w);
              std::vector<float> y = all(count.y, 99);
              const auto plan = plan_convolution(a, 1, threads, packs ? convolution_weights(ws.data()) : nullptr);
              REQUIRE(plan);
              INFO(plan->name(), ", ", count.terms, " terms");
              Scratch scratch(plan->scratch_bytes());
              plan->run(xs.data(), ws.data(), y.data(), {}, scratch.data(), ThreadPool::shared());
              return of_product_sum(y, x, w, count.terms);
            }) <= 1);
    }
}
#endif

TEST_CASE("long sums of equal terms: products of few rows with packed blocks") {
  constexpr int64_t kDepth = 1 << 16;
  for (const DType format : {q8_0, q4_0})
    for (const float value : {0.37F, 0.71F, 0.83F}) {
      const Tensor blocks = quantized(Tensor::of<float>({1, kDepth}, all(kDepth, value)), format);
      const Tensor w = dequantized(blocks);
      double exact = 0;
      for (const float v : w.values<float>()) exact += static_cast<double>(v);
      test::for_each_target([&] {
        for (const int64_t rows : {1, 3, 8}) {
          const std::vector<float> x = all(rows * kDepth, 1.1F);
          std::vector<float> y = all(rows, 0);
          BlockWeightsProduct p;
          p.format = format, p.w = static_cast<const std::byte*>(blocks.data()), p.k = kDepth, p.rows = rows;
          p.x = x.data(), p.x_stride = kDepth, p.y = y.data(), p.y_stride = 1;
          multiply_block_weights(p, 0, 1);
          INFO(std::string(name_of(format)), " of ", value, ", ", rows, " rows");
          const double sum = exact * static_cast<double>(x[0]);
          double worst = 0;
          for (const float v : y)
            worst = std::max(worst, of_promise(static_cast<double>(v) - sum, static_cast<double>(kDepth), sum));
          CHECK(worst <= 1);
        }
      });
    }
}

TEST_CASE("long sums of equal terms: attention, over keys and over the width of a head") {
  test::for_each_target([] {
    AttentionArgs a;
    a.q_rows = 3, a.k_rows = 16384, a.head_dim = 8, a.value_dim = 20;
    a.q_stride = a.k_stride = a.head_dim, a.v_stride = a.out_stride = a.value_dim;
    a.strategy = plan_attention(problem_of(a), attention_target());
    Scratch scratch(attention_scratch_bytes(a));
    // All keys weigh alike, or the first one more.
    for (const bool is_first_apart : {false, true})
      CHECK(worst_of_pairs([&](float key, float value) {
              const std::vector<float> q = all(a.q_rows * a.head_dim, -0.25F), v = all(a.k_rows * a.value_dim, value);
              std::vector<float> k = all(a.k_rows * a.head_dim, key), out = all(a.q_rows * a.value_dim, 0);
              if (is_first_apart) std::fill_n(k.begin(), a.head_dim, 0.5F);
              a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
              attention(a, 0, a.q_rows, scratch.data());
              double worst = 0;
              for (const float y : out)
                worst = std::max(worst, of_promise(static_cast<double>(y) - static_cast<double>(value),
                                                   static_cast<double>(a.k_rows), static_cast<double>(value)));
              return worst;
            }) <= 1);
    // Two keys: their scores are 0 and a sum over a wide head, on whose error the result depends.
    AttentionArgs wide;
    wide.q_rows = 2, wide.k_rows = 2, wide.head_dim = 4096, wide.value_dim = 4;
    wide.q_stride = wide.k_stride = wide.head_dim, wide.v_stride = wide.out_stride = wide.value_dim;
    wide.scale = 0x1p-10;
    wide.strategy = plan_attention(problem_of(wide), attention_target());
    Scratch wide_scratch(attention_scratch_bytes(wide));
    CHECK(worst_of_pairs([&](float x, float w) {
            const std::vector<float> q = all(wide.q_rows * wide.head_dim, x);
            std::vector<float> k = all(2 * wide.head_dim, w), v = all(2 * wide.value_dim, 0), out = all(8, 0);
            std::fill_n(k.begin(), wide.head_dim, 0.0F), std::fill_n(v.begin(), wide.value_dim, 1.0F);
            wide.q = q.data(), wide.k = k.data(), wide.v = v.data(), wide.out = out.data();
            attention(wide, 0, 2, wide_scratch.data());
            const double score = 4 * static_cast<double>(x) * static_cast<double>(w);
            const double exact = 1 / (1 + std::exp(score)), slope = exact * (1 - exact);
            return of_promise(static_cast<double>(out[0]) - exact, 4096, score * slope);
          }) <= 1);
  });
}

TEST_CASE("long sums of equal terms: the gradient of attention, over keys and over queries") {
  test::for_each_target([] {
    AttentionBackwardArgs g;
    AttentionArgs& a = g.forward;
    const auto run = [&](float key, float value) {
      const std::vector<float> q = all(a.q_rows * a.head_dim, 0.25F), ct = all(a.q_rows * a.value_dim, value),
                               v = all(a.k_rows * a.value_dim, value);
      const std::vector<float> k = all(a.k_rows * a.head_dim, key);
      std::vector<float> dq = all(a.q_rows * a.head_dim, 0);
      a.strategy = plan_attention(problem_of(a), attention_target());
      const int64_t width = attention_sum_stride(a.head_dim), v_width = attention_sum_stride(a.value_dim);
      const auto bytes = [&](int64_t columns) { return static_cast<size_t>(a.k_rows * columns) * sizeof(float); };
      Scratch dk(bytes(width)), dv(bytes(v_width)), scratch(attention_backward_scratch_bytes(a));
      std::memset(dk.data(), 0, bytes(width)), std::memset(dv.data(), 0, bytes(v_width));
      a.q = q.data(), a.k = k.data(), a.v = v.data(), g.ct = ct.data(), g.dq = dq.data();
      a.q_stride = a.k_stride = g.dq_stride = a.head_dim, a.v_stride = g.ct_stride = a.value_dim;
      g.dk = static_cast<float*>(dk.data()), g.dv = static_cast<float*>(dv.data());
      attention_backward(g, 0, a.q_rows, scratch.data());
      // Weights are 1 / keys, exactly. With equal values the cotangents of scores, and so dq and dk, are 0.
      const auto keys = static_cast<double>(a.k_rows), queries = static_cast<double>(a.q_rows);
      const double of_score = static_cast<double>(value) * static_cast<double>(value) *
                              static_cast<double>(a.value_dim);  // the weights' cotangents
      const double ct_sum = queries / keys * static_cast<double>(value);
      return std::max(of_promise(static_cast<double>(dq[0]), keys, of_score * static_cast<double>(key)),
                      of_promise(static_cast<double>(g.dv[0]) - ct_sum, queries, ct_sum));
    };
    a.head_dim = 5, a.value_dim = 4;
    a.q_rows = 2, a.k_rows = 16384;
    CHECK(worst_of_pairs(run) <= 1);
    a.q_rows = 16384, a.k_rows = 4;
    CHECK(worst_of_pairs(run) <= 1);
  });
}

TEST_CASE("long sums of equal terms: reductions along rows and columns, complex numbers, windows") {
  test::for_each_target([] {
    const auto reduced = [](DType t, const void* x, int64_t outer, int64_t n, int64_t inner, void* y) {
      ReduceArgs a;
      a.dtype = t, a.x = x, a.y = y;
      a.outer = outer, a.reduce = n, a.inner = inner, a.reduce_stride = inner, a.outer_stride = n * inner;
      reduce(a, 0, outer * inner);
    };
    for (const int64_t n : {1000, 4096, 100000})
      for (const int64_t outer : {1, 8}) {
        INFO(outer, " x ", n);
        CHECK(worst_of_pairs([&](float x, float w) {
                const std::vector<float> values = all(n * outer, x * w);
                std::vector<float> rows = all(outer, 0), columns = all(outer, 0);
                reduced(f32, values.data(), outer, n, 1, rows.data());
                reduced(f32, values.data(), 1, n, outer, columns.data());
                return std::max(of_product_sum(rows, x * w, 1, n), of_product_sum(columns, x * w, 1, n));
              }) <= 1);
      }
    CHECK(worst_of_pairs([&](float x, float w) {
            const std::vector<float> values = all(2 * 100000, x * w);  // c64: real and imaginary parts
            std::vector<float> sum = all(2, 0);
            reduced(c64, values.data(), 1, 100000, 1, sum.data());
            return of_product_sum(sum, x * w, 1, 100000);
          }) <= 1);
    CHECK(worst_of_pairs([&](float x, float w) {
            ReduceWindowArgs a;
            a.rank = 2;
            for (int d = 0; d < 2; ++d)
              a.x_dims[d] = 102, a.window[d] = 100, a.out_dims[d] = 3,
              a.stride[d] = a.base_dilation[d] = a.window_dilation[d] = 1;
            a.x_strides[0] = 102, a.x_strides[1] = 1;
            const std::vector<float> values = all(102 * 102, x * w);
            std::vector<float> sums = all(9, 0);
            a.x = values.data(), a.y = sums.data();
            reduce_window(a, 0, 9);
            return of_product_sum(sums, x * w, 1, 10000);
          }) <= 1);
  });
  // f8e4m3fn: 15 / 8 as often as -2 and -7 / 4 together, but for the last one. A running sum of f32 loses eighths.
  constexpr size_t kCount = size_t{1} << 22;
  std::vector<uint8_t> eighths(kCount, 0x3f);
  for (size_t i = kCount / 2; i < kCount - 1; ++i) eighths[i] = i % 2 == 0 ? 0xc0 : 0xbe;
  eighths.back() = 0;
  ReduceArgs a;
  uint8_t sum = 0;
  a.dtype = f8e4m3fn, a.x = eighths.data(), a.y = &sum;
  a.reduce = 1 << 22, a.reduce_stride = 1, a.outer_stride = 1 << 22;
  reduce(a, 0, 1);
  CHECK(sum == 0x3e);  // 7 / 4
}

TEST_CASE("long sums of equal terms: softmax and norms, their statistics and gradients") {
  constexpr int64_t kLong = 1 << 19;
  const auto n = static_cast<double>(kLong);
  test::for_each_target([&] {
    Scratch scratch(rows_scratch_bytes(f32, kLong));
    std::vector<float> y = all(kLong, 0);
    // One logit is 0, the others are alike and below it.
    double worst = 0;
    for (int i = 1; i < 8; ++i) {
      std::vector<float> x = all(kLong, -0.07F * static_cast<float>(i));
      x[0] = 0;
      SoftmaxArgs a;
      a.x = x.data(), a.y = y.data(), a.x_stride = a.y_stride = a.cols = kLong;
      softmax_rows(a, 0, 1, scratch.data());
      const double weight = std::exp(static_cast<double>(x[1])), exact = weight / (1 + (n - 1) * weight);
      worst = std::max(worst, of_promise(static_cast<double>(y[1]) - exact, n, exact));
    }
    CHECK(worst <= 1);
    // y = s / sqrt(mean of squares): half of the squares' error.
    NormArgs norm;
    norm.eps = 0, norm.y = y.data(), norm.x_stride = norm.y_stride = norm.cols = kLong;
    CHECK(worst_of_pairs([&](float x, float) {
            const std::vector<float> values = all(kLong, x);
            norm.x = values.data();
            rms_norm_rows(norm, 0, 1, scratch.data());
            return of_promise(static_cast<double>(y[0]) - 1, n, 0.5);
          }) <= 1);
    // Two numbers in turn, mean + 1/2 and mean - 1/2: y is 1 and -1, and off by twice what the mean is.
    CHECK(worst_of_pairs([&](float x, float) {
            const float high = x + 8, low = high - 1;
            std::vector<float> values = all(kLong, high);
            for (size_t i = 1; i < values.size(); i += 2) values[i] = low;
            norm.x = values.data();
            layer_norm_rows(norm, 0, 1, scratch.data());
            const double mean = (static_cast<double>(high) + static_cast<double>(low)) / 2;
            return of_promise(std::fabs(static_cast<double>(y[0]) - 1) + std::fabs(static_cast<double>(y[1]) + 1), n,
                              4 * mean);
          }) <= 1);
    // d_x = (ct - mean(ct) - h mean(ct h)) / root: with equal ct it is 0, and as wrong as mean(ct).
    NormBackwardArgs back;
    back.cols = kLong, back.d_x = y.data(), back.eps = 0;
    Scratch sums(norm_backward_scratch_bytes(back));
    std::vector<float> turns = all(kLong, 1);
    for (size_t i = 1; i < turns.size(); i += 2) turns[i] = -1;
    back.x = turns.data();
    CHECK(worst_of_pairs([&](float x, float) {
            const std::vector<float> ct = all(kLong, x);
            back.ct = ct.data();
            clear_norm_backward_sums(back, sums.data());
            norm_backward_rows(back, 0, 1, sums.data());
            return of_promise(static_cast<double>(y[0]), n, static_cast<double>(x));
          }) <= 1);
    // With x alike, the squares of an RMS norm: d_x of a ct that is not 0 at one place, away from there.
    back.centred = false;
    CHECK(worst_of_pairs([&](float x, float w) {
            const std::vector<float> values = all(kLong, x);
            std::vector<float> ct = all(kLong, 0);
            ct[5] = w;
            back.x = values.data(), back.ct = ct.data();
            clear_norm_backward_sums(back, sums.data());
            norm_backward_rows(back, 0, 1, sums.data());
            const double exact = -static_cast<double>(w) / n / static_cast<double>(x);
            return of_promise(static_cast<double>(y[0]) - exact, n, exact * 1.5);
          }) <= 1);
    // A norm over channels that are apart in memory.
    GroupNormArgs channels;
    channels.channels = 30000, channels.space = 5, channels.y = y.data(), channels.eps = 0;
    CHECK(worst_of_pairs([&](float x, float) {
            const float high = x + 8, low = high - 1;
            std::vector<float> values = all(channels.channels * channels.space, high);
            for (int64_t c = 1; c < channels.channels; c += 2)
              std::fill_n(values.begin() + c * channels.space, channels.space, low);
            channels.x = values.data();
            channel_norm(channels, 0, channels.space);
            const double mean = (static_cast<double>(high) + static_cast<double>(low)) / 2;
            return of_promise(std::fabs(static_cast<double>(y[0]) - 1) +
                                  std::fabs(static_cast<double>(y[static_cast<size_t>(channels.space)]) + 1),
                              30000, 4 * mean);
          }) <= 1);
  });
}

TEST_CASE("long sums of equal terms: the steps of recurrences and of their gradient") {
  constexpr int64_t kHidden = 2048;
  test::for_each_target([] {
    for (const int64_t sequences : {1, 2, 9})
      CHECK(worst_of_pairs([&](float x, float w) {
              RecurrentArgs a;
              a.cell = RecurrentCell::rnn_relu, a.hidden = kHidden, a.steps = 1;
              a.y_batch_stride = a.y_step_stride = kHidden;
              const std::vector<float> weights = all(kHidden * kHidden, w), h0 = all(sequences * kHidden, x),
                                       products = all(sequences * kHidden + 64, 0);
              std::vector<float> y = all(sequences * kHidden, 0), h_n = y;
              Scratch packed(recurrent_weight_bytes(a.cell, f32, kHidden));
              Scratch scratch(recurrent_scratch_bytes(a, sequences));
              pack_recurrent(a.cell, f32, kHidden, weights.data(), packed.data());
              a.w_hh = packed.data(), a.products = products.data(), a.h0 = h0.data(), a.y = y.data();
              a.h_n = h_n.data();
              recurrent(a, 0, sequences, scratch.data());
              return of_product_sum(y, x, w, kHidden);
            }) <= 1);
    // The cotangent of h0 sums over the output gates alone: all others have a cotangent of 0 where i, f, g and c are 0.
    // Their cotangents are o (1 - o) tanh(c) = 0 too, unless c is not: c = 1, o = 1/2.
    constexpr int64_t kSmall = 1024;
    CHECK(worst_of_pairs([&](float x, float w) {
            LstmBackwardArgs a;
            a.hidden = kSmall, a.steps = 1;
            std::vector<float> gates = all(4 * kSmall, 0);
            std::fill_n(gates.begin() + 3 * kSmall, kSmall, 0.5F);
            const std::vector<float> weights = all(4 * kSmall * kSmall, w), zeros = all(kSmall, 0),
                                     cells = all(kSmall, 1), ct = all(kSmall, x);
            std::vector<float> products = all(4 * kSmall, 0), h0 = all(kSmall, 0), c0 = h0;
            Scratch packed(lstm_backward_weight_bytes(f32, kSmall)), scratch(lstm_backward_scratch_bytes(a, 1));
            pack_lstm_backward(f32, kSmall, weights.data(), packed.data());
            a.w_hh = packed.data(), a.gates = gates.data(), a.cells = cells.data(), a.c0 = zeros.data();
            a.y_ct = ct.data(), a.h_ct = zeros.data(), a.c_ct = zeros.data();
            a.products_ct = products.data(), a.h0_ct = h0.data(), a.c0_ct = c0.data();
            lstm_backward(a, 0, 1, scratch.data());
            return of_product_sum(h0, products[3 * kSmall], w, kSmall);
          }) <= 1);
  });
}

}  // namespace rlx::kernels
