// Bits from keys: rng_bits, rng_split, fold_in. What is drawn with them stands in random_draws.cpp.
//
// Philox: the key's stream is the words of the blocks of counter 0, 1, 2, ..., or of the counter that is given and
// those behind it; its bytes, low ones first, are the elements. A counter is of 128 bits, its low word first. Threefry
// as jax._src.prng has it: element i is made of the block of counter (i / 2^32, i mod 2^32), of 64 bits both words with
// the first one above, of fewer the low bits of their exclusive or. Its original form counts words instead: the first
// half of the words are the first words of the blocks of counter (i, i + half), the second half the second ones.
#include "ops/random/random_bits.h"

#include <algorithm>
#include <cstring>

#include "ops/random/random_rules.h"

namespace rlx {

Value rng_key(Graph& g, uint64_t seed) {
  return g.constant(Tensor::of<uint32_t>({2}, {static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed)}));
}
Value rng_bits(Value key, Dims dims, DType dtype, RngAlgorithm algorithm) {
  return emit(op::rng_bits, {key}, RngBitsAttrs{algorithm, std::move(dims), dtype});
}
Value rng_split(Value key, Dims dims, bool original) {
  return emit(op::rng_split, {key}, RngSplitAttrs{std::move(dims), original});
}
Value fold_in(Value key, Value data) { return emit(op::fold_in, {key, data}); }
Value fold_in(Value key, uint32_t data) {
  Dims lead(key.dims().begin(), key.dims().end() - 1);
  return fold_in(key, broadcast_to(key.graph().constant(Tensor::scalar(data)), lead));
}

Dims leading_dims(const Type& key) {
  if (key.dtype != u32 || key.dims.empty() || key.dims.back() != Dim(2))
    fail(ErrorCode::shape_mismatch, "a key is u32[..., 2], got ", key, "; rng_key makes one of a seed");
  return Dims(key.dims.begin(), key.dims.end() - 1);
}

namespace {

using Key = Block2<uint32_t>;

Dims joined_dims(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// ---- on numbers ----
/// Word `i` of `count` in the original layout.
uint32_t original_word(Key key, uint64_t i, uint64_t count) {
  uint64_t half = (count + 1) / 2, first = i < half ? i : i - half, second = first + half;
  auto block = threefry_2x32_20<uint32_t>(
      {static_cast<uint32_t>(first), second < count ? static_cast<uint32_t>(second) : 0}, key);
  return block[i < half ? 0 : 1];
}
/// The counter of the block that lies `n` behind.
Block4<uint32_t> counted_on(const Block4<uint32_t>& counter, uint64_t n) {
  uint64_t low = counter[0] | uint64_t{counter[1]} << 32, high = counter[2] | uint64_t{counter[3]} << 32;
  low += n, high += low < n;
  return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
          static_cast<uint32_t>(high >> 32)};
}
/// Element `i` of `count`, of that many bytes.
uint64_t element(RngAlgorithm algorithm, Key key, const Block4<uint32_t>& counter, uint64_t i, uint64_t count,
                 size_t bytes) {
  uint64_t mask = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * bytes) - 1, bits = 0;
  if (algorithm == RngAlgorithm::threefry) {
    auto block = threefry_2x32_20<uint32_t>({static_cast<uint32_t>(i >> 32), static_cast<uint32_t>(i)}, key);
    return (bytes == 8 ? uint64_t{block[0]} << 32 | block[1] : uint64_t{block[0] ^ block[1]}) & mask;
  }
  if (algorithm == RngAlgorithm::threefry_original) {
    if (bytes == 8) return uint64_t{original_word(key, i, 2 * count)} << 32 | original_word(key, count + i, 2 * count);
    uint64_t words = (count * bytes + 3) / 4;
    return original_word(key, i * bytes / 4, words) >> 8 * (i * bytes % 4) & mask;
  }
  uint64_t at = i * bytes;
  auto block = philox_4x32_10<uint32_t>(counted_on(counter, at / 16), key);
  std::memcpy(&bits, reinterpret_cast<const char*>(block.data()) + at % 16, bytes);
  return bits;
}

