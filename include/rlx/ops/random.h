// Random numbers. There is no hidden generator: a key is a value, u32[2], and the same key gives the same numbers on
// every device. For other numbers use another key: `rng_split` and `fold_in` make them. Keys may have dims in front of
// their 2 words; the result then has the same dims in front, and each key draws numbers of its own.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef rng_bits, rng_split, fold_in, rng_uniform, rng_normal, rng_truncated_normal, rng_bernoulli,
    rng_randint, rng_categorical, rng_permutation, dropout, sample;
}  // namespace op

/// The generator that makes bits from a key. `threefry` gives the numbers of jax.random, `threefry_original` those of
/// jax.random with jax_threefry_partitionable off, which was its default before JAX 0.5. `philox` takes a fourth of
/// their time.
enum class RngAlgorithm { philox, threefry, threefry_original };
constexpr std::array<std::string_view, 3> names_of(RngAlgorithm) { return {"philox", "threefry", "threefry_original"}; }

/// The same key as jax.random.key(seed).
Value rng_key(Graph&, uint64_t seed);

struct RngBitsAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  Dims dims;
  DType dtype = DType::u32;
  RLX_FIELDS(RngBitsAttrs, field("algorithm", &RngBitsAttrs::algorithm), field("dims", &RngBitsAttrs::dims),
             field("dtype", &RngBitsAttrs::dtype));
};
/// Unsigned integers, every bit of which is 0 or 1 with equal probability.
Value rng_bits(Value key, Dims dims, DType dtype = DType::u32, RngAlgorithm algorithm = RngAlgorithm::philox);

struct RngSplitAttrs {
  Dims dims = {2};
  bool original = false;  ///< as jax.random splits with jax_threefry_partitionable off
  RLX_FIELDS(RngSplitAttrs, field("dims", &RngSplitAttrs::dims), field("original", &RngSplitAttrs::original));
};
/// New keys, `dims` of them: u32[dims..., 2].
Value rng_split(Value key, Dims dims = {2}, bool original = false);
/// Makes another key from a key and a number (of any integer dtype; only its low 32 bits count): for steps of a loop,
/// or for layers.
Value fold_in(Value key, Value data);
Value fold_in(Value key, uint32_t data);

struct RngUniformAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  Dims dims;
  DType dtype = DType::f32;
  double low = 0, high = 1;
  RLX_FIELDS(RngUniformAttrs, field("algorithm", &RngUniformAttrs::algorithm), field("dims", &RngUniformAttrs::dims),
             field("dtype", &RngUniformAttrs::dtype), field("low", &RngUniformAttrs::low),
             field("high", &RngUniformAttrs::high));
};
/// Numbers in [low, high), each made from as many random bits as the dtype's mantissa stores.
Value rng_uniform(Value key, Dims dims, DType dtype = DType::f32, double low = 0, double high = 1,
                  RngAlgorithm algorithm = RngAlgorithm::philox);

struct RngNormalAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  Dims dims;
  DType dtype = DType::f32;
  double mean = 0, scale = 1;
  RLX_FIELDS(RngNormalAttrs, field("algorithm", &RngNormalAttrs::algorithm), field("dims", &RngNormalAttrs::dims),
             field("dtype", &RngNormalAttrs::dtype), field("mean", &RngNormalAttrs::mean),
             field("scale", &RngNormalAttrs::scale));
};
Value rng_normal(Value key, Dims dims, DType dtype = DType::f32, double mean = 0, double scale = 1,
                 RngAlgorithm algorithm = RngAlgorithm::philox);

struct RngTruncatedNormalAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  Dims dims;
  DType dtype = DType::f32;
  double lower = -2, upper = 2;
  RLX_FIELDS(RngTruncatedNormalAttrs, field("algorithm", &RngTruncatedNormalAttrs::algorithm),
             field("dims", &RngTruncatedNormalAttrs::dims), field("dtype", &RngTruncatedNormalAttrs::dtype),
             field("lower", &RngTruncatedNormalAttrs::lower), field("upper", &RngTruncatedNormalAttrs::upper));
};
/// Standard normal numbers that lie between the bounds.
Value rng_truncated_normal(Value key, Dims dims, DType dtype = DType::f32, double lower = -2, double upper = 2,
                           RngAlgorithm algorithm = RngAlgorithm::philox);

