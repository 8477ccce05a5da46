// Random numbers. A seed makes a key; without one (-1) the key is an input of the graph, fed afresh each run, and every
// op takes a new one from it. Apple's generator is not published: the numbers are others, their distribution is the
// same.
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {

Value key(Call& op) {
  int64_t seed = op.integer("seed", -1);
  if (seed >= 0) return rng_key(op.graph(), static_cast<uint64_t>(seed));
  Value now = op.scope().state(kRandomKey);
  Value two = rng_split(now);
  auto nth = [&](int64_t i) { return rlx::reshape(slice_axis(two, 0, i, i + 1), {2}); };
  op.scope().set_state(kRandomKey, nth(0));
  return nth(1);
}

DType result_dtype(Call& op) {
  std::optional<DType> declared = mil::dtype_of(op.declared(0).dtype);
  return declared ? op.dtype(*declared) : f32;
}

}  // namespace

MIL_OP(random_uniform) {
  double low = op.number("low", 0), high = op.number("high", 1);
  Value k = key(op);
  Dims dims = op.dims("shape");
  DType dtype = result_dtype(op);
  if (low == high) return one(full(op.graph(), low, {dtype, dims}));
  return one(rng_uniform(k, dims, dtype, low, high));
}
MIL_OP(random_normal) {
  double mean = op.number("mean", 0), stddev = op.number("stddev", 1);
  Value k = key(op);
  return one(rng_normal(k, op.dims("shape"), result_dtype(op), mean, stddev));
}
MIL_OP(random_bernoulli) {
  double p = op.number("prob", 0.5);
  Value k = key(op);
  Value drawn = rng_bernoulli(k, scalar(op.graph(), p, f32), op.dims("shape"));
  return one(convert(drawn, result_dtype(op)));
}

// `size` draws from each row of x's last dim, which holds logits or probabilities.
MIL_OP(random_categorical) {
  Value x = op("x");
  std::string mode = op.word("mode", "logits");
  int64_t size = op.integer("size", 1);
  if (x.rank() < 1 || size < 1) op.wrong("x ", x.type(), " and size ", size, " give no draws");
  if (mode == "probs") x = rlx::log(x);
  else if (mode != "logits") op.wrong("mode '", mode, "' is neither logits nor probs");
  Value drawn = rng_categorical(key(op), x, -1, {size});  // [size, rows...]
  return one(convert(move_axis(drawn, 0, drawn.rank() - 1), result_dtype(op)));
}

}  // namespace rlx::mlprogram