/// `counters`, if it is given, has one for each key.
Tensor bits_of(const Tensor& keys, const Tensor* counters, const RngBitsAttrs& a) {
  Shape dims = shape_of(joined_dims(leading_dims(keys.type()), a.dims));
  Tensor y(a.dtype, dims);
  size_t count = static_cast<size_t>(element_count(shape_of(a.dims)));
  for (size_t i = 0; i < y.element_count(); ++i) {
    const uint32_t* key = keys.values<uint32_t>().data() + 2 * (i / count);
    Block4<uint32_t> counter = {};
    if (counters) std::copy_n(counters->values<uint32_t>().data() + 4 * (i / count), 4, counter.begin());
    store<uint64_t>(y, i, element(a.algorithm, {key[0], key[1]}, counter, i % count, count, byte_size(a.dtype)));
  }
  return y;
}

// ---- on graph values ----
/// The words along the last dim of `x`, each with a new last dim instead.
template <size_t kWords>
std::array<Value, kWords> spread_words(Value x, const Dim& count) {
  Dims lead(x.dims().begin(), x.dims().end() - 1), dims = joined_dims(lead, {count});
  std::array<Value, kWords> words;
  for (size_t i = 0; i < kWords; ++i) {
    auto w = static_cast<int64_t>(i);
    words[i] = broadcast_in_dim(reshape(slice_axis(x, -1, w, w + 1), lead), dims, axes_from(0, lead.size()));
  }
  return words;
}
Block2<Value> spread_key(Value key, const Dim& count) { return spread_words<2>(key, count); }
/// first, first + 1, ... along the last dim of `dims`.
Value counts(Graph& g, const Dims& dims, double first = 0) {
  Value n = iota(g, {u32, dims}, static_cast<int64_t>(dims.size()) - 1);
  return first == 0 ? n : n + first;
}
/// Places along the last dim as words (high, low).
Block2<Value> wide_counts(Graph& g, const Dims& dims) {
  const Dim& n = dims.back();
  if (n.is_static() && n.value() <= (int64_t{1} << 32)) return {full(g, 0, {u32, dims}), counts(g, dims)};
  Value place = iota(g, {u64, dims}, static_cast<int64_t>(dims.size()) - 1);
  return {convert(shift_right_logical(place, full_like(place, 32)), u32), convert(place, u32)};
}
/// Both words of each, the first one above.
Value joined_words(Value high, Value low) {
  Value above = convert(high, u64);
  return bitwise_or(shift_left(above, full_like(above, 32)), convert(low, u64));
}
/// x[..., n] of u32 as elements of `dtype` side by side. Of 64 bits by shifts: where integers of 64 bits are pairs of
/// words, these are moved and nothing else.
Value read_as(Value x, DType dtype) {
  auto per_word = static_cast<int64_t>(byte_size(dtype));
  Dims dims = x.dims();
  if (per_word == 8) {
    dims.back() = dims.back() / 2;
    Value pairs = reshape(x, joined_dims(dims, {2}));
    auto word = [&](int64_t w) { return reshape(slice_axis(pairs, -1, w, w + 1), dims); };
    return joined_words(word(1), word(0));
  }
  if (per_word < 4) dims.back() = dims.back() * (4 / per_word);
  return reshape(bitcast(x, dtype), dims);
}
Value first_places(Value x, const Dim& count) { return slice_axis(x, -1, 0, count); }

/// The sum modulo 2^32 and, where it is one of more bits, 1.
struct SumAndCarry {
  Value sum, carry;
};
SumAndCarry added(Value x, Value y) {
  Value sum = x + y;
  return {sum, convert(compare(sum, x, Comparison::lt), u32)};
}
/// The counters of the blocks that lie n (high, low) behind.
Block4<Value> counted_on(const Block4<Value>& counter, const Block2<Value>& n) {
  auto [word0, carry0] = added(counter[0], n[1]);
  auto [word1, carry1] = added(counter[1], n[0]);
  auto [carried1, carried] = added(word1, carry0);  // one of both at most is more than 32 bits
  auto [word2, carry2] = added(counter[2], carry1 + carried);
  return {word0, carried1, word2, counter[3] + carry2};
}

