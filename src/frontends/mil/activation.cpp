// Activations. Their parameters are read by value, for they may be f32 beside an f16 tensor.
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {
/// A parameter for each channel, dim 1 of x, or one number for all.
Value per_channel(Call& op, const std::string& name, Value x) {
  Value p = op(name);
  if (p.dtype() != x.dtype()) p = convert(p, x.dtype());
  if (p.rank() == 0 || x.rank() < 2) return p;
  return along_channels(p, x.rank());
}
}  // namespace

Value along_channels(Value vector, int64_t rank) {
  Dims dims(static_cast<size_t>(rank - 1), Dim(1));
  dims[0] = element_count(vector.dims());
  return reshape(vector, dims);
}

MIL_OP(relu) { return one(rlx::relu(op("x"))); }
MIL_OP(relu6) { return one(rlx::relu6(op("x"))); }
MIL_OP(sigmoid) { return one(logistic(op("x"))); }
MIL_OP(silu) { return one(rlx::silu(op("x"))); }
MIL_OP(softplus) { return one(rlx::softplus(op("x"))); }
MIL_OP(softsign) { return one(rlx::softsign(op("x"))); }
MIL_OP(softmax) { return one(rlx::softmax(op("x"), op.integer("axis", -1))); }
MIL_OP(leaky_relu) { return one(rlx::leaky_relu(op("x"), op.number("alpha"))); }
MIL_OP(elu) { return one(rlx::elu(op("x"), op.number("alpha"))); }

MIL_OP(gelu) {
  std::string mode = op.word("mode", "EXACT");
  Value x = op("x");
  if (mode == "EXACT") return one(rlx::gelu(x));
  if (mode == "TANH_APPROXIMATION") return one(gelu_tanh(x));
  if (mode == "SIGMOID_APPROXIMATION") return one(x * logistic(x * 1.702));
  op.wrong("mode '", mode, "' is none of EXACT, TANH_APPROXIMATION and SIGMOID_APPROXIMATION");
}

MIL_OP(clamped_relu) {
  double alpha = op.number("alpha"), beta = op.number("beta");
  Value x = op("x");
  Value y = rlx::select(compare(x, zeros_like(x), Comparison::ge), x, x * alpha);
  return one(minimum(y, full_like(y, beta)));
}
MIL_OP(linear_activation) {
  double alpha = op.number("alpha"), beta = op.number("beta");
  return one(op("x") * alpha + beta);
}
MIL_OP(prelu) {
  Value x = op("x");
  return one(rlx::prelu(x, per_channel(op, "alpha", x)));
}
MIL_OP(scaled_tanh) {
  double alpha = op.number("alpha"), beta = op.number("beta");
  return one(rlx::tanh(op("x") * beta) * alpha);
}
MIL_OP(sigmoid_hard) { return one(hard_sigmoid(op("x"), op.number("alpha"), op.number("beta"))); }
MIL_OP(softplus_parametric) {
  Value x = op("x");
  Value alpha = per_channel(op, "alpha", x), beta = per_channel(op, "beta", x);
  return one(alpha * rlx::softplus(x * beta));
}
MIL_OP(thresholded_relu) {
  Value x = op("x");
  double alpha = op.number("alpha");
  return one(rlx::select(compare(x, full_like(x, alpha), Comparison::ge), x, zeros_like(x)));
}

}  // namespace rlx::mlprogram