/// The attributes of draws whose result always has the same dtype.
struct RngDimsAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  Dims dims;
  RLX_FIELDS(RngDimsAttrs, field("algorithm", &RngDimsAttrs::algorithm), field("dims", &RngDimsAttrs::dims));
};
/// True with probability `p`, a float that broadcasts to the result.
Value rng_bernoulli(Value key, Value p, Dims dims, RngAlgorithm algorithm = RngAlgorithm::philox);

struct RngRandintAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  Dims dims;
  DType dtype = DType::i32;
  int64_t low = 0, high = 2;
  RLX_FIELDS(RngRandintAttrs, field("algorithm", &RngRandintAttrs::algorithm), field("dims", &RngRandintAttrs::dims),
             field("dtype", &RngRandintAttrs::dtype), field("low", &RngRandintAttrs::low),
             field("high", &RngRandintAttrs::high));
};
/// Integers in [low, high); `high` itself is not drawn.
Value rng_randint(Value key, Dims dims, int64_t low, int64_t high, DType dtype = DType::i32,
                  RngAlgorithm algorithm = RngAlgorithm::philox);

struct RngCategoricalAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  int64_t axis = -1;
  Dims dims = {};  ///< draws for each distribution, as dims in front
  RLX_FIELDS(RngCategoricalAttrs, field("algorithm", &RngCategoricalAttrs::algorithm),
             field("axis", &RngCategoricalAttrs::axis), field("dims", &RngCategoricalAttrs::dims));
};
/// Indices along `axis`, i32, drawn with probabilities proportional to e^logits.
Value rng_categorical(Value key, Value logits, int64_t axis = -1, Dims dims = {},
                      RngAlgorithm algorithm = RngAlgorithm::philox);

struct RngPermutationAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  int64_t size = 1;
  RLX_FIELDS(RngPermutationAttrs, field("algorithm", &RngPermutationAttrs::algorithm),
             field("size", &RngPermutationAttrs::size));
};
/// The numbers 0 ... size - 1 in random order, i32.
Value rng_permutation(Value key, int64_t size, RngAlgorithm algorithm = RngAlgorithm::philox);
/// x with the slices along `axis` in random order.
Value shuffle(Value key, Value x, int64_t axis = 0, RngAlgorithm algorithm = RngAlgorithm::philox);

struct DropoutAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  double rate = 0.5;
  RLX_FIELDS(DropoutAttrs, field("algorithm", &DropoutAttrs::algorithm), field("rate", &DropoutAttrs::rate));
};
/// Each element of x is 0 with probability `rate`, else x / (1 - rate).
Value dropout(Value key, Value x, double rate, RngAlgorithm algorithm = RngAlgorithm::philox);

struct SampleAttrs {
  RngAlgorithm algorithm = RngAlgorithm::philox;
  int64_t top_k = 0;  ///< draw among this many of the largest logits, and those equal to the last one; 0: among all
  double top_p = 1;   ///< draw among the most probable ones whose probabilities add up to `top_p`; at least one
  double temperature = 1;
  RLX_FIELDS(SampleAttrs, field("algorithm", &SampleAttrs::algorithm), field("top_k", &SampleAttrs::top_k),
             field("top_p", &SampleAttrs::top_p), field("temperature", &SampleAttrs::temperature));
};
/// Draws the next token of each row of logits[..., vocabulary]: i32[...].
Value sample(Value key, Value logits, int64_t top_k = 0, double top_p = 1, double temperature = 1,
             RngAlgorithm algorithm = RngAlgorithm::philox);

}  // namespace rlx