/// `counter` may be empty.
Value philox_parts(Graph& g, Value key, Value counter, const Dim& count, DType dtype) {
  auto bytes = static_cast<int64_t>(byte_size(dtype));
  // Of a symbolic count the quotient is no polynomial: that many blocks are enough.
  Dim blocks = count.is_static() ? Dim((count.value() * bytes + 15) / 16) : count;
  Block2<Value> words = spread_key(key, blocks);
  Block2<Value> n = wide_counts(g, words[0].dims());
  Value zero = full_like(words[0], 0);
  Block4<Value> counters = {n[1], n[0], zero, zero};
  if (counter) counters = counted_on(spread_words<4>(counter, blocks), n);
  std::vector<Value> columns;
  for (Value v : philox_4x32_10<Value>(counters, words)) columns.push_back(expand_dims(v, v.rank()));
  Value all = concatenate(columns, -1);
  Dims dims = words[0].dims();
  dims.back() = blocks * 4;
  return first_places(read_as(reshape(all, dims), dtype), count);
}
Value threefry_parts(Graph& g, Value key, Value, const Dim& count, DType dtype) {
  Block2<Value> words = spread_key(key, count);
  auto block = threefry_2x32_20<Value>(wide_counts(g, words[0].dims()), words);
  if (dtype != u64) return convert(bitwise_xor(block[0], block[1]), dtype);
  return joined_words(block[0], block[1]);
}
/// The words of the original layout.
Value original_words(Graph& g, Value key, int64_t count) {
  int64_t half = (count + 1) / 2;
  Block2<Value> words = spread_key(key, half);
  Value first = counts(g, words[0].dims()), second = counts(g, words[0].dims(), static_cast<double>(half));
  if (count % 2) {
    Value is_last = compare(first, full_like(first, static_cast<double>(half - 1)), Comparison::eq);
    second = select(is_last, zeros_like(second), second);
  }
  auto block = threefry_2x32_20<Value>({first, second}, words);
  return first_places(concatenate({block[0], block[1]}, -1), count);
}
Value original_parts(Graph& g, Value key, Value, const Dim& count, DType dtype) {
  if (!count.is_static())
    fail(ErrorCode::unsupported, "threefry_original pairs counters that lie half of ", count,
         " apart: the count must be a number; use threefry");
  int64_t n = count.value(), bytes = static_cast<int64_t>(byte_size(dtype)), words = (n * bytes + 3) / 4;
  Value all = original_words(g, key, words);
  if (dtype != u64) return first_places(read_as(all, dtype), n);
  return joined_words(slice_axis(all, -1, 0, n), slice_axis(all, -1, n, 2 * n));
}

}  // namespace

OpDef define_rng_bits() {
  return define<RngBitsAttrs>({
      .name = "rng_bits",
      .doc = "unsigned integers of random bits: `dims` of them for each key. Equal keys give equal bits, everywhere. "
             "Philox may begin at a `counter`, u32[..., 4] with the low word first, instead of at 0: the bits of XLA's "
             "RngBitGenerator for the state (key, counter)",
      .source = "Salmon, Moraes, Dror, Shaw, SC 2011: Philox 4x32-10, Threefry 2x32-20; JAX's jax._src.prng for the "
                "latter's counters",
      .operands = {"key", "counter?"},
      .infer =
          [](Types in, const RngBitsAttrs& a) {
            if (in.size() > 1) {
              if (a.algorithm != RngAlgorithm::philox)
                fail(ErrorCode::invalid_argument,
                     "philox counts from a counter that is given, the other algorithms "
                     "from 0 alone");
              Type wanted{u32, joined_dims(leading_dims(in[0]), {4})};
              if (in[1] != wanted)
                fail(ErrorCode::shape_mismatch, "the counter of the key ", in[0], " is ", wanted, ", got ", in[1]);
            }
            if (kind_of(a.dtype) != Kind::unsigned_int || info(a.dtype).bits < 8)
              fail(ErrorCode::invalid_argument, "bits are drawn as u8, u16, u32 or u64, not as ", a.dtype);
            Dim count = element_count(a.dims);
            if (a.algorithm == RngAlgorithm::threefry_original && count.is_static() &&
                count.value() > (int64_t{1} << 29))
              fail(ErrorCode::unsupported, "threefry_original counts 32-bit words of at most 2^29 elements, got ",
                   count, "; use threefry");
            return Type{a.dtype, joined_dims(leading_dims(in[0]), a.dims)};
          },
      .reference = [](Tensors in,
                      const RngBitsAttrs& a) { return bits_of(in[0], in.size() > 1 ? &in[1] : nullptr, a); },
      .decompose =
          [](Graph& g, Values in, const RngBitsAttrs& a) {
            Dim count = element_count(a.dims);
            auto parts = a.algorithm == RngAlgorithm::philox     ? philox_parts
                         : a.algorithm == RngAlgorithm::threefry ? threefry_parts
                                                                 : original_parts;
            Value counter = in.size() > 1 ? in[1] : Value{};
            return reshape(parts(g, in[0], counter, count, a.dtype), joined_dims(leading_dims(in[0].type()), a.dims));
          },
      .batch =
          [](Values in, const RngBitsAttrs& a) {
            return emit(op::rng_bits, {in.begin(), in.end()}, a);
          },
      .samples = draws<RngBitsAttrs>({{{{2}}, {RngAlgorithm::philox, {3, 5}}},
                                      {{{2}}, {RngAlgorithm::philox, {7}, u8}},
                                      {{{3, 2}}, {RngAlgorithm::philox, {5}, u16}},
                                      {{{2}}, {RngAlgorithm::philox, {}, u64}},
                                      {{{2}, {4}}, {RngAlgorithm::philox, {9}}},
                                      {{{3, 2}, {3, 4}}, {RngAlgorithm::philox, {5}, u64}},
                                      {{{2}}, {RngAlgorithm::threefry, {2, 3}}},
                                      {{{2}}, {RngAlgorithm::threefry, {5}, u64}},
                                      {{{2, 1, 2}}, {RngAlgorithm::threefry, {3}, u8}},
                                      {{{2}}, {RngAlgorithm::threefry_original, {7}}},
                                      {{{2}}, {RngAlgorithm::threefry_original, {3}, u64}},
                                      {{{2}}, {RngAlgorithm::threefry_original, {9}, u8}},
                                      {{{2, 2}}, {RngAlgorithm::threefry_original, {0}, u16}}}),
  });
}

