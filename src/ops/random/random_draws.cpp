// What is drawn with random bits. Where jax.random has the function, the numbers of `threefry` are its numbers: the
// same bits, keys split in the same places.
#include <cmath>

#include "ops/core/element_index.h"
#include "ops/random/random_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/reduction.h"
#include "rlx/ops/softmax.h"
#include "rlx/ops/sort.h"
#include "rlx/ops/special.h"
#include "rlx/ops/take.h"

namespace rlx {

Value rng_uniform(Value key, Dims dims, DType dtype, double low, double high, RngAlgorithm algorithm) {
  return emit(op::rng_uniform, {key}, RngUniformAttrs{algorithm, std::move(dims), dtype, low, high});
}
Value rng_normal(Value key, Dims dims, DType dtype, double mean, double scale, RngAlgorithm algorithm) {
  return emit(op::rng_normal, {key}, RngNormalAttrs{algorithm, std::move(dims), dtype, mean, scale});
}
Value rng_truncated_normal(Value key, Dims dims, DType dtype, double lower, double upper, RngAlgorithm algorithm) {
  return emit(op::rng_truncated_normal, {key},
              RngTruncatedNormalAttrs{algorithm, std::move(dims), dtype, lower, upper});
}
Value rng_bernoulli(Value key, Value p, Dims dims, RngAlgorithm algorithm) {
  return emit(op::rng_bernoulli, {key, p}, RngDimsAttrs{algorithm, std::move(dims)});
}
Value rng_randint(Value key, Dims dims, int64_t low, int64_t high, DType dtype, RngAlgorithm algorithm) {
  return emit(op::rng_randint, {key}, RngRandintAttrs{algorithm, std::move(dims), dtype, low, high});
}
Value rng_categorical(Value key, Value logits, int64_t axis, Dims dims, RngAlgorithm algorithm) {
  return emit(op::rng_categorical, {key, logits}, RngCategoricalAttrs{algorithm, axis, std::move(dims)});
}
Value rng_permutation(Value key, int64_t size, RngAlgorithm algorithm) {
  return emit(op::rng_permutation, {key}, RngPermutationAttrs{algorithm, size});
}
Value shuffle(Value key, Value x, int64_t axis, RngAlgorithm algorithm) {
  return take(x, rng_permutation(key, x.dim(axis).value(), algorithm), axis);
}
Value dropout(Value key, Value x, double rate, RngAlgorithm algorithm) {
  return emit(op::dropout, {key, x}, DropoutAttrs{algorithm, rate});
}
Value sample(Value key, Value logits, int64_t top_k, double top_p, double temperature, RngAlgorithm algorithm) {
  return emit(op::sample, {key, logits}, SampleAttrs{algorithm, top_k, top_p, temperature});
}

namespace {

constexpr std::string_view kDrawInParts = "draw one of several parts first, then a place in it";

DType unsigned_of(int bits) { return bits == 8 ? u8 : bits == 16 ? u16 : bits == 32 ? u32 : u64; }
double rounded(DType t, double v) { return decode_float(t, encode_float(t, v)); }
/// The greatest number of the dtype below v.
double next_below(DType t, double v) {
  double r = rounded(t, v);
  if (r < v) return r;
  uint64_t bits = encode_float(t, r), sign = uint64_t{1} << (info(t).bits - 1);
  return decode_float(t, r > 0 ? bits - 1 : r == 0 ? sign | 1 : bits + 1);
}
double next_above(DType t, double v) { return -next_below(t, -v); }

/// What a draw is computed in: f16 and bf16 in f32, rounded at the end, as every op on them is.
DType computed_in(DType t) { return is_low_precision(t) ? f32 : t; }

void require_drawn(DType t) {
  if (!is_float(t) || !has_arithmetic(t))
    fail(ErrorCode::invalid_argument, "floats are drawn as f16, bf16, f32 or f64, not as ", t);
}
void require_single_key(const Type& key) {
  if (!leading_dims(key).empty())
    fail(ErrorCode::shape_mismatch, "one key is needed, u32[2], got ", key, "; batch the op to draw with several");
}
Type drawn(Types in, const Dims& dims, DType dtype) {
  Dims all = leading_dims(in[0]);
  all.insert(all.end(), dims.begin(), dims.end());
  return {dtype, all};
}

/// k / 2^m, k of m bits, m being the digits of the dtype behind the first; of a dtype with few of them the bits are
/// drawn as bytes.
Value unit_interval(Value key, const Dims& dims, DType dtype, RngAlgorithm algorithm) {
  int digits = info(dtype).mantissa_bits, width = digits < 8 ? 8 : info(dtype).bits;
  Value bits = rng_bits(key, dims, unsigned_of(width), algorithm);
  Value k = shift_right_logical(bits, full_like(bits, width - digits));
  return convert(k, computed_in(dtype)) * std::ldexp(1.0, -digits);
}
/// In [low, high), which are numbers of the dtype.
Value uniform_in(Value key, const Dims& dims, DType dtype, double low, double high, RngAlgorithm algorithm) {
  Value u = unit_interval(key, dims, dtype, algorithm);
  if (low == 0 && high == 1) return u;
  double span = rounded(u.dtype(), high - low);
  // A number near 1 times the span may round up to `high`.
  return maximum(minimum(u * span + low, full_like(u, next_below(dtype, high))), full_like(u, low));
}

Value dims_of(Value x, const Dims& dims) { return x.dims() == dims ? x : broadcast_to(x, dims); }
Value below(Value x, Value y) { return compare(x, y, Comparison::lt); }

Value unsigned_constant(Value like, uint64_t value) {
  Tensor t(like.dtype(), {});
  store<uint64_t>(t, 0, value);
  return broadcast_to(like.graph().constant(std::move(t)), like.dims());
}
struct Keys {
  Value first, second;
};
Keys split_in_two(Value key, RngAlgorithm algorithm) {
  Value both = rng_split(key, {2}, algorithm == RngAlgorithm::threefry_original);
  int64_t axis = both.rank() - 2;
  return {squeeze(slice_axis(both, axis, 0, 1), {axis}), squeeze(slice_axis(both, axis, 1, 2), {axis})};
}

/// -ln(-ln u): its maximum over some added logits stands at each place with the probability of that place.
Value gumbel(Value key, const Dims& dims, DType dtype, RngAlgorithm algorithm) {
  Value u = unit_interval(key, dims, dtype, algorithm);
  double least = u.dtype() == f64 ? std::numeric_limits<double>::min() : double{std::numeric_limits<float>::min()};
  return -log(-log(maximum(u, full_like(u, least))));
}

}  // namespace

OpDef define_rng_uniform() {
  return define<RngUniformAttrs>({
      .name = "rng_uniform",
      .doc =
          "numbers in [low, high), evenly distributed: low + (high - low) k / 2^m for m random bits k, as many as the "
          "dtype has digits behind its first",
      .source = "jax.random.uniform",
      .operands = {"key"},
      .covers = {"RngUniform"},
      .infer =
          [](Types in, const RngUniformAttrs& a) {
            require_drawn(a.dtype);
            double low = rounded(a.dtype, a.low), high = rounded(a.dtype, a.high);
            if (!(low < high) || !std::isfinite(high - low))
              fail(ErrorCode::invalid_argument, "there is no number of ", a.dtype, " in [", a.low, ", ", a.high,
                   "), or infinitely many of them");
            return drawn(in, a.dims, a.dtype);
          },
      .decompose =
          [](Graph&, Values in, const RngUniformAttrs& a) {
            return convert(
                uniform_in(in[0], a.dims, a.dtype, rounded(a.dtype, a.low), rounded(a.dtype, a.high), a.algorithm),
                a.dtype);
          },
      .samples = draws<RngUniformAttrs>({{{{2}}, {RngAlgorithm::philox, {3, 4}}},
                                         {{{2}}, {RngAlgorithm::threefry, {5}, f64, -2, 3}},
                                         {{{3, 2}}, {RngAlgorithm::philox, {}, bf16, 0, 7}},
                                         {{{2}}, {RngAlgorithm::threefry_original, {9}, f16, 1000, 1001}},
                                         {{{2}}, {RngAlgorithm::philox, {0, 3}, f32}}}),
  });
}

OpDef define_rng_normal() {
  return define<RngNormalAttrs>({
      .name = "rng_normal",
      .doc =
          "numbers of the normal distribution with that mean and standard deviation: mean + scale sqrt(2) erfinv(u), u "
          "uniform in (-1, 1)",
      .source = "jax.random.normal; inversion: Devroye, Non-uniform random variate generation (1986), II.2",
      .operands = {"key"},
      .covers = {"RngNormal"},
      .infer =
          [](Types in, const RngNormalAttrs& a) {
            require_drawn(a.dtype);
            if (!std::isfinite(a.mean) || !(a.scale >= 0) || !std::isfinite(a.scale))
              fail(ErrorCode::invalid_argument, "a mean and a scale >= 0 are needed, got ", a.mean, " and ", a.scale);
            return drawn(in, a.dims, a.dtype);
          },
      .decompose =
          [](Graph&, Values in, const RngNormalAttrs& a) {
            Value u = uniform_in(in[0], a.dims, a.dtype, next_above(a.dtype, -1), 1, a.algorithm);
            Value y = erfinv(u) * M_SQRT2;
            if (a.scale != 1) y = y * a.scale;
            return convert(a.mean == 0 ? y : y + a.mean, a.dtype);
          },
      .samples = draws<RngNormalAttrs>({{{{2}}, {RngAlgorithm::philox, {3, 4}}},
                                        {{{2}}, {RngAlgorithm::threefry, {5}, f64, 2, 0.5}},
                                        {{{3, 2}}, {RngAlgorithm::philox, {}, bf16}},
                                        {{{2}}, {RngAlgorithm::threefry_original, {9}, f16, -1, 3}}}),
  });
}

OpDef define_rng_truncated_normal() {
  return define<RngTruncatedNormalAttrs>({
      .name = "rng_truncated_normal",
      .doc = "numbers of the standard normal distribution between `lower` and `upper`: sqrt(2) erfinv(u), u uniform in "
             "[erf(lower / sqrt 2), erf(upper / sqrt 2))",
      .source = "jax.random.truncated_normal",
      .operands = {"key"},
      .infer =
          [](Types in, const RngTruncatedNormalAttrs& a) {
            require_drawn(a.dtype);
            if (!(rounded(a.dtype, std::erf(a.lower * M_SQRT1_2)) < rounded(a.dtype, std::erf(a.upper * M_SQRT1_2))))
              fail(ErrorCode::invalid_argument, "the normal distribution has nothing, to the digits of ", a.dtype,
                   ", between ", a.lower, " and ", a.upper);
            return drawn(in, a.dims, a.dtype);
          },
      .decompose =
          [](Graph&, Values in, const RngTruncatedNormalAttrs& a) {
            double low = rounded(a.dtype, std::erf(a.lower * M_SQRT1_2)),
                   high = rounded(a.dtype, std::erf(a.upper * M_SQRT1_2));
            Value y = erfinv(uniform_in(in[0], a.dims, a.dtype, low, high, a.algorithm)) * M_SQRT2;
            // Rounding may have moved a number out.
            y = minimum(maximum(y, full_like(y, next_above(a.dtype, a.lower))),
                        full_like(y, next_below(a.dtype, a.upper)));
            return convert(y, a.dtype);
          },
      .samples =
          draws<RngTruncatedNormalAttrs>({{{{2}}, {RngAlgorithm::philox, {3, 4}}},
                                          {{{2}}, {RngAlgorithm::threefry, {5}, f64, -1, 0.5}},
                                          {{{3, 2}}, {RngAlgorithm::philox, {}, f16, 0, 9}},
                                          {{{2}}, {RngAlgorithm::threefry_original, {7}, f32, -INFINITY, INFINITY}}}),
  });
}

OpDef define_rng_bernoulli() {
  return define<RngDimsAttrs>({
      .name = "rng_bernoulli",
      .doc = "true with probability p: whether a uniform number of p's dtype is below p",
      .source = "jax.random.bernoulli",
      .operands = {"key", "p"},
      .differentiable = false,
      .infer =
          [](Types in, const RngDimsAttrs& a) {
            require_single_key(in[0]);
            require_kind(in[1], kReal, "probability");
            if (a.dims.size() < in[1].dims.size())
              fail(ErrorCode::shape_mismatch, "p, ", in[1], ", has more dims than what is drawn, ",
                   Type{boolean, a.dims});
            for (size_t i = 0; i < in[1].dims.size(); ++i)
              if (const Dim& to = a.dims[a.dims.size() - in[1].dims.size() + i];
                  in[1].dims[i] != Dim(1) && in[1].dims[i] != to)
                fail(ErrorCode::shape_mismatch, "p, ", in[1], ", does not broadcast to what is drawn, ",
                     Type{boolean, a.dims});
            return Type{boolean, a.dims};
          },
      .decompose =
          [](Graph&, Values in, const RngDimsAttrs& a) {
            return below(unit_interval(in[0], a.dims, in[1].dtype(), a.algorithm), dims_of(in[1], a.dims));
          },
      .samples = {{.dims = {{2}, {3, 4}},
                   .dtypes = {u32},
                   .attrs = RngDimsAttrs{RngAlgorithm::philox, {3, 4}},
                   .lo = 0,
                   .hi = 1},
                  {.dims = {{2}, {}}, .dtypes = {u32}, .attrs = RngDimsAttrs{RngAlgorithm::threefry, {5}}, .lo = 0},
                  {.dims = {{2}, {3, 1}},
                   .dtypes = {u32},
                   .attrs = RngDimsAttrs{RngAlgorithm::philox, {2, 3, 4}},
                   .lo = 0,
                   .hi = 1},
                  {.dims = {{2}, {0}}, .dtypes = {u32}, .attrs = RngDimsAttrs{RngAlgorithm::philox, {0}}, .lo = 0}},
  });
}

OpDef define_rng_randint() {
  return define<RngRandintAttrs>({
      .name = "rng_randint",
      .doc = "integers in [low, high): two words of 32 bits (of 64 for i64 and u64) modulo high - low, one word where "
             "that "
             "is above 2^16 (2^32)",
      .source = "jax.random.randint",
      .operands = {"key"},
      .infer =
          [](Types in, const RngRandintAttrs& a) {
            if (!is_integer(a.dtype) || !has_arithmetic(a.dtype))
              fail(ErrorCode::invalid_argument, "integers are drawn as i8 ... i64 or u8 ... u64, not as ", a.dtype);
            bool is_signed = kind_of(a.dtype) == Kind::signed_int;
            int bits = info(a.dtype).bits - is_signed;
            int64_t most = bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1, least = is_signed ? -most - 1 : 0;
            if (a.low >= a.high || a.low < least || a.high - 1 > most)
              fail(ErrorCode::invalid_argument, "there is no integer in [", a.low, ", ", a.high, "), or ", a.dtype,
                   ", which runs from ", least, " to ", most, ", does not hold them all");
            return drawn(in, a.dims, a.dtype);
          },
      .decompose =
          [](Graph&, Values in, const RngRandintAttrs& a) {
            int bits = std::max(32, info(a.dtype).bits);  // fewer would favour some numbers
            uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
            uint64_t span = (static_cast<uint64_t>(a.high) - static_cast<uint64_t>(a.low)) & mask;
            Keys keys = split_in_two(in[0], a.algorithm);
            Value low = rng_bits(keys.second, a.dims, unsigned_of(bits), a.algorithm), offset = low;
            if (span != 0) {  // 0: every bit pattern is meant
              Value high = rng_bits(keys.first, a.dims, unsigned_of(bits), a.algorithm);
              // 2^bits modulo span, by a square that is 0 for spans beyond 2^(bits / 2), whose products would overflow:
              // of these the second word alone counts.
              uint64_t half = (uint64_t{1} << bits / 2) % span, whole = (half * half & mask) % span;
              Value divisor = unsigned_constant(low, span);
              offset = rem(rem(high, divisor) * unsigned_constant(high, whole) + rem(low, divisor), divisor);
            }
            return convert(offset + unsigned_constant(offset, static_cast<uint64_t>(a.low) & mask), a.dtype);
          },
      .samples = draws<RngRandintAttrs>({{{{2}}, {RngAlgorithm::philox, {3, 4}, i32, 0, 10}},
                                         {{{2}}, {RngAlgorithm::threefry, {5}, i64, -1000000007, 1000000007}},
                                         {{{3, 2}}, {RngAlgorithm::philox, {}, u8, 0, 256}},
                                         {{{2}}, {RngAlgorithm::threefry_original, {7}, i16, -9, -8}}}),
  });
}

OpDef define_rng_categorical() {
  return define<RngCategoricalAttrs>({
      .name = "rng_categorical",
      .doc =
          "places along `axis`, each with a probability proportional to e^logits: where logits plus Gumbel noise are "
          "greatest. `dims` in front: several draws",
      .source = "jax.random.categorical; Gumbel, Statistical theory of extreme values (1954)",
      .operands = {"key", "logits"},
      .differentiable = false,
      .infer =
          [](Types in, const RngCategoricalAttrs& a) {
            require_single_key(in[0]);
            require_kind(in[1], kReal, "logit");
            Dims dims = in[1].dims;
            auto axis = size_t(valid_axis(a.axis, dims.size()));
            if (dims[axis] == Dim(0))
              fail(ErrorCode::shape_mismatch, "axis ", a.axis, " of ", in[1], " has no place to draw");
            require_places(i32, in[1], int64_t(axis), "rng_categorical", kDrawInParts);
            dims.erase(dims.begin() + std::ptrdiff_t(axis));
            dims.insert(dims.begin(), a.dims.begin(), a.dims.end());
            return Type{i32, dims};
          },
      .decompose =
          [](Graph&, Values in, const RngCategoricalAttrs& a) {
            Value logits = in[1];
            int64_t axis = valid_axis(a.axis, logits.dims().size());
            Dims dims = a.dims;
            dims.insert(dims.end(), logits.dims().begin(), logits.dims().end());
            Value noise = gumbel(in[0], dims, logits.dtype(), a.algorithm);
            return argmax(noise + logits, axis + static_cast<int64_t>(a.dims.size()));
          },
      .samples =
          {{.dims = {{2}, {3, 4}}, .dtypes = {u32}},
           {.dims = {{2}, {5}}, .dtypes = {u32}, .attrs = RngCategoricalAttrs{RngAlgorithm::threefry, 0, {2, 3}}},
           {.dims = {{2}, {3, 1, 2}}, .dtypes = {u32}, .attrs = RngCategoricalAttrs{RngAlgorithm::philox, 1}},
           {.dims = {{2}, {0, 3}}, .dtypes = {u32}, .attrs = RngCategoricalAttrs{RngAlgorithm::threefry_original}}},
  });
}

OpDef define_rng_permutation() {
  return define<RngPermutationAttrs>({
      .name = "rng_permutation",
      .doc = "0 ... size - 1 in random order: sorted by random words, often enough that equal words hardly matter",
      .source = "jax.random.permutation",
      .operands = {"key"},
      .infer =
          [](Types in, const RngPermutationAttrs& a) {
            if (a.size < 0 || a.size > INT32_MAX)
              fail(ErrorCode::invalid_argument, "a permutation of ", a.size, " places does not fit i32");
            return drawn(in, {a.size}, i32);
          },
      .decompose =
          [](Graph& g, Values in, const RngPermutationAttrs& a) {
            Value key = in[0], order = iota(g, drawn(std::array{key.type()}, {a.size}, i32), key.rank() - 1);
            double rounds = std::ceil(3 * std::log(std::max<double>(1, double(a.size))) / std::log(double{UINT32_MAX}));
            for (int round = 0; round < rounds; ++round) {
              Keys keys = split_in_two(key, a.algorithm);
              key = keys.first;
              order = sort({rng_bits(keys.second, {a.size}, u32, a.algorithm), order})[1];
            }
            return order;
          },
      .samples = draws<RngPermutationAttrs>({{{{2}}, {RngAlgorithm::philox, 7}},
                                             {{{2}}, {RngAlgorithm::threefry, 2000}},
                                             {{{3, 2}}, {RngAlgorithm::threefry_original, 4}},
                                             {{{2}}, {RngAlgorithm::philox, 1}},
                                             {{{2}}, {RngAlgorithm::philox, 0}}}),
  });
}

OpDef define_dropout() {
  return define<DropoutAttrs>({
      .name = "dropout",
      .doc = "each element of x is 0 with probability `rate`, else x / (1 - rate), so that the expectation stays",
      .source = "Srivastava et al., JMLR 15 (2014); the scaling and the bits are flax.linen.Dropout's",
      .operands = {"key", "x"},
      .infer =
          [](Types in, const DropoutAttrs& a) {
            require_single_key(in[0]);
            require_kind(in[1], kReal);
            if (!(a.rate >= 0 && a.rate <= 1))
              fail(ErrorCode::invalid_argument, "rate must lie in [0, 1], got ", a.rate);
            return in[1];
          },
      .decompose =
          [](Graph&, Values in, const DropoutAttrs& a) {
            Value x = in[1];
            if (a.rate == 0) return x;
            if (a.rate == 1) return zeros_like(x);
            Value u = unit_interval(in[0], x.dims(), f32, a.algorithm);
            return select(below(u, full_like(u, 1 - a.rate)), x / (1 - a.rate), zeros_like(x));
          },
      .samples = {{.dims = {{2}, {3, 4}}, .dtypes = {u32}},
                  {.dims = {{2}, {}}, .dtypes = {u32}, .attrs = DropoutAttrs{RngAlgorithm::threefry, 0.1}},
                  {.dims = {{2}, {2, 0, 3}}, .dtypes = {u32}, .attrs = DropoutAttrs{RngAlgorithm::philox, 0.3}},
                  {.dims = {{2}, {5}}, .dtypes = {u32}, .attrs = DropoutAttrs{RngAlgorithm::philox, 0}},
                  {.dims = {{2}, {5}}, .dtypes = {u32}, .attrs = DropoutAttrs{RngAlgorithm::philox, 1}}},
  });
}

OpDef define_sample() {
  return define<SampleAttrs>({
      .name = "sample",
      .doc =
          "a token of each row: logits / max(temperature, 1e-6), of which the `top_k` greatest stay and those equal to "
          "the last of them; their softmax, of which the smallest descending prefix that reaches `top_p` stays, at "
          "least one; then the first token below whose cumulated probability a uniform number lies. A token of "
          "probability 0 is never drawn, unless a row has none (NaN): then the first is",
      .source = "Fan, Lewis, Dauphin, ACL 2018 (top k); Holtzman et al., ICLR 2020 (top p)",
      .operands = {"key", "logits"},
      .covers = {"Sample"},
      .differentiable = false,
      .infer =
          [](Types in, const SampleAttrs& a) {
            require_single_key(in[0]);
            require_kind(in[1], kReal, "logit");
            if (in[1].dims.empty() || in[1].dims.back() == Dim(0))
              fail(ErrorCode::shape_mismatch, "the last dim of ", in[1], " should be a vocabulary, and has no token");
            if (a.top_k < 0 || !(a.top_p >= 0) || !(a.temperature >= 0))
              fail(ErrorCode::invalid_argument, "top_k, top_p and temperature must not be negative, got ", a.top_k,
                   ", ", a.top_p, ", ", a.temperature);
            require_places(i32, in[1], in[1].rank() - 1, "sample", kDrawInParts);
            Dims dims = in[1].dims;
            dims.pop_back();
            return Type{i32, dims};
          },
      .decompose =
          [](Graph& g, Values in, const SampleAttrs& a) {
            Value z = in[1] / std::max(a.temperature, 1e-6);
            int64_t last = z.rank() - 1;
            const Dim vocabulary = z.dims().back();
            if (a.top_k > 0 && !(vocabulary.is_static() && a.top_k >= vocabulary.value())) {
              Value least = slice_axis(top_k(z, a.top_k).values, -1, a.top_k - 1, a.top_k);
              Value stays = compare(z, broadcast_to(least, z.dims()), Comparison::ge);
              z = select(stays, z, full_like(z, -INFINITY));
            }
            Value p = softmax(z);
            if (a.top_p < 1) {
              auto sorted = sort({p, iota(g, {i32, p.dims()}, last)}, {-1, true});
              Value before = cumsum(sorted[0], -1, true), place = iota(g, {i32, p.dims()}, last);
              Value kept = select(bitwise_or(below(before, full_like(before, a.top_p)),
                                             compare(place, zeros_like(place), Comparison::eq)),
                                  sorted[0], zeros_like(p));
              p = sort({sorted[1], kept})[1];  // back to the order of the vocabulary
            }
            Value reached = cumsum(p), whole = slice_axis(reached, -1, vocabulary - 1, vocabulary);
            Dims rows(p.dims().begin(), p.dims().end() - 1);
            Value u = expand_dims(unit_interval(in[0], rows, p.dtype(), a.algorithm), last);
            Value passed = compare(reached, broadcast_to(u * whole, p.dims()), Comparison::le);
            return reduce_sum(convert(passed, i32), {last});
          },
      .samples = {{.dims = {{2}, {3, 7}}, .dtypes = {u32}},
                  {.dims = {{2}, {7}}, .dtypes = {u32}, .attrs = SampleAttrs{RngAlgorithm::philox, 3, 1, 0.5}},
                  {.dims = {{2}, {4, 9}}, .dtypes = {u32}, .attrs = SampleAttrs{RngAlgorithm::threefry, 0, 0.6}},
                  {.dims = {{2}, {2, 3, 5}}, .dtypes = {u32}, .attrs = SampleAttrs{RngAlgorithm::philox, 4, 0.5, 0}},
                  {.dims = {{2}, {0, 5}}, .dtypes = {u32}, .attrs = SampleAttrs{RngAlgorithm::philox, 9, 0}},
                  {.dims = {{2}, {3, 1}}, .dtypes = {u32}}},
  });
}

}  // namespace rlx
