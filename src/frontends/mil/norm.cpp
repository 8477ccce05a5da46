// Normalizations. All are computed in f32 and rounded once; parameters may be f32 beside an f16 tensor.
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {
Value as(Value v, DType dtype) { return v && v.dtype() != dtype ? convert(v, dtype) : v; }
}  // namespace

MIL_OP(batch_norm) {
  Value x = op("x");
  Value mean = as(op("mean"), x.dtype()), variance = as(op("variance"), x.dtype());
  Value gamma = as(op.maybe("gamma"), x.dtype()), beta = as(op.maybe("beta"), x.dtype());
  if (x.rank() < 2) op.wrong("x ", x.type(), " has no channels");
  if (!gamma) gamma = full_like(mean, 1);
  if (!beta) beta = zeros_like(mean);
  return one(batch_norm_inference(x, gamma, beta, mean, variance, op.number("epsilon", 1e-5), 1));
}

MIL_OP(instance_norm) {
  Value x = op("x");
  return one(rlx::instance_norm(x, as(op.maybe("gamma"), x.dtype()), as(op.maybe("beta"), x.dtype()),
                                op.number("epsilon", 1e-5)));
}

MIL_OP(layer_norm) {
  Value x = op("x"), gamma = as(op.maybe("gamma"), x.dtype()), beta = as(op.maybe("beta"), x.dtype());
  size_t rank = x.dims().size();
  Axes axes = op.integers("axes", axes_from(0, rank));
  if (axes.empty()) axes = axes_from(0, rank);
  axes = valid_axes(axes, rank);
  std::sort(axes.begin(), axes.end());
  double epsilon = op.number("epsilon", 1e-5);
  if (axes == axes_from(static_cast<int64_t>(rank - axes.size()), axes.size()))
    return one(rlx::layer_norm(x, gamma, beta, epsilon, axes[0]));
  Moments m = moments(x, axes, true);
  Value y = (x - m.mean) * rlx::rsqrt(m.variance + epsilon);
  auto spread = [&](Value v) {  // of x's dims along `axes`
    Dims dims(rank, Dim(1));
    for (size_t i = 0; i < axes.size(); ++i) dims[static_cast<size_t>(axes[i])] = v.dims()[i];
    return rlx::reshape(v, dims);
  };
  for (Value v : {gamma, beta})
    if (v && v.dims().size() != axes.size()) op.wrong("gamma and beta have the ", axes.size(), " dims of 'axes'");
  if (gamma) y = y * spread(gamma);
  if (beta) y = y + spread(beta);
  return one(y);
}

MIL_OP(l2_norm) {
  Value x = op("x");
  if (x.rank() < 3) op.wrong("x ", x.type(), " has fewer than the 3 dims that are normalized together");
  Value sum = rlx::reduce_sum(rlx::square(x), {-3, -2, -1}, true);
  return one(x * rlx::rsqrt(sum + op.number("epsilon", 1e-6)));
}

MIL_OP(local_response_norm) {
  Value x = op("x");
  int64_t size = op.integer("size");
  double alpha = op.number("alpha", 1e-4), beta = op.number("beta", 0.75), k = op.number("k", 1);
  if (size < 1) op.wrong("size is ", size, "; it is at least 1");
  // Channels are dim 1; of three dims the first, for Apple's runtime takes these for an image without a batch: the
  // numbers of coremltools' tests (test_normalization.py) are those.
  size_t rank = x.dims().size(), channels = rank == 3 ? 0 : 1;
  if (rank < 3) op.wrong("x ", x.type(), " has fewer than 3 dims");
  ReduceWindowAttrs window;
  window.window_dims = Dims(rank, Dim(1)), window.strides = Axes(rank, 1);
  window.padding_low = window.padding_high = Dims(rank, Dim(0));
  window.window_dims[channels] = size;
  window.padding_low[channels] = size / 2, window.padding_high[channels] = (size - 1) / 2;
  Value sum = reduce_window(rlx::square(x), window);
  Value scale = sum * (alpha / static_cast<double>(size)) + k;
  return one(x * rlx::pow(scale, full_like(scale, -beta)));
}

}  // namespace rlx::mlprogram