OpDef define_rng_split() {
  return define<RngSplitAttrs>({
      .name = "rng_split",
      .doc = "`dims` new keys, as u32[dims..., 2], that are independent of each other and of what the key itself draws",
      .source = "jax.random.split",
      .operands = {"key"},
      .infer =
          [](Types in, const RngSplitAttrs& a) {
            return Type{u32, joined_dims(joined_dims(leading_dims(in[0]), a.dims), {2})};
          },
      .decompose =
          [](Graph& g, Values in, const RngSplitAttrs& a) {
            Dim count = element_count(a.dims);
            Dims dims = infer_types(op::rng_split, std::array{in[0].type()}, a)[0].dims;
            if (a.original) return reshape(rng_bits(in[0], {count * 2}, u32, RngAlgorithm::threefry_original), dims);
            Block2<Value> words = spread_key(in[0], count);
            auto block = threefry_2x32_20<Value>(wide_counts(g, words[0].dims()), words);
            for (Value& v : block) v = expand_dims(v, v.rank());
            return reshape(concatenate({block[0], block[1]}, -1), dims);
          },
      .samples = draws<RngSplitAttrs>(
          {{{{2}}, {}}, {{{2}}, {{3, 2}}}, {{{4, 2}}, {{5}, true}}, {{{2}}, {{}}}, {{{2}}, {{0}}}}),
  });
}

OpDef define_fold_in() {
  return define<>({
      .name = "fold_in",
      .doc = "another key, made of a key and a number: its low 32 bits",
      .source = "jax.random.fold_in",
      .operands = {"key", "data"},
      .infer =
          [](Types in) {
            require_kind(in[1], kInteger, "number");
            if (in[1].dims != leading_dims(in[0]))
              fail(ErrorCode::shape_mismatch, "each key of ", in[0], " takes one number, got ", in[1]);
            return in[0];
          },
      .decompose =
          [](Values in) {
            Value data = expand_dims(convert(in[1], u32), in[1].rank());
            auto block = threefry_2x32_20<Value>({zeros_like(data), data}, spread_key(in[0], 1));
            return concatenate({block[0], block[1]}, -1);
          },
      .samples = {{.dims = {{2}, {}}, .dtypes = {u32, u32}, .lo = 0, .hi = 4e9},
                  {.dims = {{3, 2}, {3}}, .dtypes = {u32, i32}, .lo = -5, .hi = 2e9},
                  {.dims = {{2, 1, 2}, {2, 1}}, .dtypes = {u32, u8}, .lo = 0, .hi = 200},
                  {.dims = {{2}, {}}, .dtypes = {u32, i64}, .lo = -9, .hi = 9}},
  });
}

}  // namespace rlx
