// Filters of signals: long ones, by transforms; see signal.h.
#include "ops/composite_rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/signal.h"

namespace rlx {

Value partitioned_conv(Value x, Value response, int64_t block) {
  return emit(op::partitioned_conv, {x, response}, PartitionedConvAttrs{block});
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
