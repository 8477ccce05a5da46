// Filters of signals: short, recursive, and long ones by transforms; see signal.h.
#include "ops/core/composite_rules.h"
#include "rlx/ops/control.h"
#include "rlx/ops/conv.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/signal.h"

namespace rlx {

Value partitioned_conv(Value x, Value response, int64_t block) {
  return emit(op::partitioned_conv, {x, response}, PartitionedConvAttrs{block});
}

Value fir(Value x, Value taps) {
  require_dtype(std::array{x.type(), taps.type()}, kReal);
  require_rank(taps.type(), 1, 1, "taps");
  require_rank(x.type(), 1, SIZE_MAX, "x");
  if (!taps.dim(0).is_static() || taps.dim(0).value() < 1)
    fail(ErrorCode::invalid_argument, "the count of taps must be a number of at least 1, got ", taps.type());
  int64_t count = taps.dim(0).value();
  PadAttrs before{Dims(x.dims().size(), 0), Dims(x.dims().size(), 0), {}};
  before.low.back() = count - 1;
  Value padded = pad(x, scalar(x.graph(), 0, x.dtype()), before);
  Value rows = reshape(padded, {-1, 1, padded.dim(-1)});
  return reshape(conv(rows, reshape(reverse(taps, {0}), {1, 1, count})), x.dims());
}

Value iir(Value x, Value b, Value a) {
  DType dtype = require_dtype(std::array{x.type(), b.type(), a.type()}, kReal);
  require_rank(x.type(), 1, SIZE_MAX, "x");
  for (const Value& v : {b, a}) {
    require_rank(v.type(), 1, 1, "a filter's polynomial");
    if (!v.dim(0).is_static() || v.dim(0).value() < 1)
      fail(ErrorCode::invalid_argument, "the coefficients of a filter must be a number of at least 1, got ", v.type());
  }
  Graph& g = x.graph();
  int64_t order = std::max({b.dim(0).value(), a.dim(0).value(), int64_t{2}}) - 1;
  Value first = broadcast_to(slice_axis(a, 0, 0, 1), {order + 1});
  auto coefficients = [&](Value v) { return resized(v, 0, order + 1) / first; };
  Dims lane(x.dims().begin(), x.dims().end() - 1), state = lane;
  state.push_back(order);
  // Direct form II, transposed: y = b_0 x + z_0; z_i becomes b_(i + 1) x + z_(i + 1) - a_(i + 1) y.
  Type types[] = {{dtype, state}, {dtype, lane}, {dtype, {order + 1}}, {dtype, {order + 1}}};
  Graph step = trace(types, [&](Values in) {
    Value z = in[0], now = in[1];
    auto over = [&](Value v) { return broadcast_in_dim(v, state, axes_from(0, lane.size())); };
    auto coefficient = [&](Value v) { return broadcast_to(squeeze(slice_axis(v, 0, 0, 1), {0}), lane); };
    auto later = [&](Value v) { return broadcast_to(slice_axis(v, 0, 1, order + 1), state); };
    Value z0 = squeeze(slice_axis(z, -1, 0, 1), {int64_t(lane.size())});
    Value y = coefficient(in[2]) * now + z0;
    Value shifted = resized(slice_axis(z, -1, 1, order), -1, order);
    return Many<Value>{later(in[2]) * over(now) + shifted - later(in[3]) * over(y), y};
  });
  Value zero = full(g, 0, {dtype, state});
  auto out = scan(g, {zero, move_axis(x, x.rank() - 1, 0), coefficients(b), coefficients(a)},
                  {.carries = 1, .xs = 1, .length = x.dim(-1), .body = Subgraph(std::move(step))});
  return move_axis(out[1], 0, x.rank() - 1);
}

namespace {

int64_t power_above(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}
struct Extents {
  int64_t length, response, result;
};
Extents extents_of(const Type& x, const Type& response) {
  require_rank(x, 1, SIZE_MAX, "x");
  require_rank(response, 1, 1, "response");
  const Dim &l = x.dims.back(), &m = response.dims[0];
  if (!l.is_static() || !m.is_static())
    fail(ErrorCode::unsupported, "x ", x, " and response ", response,
         " are cut into parts: their lengths must be numbers");
  if (l.value() < 1 || m.value() < 1)
    fail(ErrorCode::shape_mismatch, "there is nothing to convolve in x ", x, " with response ", response);
  return {l.value(), m.value(), l.value() + m.value() - 1};
}

/// Uniformly partitioned overlap-save: Stockham 1966; Wefers 2015, chapter 5.
Value partitioned(Value x, Value response, int64_t block) {
  auto [length, taps, result] = extents_of(x.type(), response.type());
  int64_t part = power_above(block), n = 2 * part;
  int64_t parts = (taps + part - 1) / part, frames = (result + part - 1) / part;
  Value filters = rfft(resized(reshape(resized(response, 0, parts * part), {parts, part}), -1, n));
  // Frame i holds blocks i - 1 and i of x, with a block of zeros in front.
  PadAttrs around{Dims(x.dims().size(), 0), Dims(x.dims().size(), 0), {}};
  around.low.back() = part, around.high.back() = frames * part - length;
  Dims split(x.dims().begin(), x.dims().end() - 1);
  split.push_back(frames + 1), split.push_back(part);
  Value blocks = reshape(pad(x, scalar(x.graph(), 0, x.dtype()), around), split);
  Value spectra = rfft(concatenate({slice_axis(blocks, -2, 0, frames), slice_axis(blocks, -2, 1, frames + 1)}, -1));
  Value sum;
  for (int64_t p = 0; p < std::min(parts, frames); ++p) {
    PadAttrs later{Dims(spectra.dims().size(), 0), Dims(spectra.dims().size(), 0), {}};
    later.low[later.low.size() - 2] = p, later.high[later.high.size() - 2] = -p;
    Value delayed = p == 0 ? spectra : pad(spectra, scalar(x.graph(), 0, spectra.dtype()), later);
    Value filter = squeeze(slice_axis(filters, 0, p, p + 1), {0});
    Value term = delayed * broadcast_to(filter, delayed.dims());
    sum = sum ? sum + term : term;
  }
  Value y = slice_axis(irfft(sum, {-1}, n), -1, part, n);
  Dims joined = x.dims();
  joined.back() = frames * part;
  return slice_axis(reshape(y, joined), -1, 0, result);
}

}  // namespace

OpDef define_partitioned_conv() {
  using A = PartitionedConvAttrs;
  return define<A>({
      .name = "partitioned_conv",
      .doc = "the whole convolution of x[..., l] with response[m] -> [..., l + m - 1], by transforms of twice the next "
             "power of two of `block` places",
      .source = "uniformly partitioned overlap-save: Stockham, AFIPS 1966; Wefers, RWTH Aachen 2015, chapter 5",
      .operands = {"x", "response"},
      .covers = {"PartitionedConv"},
      .infer =
          [](Types in, const A& a) {
            require_dtype(in, kReal);
            if (a.block < 1 || a.block > int64_t{1} << 30)
              fail(ErrorCode::invalid_argument, "block is ", a.block, "; it must be from 1 to 2^30");
            Type t = in[0];
            t.dims.back() = extents_of(in[0], in[1]).result;
            return t;
          },
      .decompose = [](Values in, const A& a) { return partitioned(in[0], in[1], a.block); },
      .samples = {{.dims = {{2, 9}, {5}}, .attrs = A{3}},
                  {.dims = {{7}, {1}}, .attrs = A{1}},
                  {.dims = {{2, 3, 5}, {11}}, .attrs = A{4}},
                  {.dims = {{3, 21}, {6}}, .dtypes = {bf16, bf16}, .attrs = A{8}},
                  {.dims = {{1}, {1}}},
                  {.dims = {{0, 4}, {3}}, .attrs = A{2}}},
  });
}

}  // namespace rlx
