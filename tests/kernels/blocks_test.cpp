// Decoding of block formats, and products with weights in them, on every instruction set. The scalar decoders, which
// tests/golden/blocks_test.cpp compares with the gguf package, say what the elements are; sums are compared with those
// of f64.
#include "kernels/quant/blocks.h"

#include <bit>
#include <cstring>
#include <limits>

#include "kernels/kernel_test.h"
#include "kernels/quant/digit_blocks.h"
#include "kernels/quant/split_blocks.h"
#include "kernels/quant/tiled_blocks.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/vector/instruction_set.h"
#include "kernels/vector/narrow_float.h"
#include "rlx/blocks.h"
#include "rlx/element.h"
#include "support/emulated_tiles.h"

using namespace rlx;
using namespace rlx::kernels;
using rlx::test::MatrixTiles;

namespace {

constexpr float kGreatest = 1e4F;

/// What is decoded at once: a block, or halves.
struct Unit {
  int64_t elements, bytes;
  explicit Unit(DType t)
      : elements(is_block(t) ? info(t).block_elements : BlockWeightsProduct::kHalvesTogether),
        bytes(is_block(t) ? info(t).block_bytes : static_cast<int64_t>(byte_size(t)) * elements) {}
};
void decode_unit(DType t, const std::byte* from, float* to) {
  if (is_block(t)) return block_decoder(t)(from, 1, to);
  for (int64_t i = 0; i < Unit(t).elements; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = static_cast<float>(decode_float(t, bits));
  }
}

/// Blocks of random bytes, and their elements.
struct Blocks {
  DType format;
  std::vector<std::byte> bytes;
  std::vector<float> elements;

  /// If `moderate`, blocks with elements that are no numbers, or beyond kGreatest, are drawn again.
  Blocks(DType t, int64_t count, bool moderate, uint64_t seed)
      : format(t), bytes(static_cast<size_t>(count * Unit(t).bytes)),
        elements(static_cast<size_t>(count * Unit(t).elements)) {
    test::Random random(seed);
    const Unit unit(t);
    for (int64_t b = 0; b < count;) {
      std::byte* block = bytes.data() + b * unit.bytes;
      float* values = elements.data() + b * unit.elements;
      for (int64_t i = 0; i < unit.bytes; ++i) block[i] = static_cast<std::byte>(random.bits());
      // Of 64 random halves one is nearly always too large: of each that may be, an exponent's bit is cleared.
      for (int64_t i = 1; moderate && !is_block(t) && i < unit.bytes; i += 2) block[i] &= std::byte{0xbf};
      decode_unit(t, block, values);
      const bool fits = std::all_of(values, values + unit.elements,
                                    [](float v) { return std::abs(v) <= kGreatest; });  // false for NaN
      if (fits || !moderate) ++b;
    }
  }
};

template <class F>
void for_each_format(F f) {
  for (size_t i = 0; i < kDTypeCount; ++i)
    if (const auto t = static_cast<DType>(i); is_block(t) || t == f16 || t == bf16) f(t);
}

/// The worst error of a product, over the bound of f32 sums of k terms: 4 sqrt(k) 2^-24 of the sum of magnitudes.
double worst_of_bound(const Blocks& w, const float* x, int64_t rows, int64_t columns, int64_t k,
                      const std::vector<float>& y) {
  double worst = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double term =
            static_cast<double>(x[r * k + i]) * static_cast<double>(w.elements[static_cast<size_t>(j * k + i)]);
        sum += term, magnitude += std::abs(term);
      }
      const double bound = 4 * std::sqrt(static_cast<double>(k)) * 0x1p-24 * magnitude;
      const double error = std::abs(static_cast<double>(y[static_cast<size_t>(r * columns + j)]) - sum);
      worst = std::max(worst, error / std::max(bound, 1e-30));
    }
  return worst;
}

}  // namespace

TEST_CASE("blocks: every format, and halves, are decoded as by scalar decoders, bit by bit") {
  for_each_format([](DType format) {
    // Random halves are subnormal once in 32 times, and no finite numbers as often.
    const int64_t count = 2000;
    const Blocks blocks(format, count, false, 7);
    test::for_each_target([&] {
      std::vector<float> decoded(blocks.elements.size(), 99);
      decode_blocks(format, blocks.bytes.data(), count * Unit(format).elements / info(format).block_elements,
                    decoded.data());
      size_t different = 0;
      for (size_t i = 0; i < decoded.size(); ++i) {
        const float want = blocks.elements[i], got = decoded[i];
        different +=
            std::isnan(want) ? !std::isnan(got) : std::bit_cast<uint32_t>(want) != std::bit_cast<uint32_t>(got);
      }
      INFO(std::string(name_of(format)));
      CHECK(different == 0);
      // As bf16 they are rounded once, to even.
      std::vector<BF16> narrow(blocks.elements.size());
      decode_blocks(format, blocks.bytes.data(), count * Unit(format).elements / info(format).block_elements,
                    narrow.data());
      size_t odd = 0;
      for (size_t i = 0; i < narrow.size(); ++i) {
        const float want = blocks.elements[i];
        odd += std::isnan(want) ? !std::isnan(to_f32(narrow[i]))
                                : narrow[i].bits != encode_float(bf16, static_cast<double>(want));
      }
      CHECK(odd == 0);
    });
  });
}

TEST_CASE("blocks: products of one to eight rows are within the bound of f32 sums") {
  for_each_format([](DType format) {
    const Unit unit(format);
    // One block; some; more than a partial sum has terms, and not a multiple of it.
    for (const int64_t blocks_of_row : {int64_t{1}, 768 / unit.elements, 8448 / unit.elements}) {
      const int64_t k = blocks_of_row * unit.elements, columns = k > 1000 ? 3 : 35;
      const Blocks w(format, blocks_of_row * columns, true, 11);
      const test::Elements x = test::Elements::random(f32, BlockWeightsProduct::kMaxRows * k, 13);
      const auto* xs = static_cast<const float*>(x.data());
      test::for_each_target([&] {
        for (int64_t rows = 1; rows <= BlockWeightsProduct::kMaxRows; ++rows) {
          std::vector<float> y(static_cast<size_t>(rows * columns), 99);
          BlockWeightsProduct p;
          p.format = format, p.w = w.bytes.data(), p.k = k, p.rows = rows, p.x = xs, p.x_stride = k;
          p.y = y.data(), p.y_stride = columns;
          multiply_block_weights(p, 0, columns);
          const double worst = worst_of_bound(w, xs, rows, columns, k, y);
          INFO(std::string(name_of(format)), ", k ", k, ", ", rows, " rows");
          CHECK(worst <= 1);
        }
      });
    }
  });
}

TEST_CASE("blocks: the bound of f32 sums holds beside numbers of very different magnitudes") {
  for_each_format([](DType format) {
    const Unit unit(format);
    for (const int64_t k : {unit.elements, 3 * std::max<int64_t>(unit.elements, 64), 11 * int64_t{256}}) {
      constexpr int64_t kColumns = 5, kRows = 4;
      const Blocks w(format, k / unit.elements * kColumns, true, 17);
      test::Random random(19);
      std::vector<float> x(static_cast<size_t>(kRows * k));
      for (float& v : x)
        v = std::ldexp(static_cast<float>(random.bits() % 2001) - 1000, static_cast<int>(random.bits() % 80) - 50);
      test::for_each_target([&] {
        for (int64_t rows = 1; rows <= kRows; ++rows) {
          std::vector<float> y(static_cast<size_t>(rows * kColumns), 99);
          BlockWeightsProduct p;
          p.format = format, p.w = w.bytes.data(), p.k = k, p.rows = rows, p.x = x.data(), p.x_stride = k;
          p.y = y.data(), p.y_stride = kColumns;
          multiply_block_weights(p, 0, kColumns);
          const double worst = worst_of_bound(w, x.data(), rows, kColumns, k, y);
          INFO(std::string(name_of(format)), ", k ", k, ", ", rows, " rows");
          CHECK(worst <= 1);
        }
      });
    }
  });
}

TEST_CASE("blocks: a column of one row has the same bits, whichever columns are computed with it") {
  for (const DType format : {q8_0, q4_k, q6_k, q5_k, bf16})
    for (const int64_t k : {256, 1280, 8448}) {
      constexpr int64_t kColumns = 71;
      const Blocks w(format, kColumns * k / Unit(format).elements, true, 43);
      const int64_t row_bytes = k / Unit(format).elements * Unit(format).bytes;
      const test::Elements x = test::Elements::random(f32, k, 37);
      test::for_each_target([&] {
        std::vector<float> y(kColumns, 99), alone(kColumns, 99);
        BlockWeightsProduct p;
        p.format = format, p.w = w.bytes.data(), p.k = k, p.rows = 1, p.x = static_cast<const float*>(x.data());
        p.x_stride = k, p.y = y.data(), p.y_stride = kColumns;
        multiply_block_weights(p, 0, 64);
        multiply_block_weights(p, 64, kColumns);
        for (int64_t j = 0; j < kColumns; ++j) {
          p.w = w.bytes.data() + j * row_bytes, p.y = alone.data() + j;
          multiply_block_weights(p, 0, 1);
        }
        INFO(std::string(name_of(format)), ", k ", k);
        CHECK(std::memcmp(y.data(), alone.data(), sizeof(float) * kColumns) == 0);
      });
    }
}

TEST_CASE("blocks: a row with a single 1 gives the weights, bit by bit") {
  for_each_format([](DType format) {
    const int64_t k = std::max<int64_t>(2 * Unit(format).elements, 512);
    const Blocks w(format, 7 * k / Unit(format).elements, true, 47);
    test::for_each_target([&] {
      std::vector<float> x(static_cast<size_t>(k)), y(7);
      size_t different = 0;
      for (int64_t i = 0; i < k; ++i) {
        x[static_cast<size_t>(i)] = 1;
        BlockWeightsProduct p;
        p.format = format, p.w = w.bytes.data(), p.k = k, p.rows = 1, p.x = x.data(), p.x_stride = k;
        p.y = y.data(), p.y_stride = 7;
        multiply_block_weights(p, 0, 7);
        for (int64_t j = 0; j < 7; ++j)  // 0 has either sign
          different += y[static_cast<size_t>(j)] != w.elements[static_cast<size_t>(j * k + i)];
        x[static_cast<size_t>(i)] = 0;
      }
      INFO(std::string(name_of(format)));
      CHECK(different == 0);
    });
  });
}

TEST_CASE("blocks: sums of very large and very small numbers are right where they are finite") {
  for (const DType format : {q8_0, q4_k, q6_k})
    for (const float size : {0x1.8p125F, 0x1p113F, 0x1p-126F, 0x1p-140F}) {
      constexpr int64_t kK = 512, kColumns = 37;
      Blocks w(format, kColumns * kK / Unit(format).elements, true, 53);
      const int64_t bytes = Unit(format).bytes;
      // Scales of about 2^-20 beside large numbers, so that sums stay finite though products with integers do not.
      const uint16_t half = size > 1 ? 0x0010 : 0x7000;
      for (size_t at = 0; at < w.bytes.size(); at += static_cast<size_t>(bytes)) {
        std::memcpy(w.bytes.data() + at + (format == q6_k ? 208 : 0), &half, 2);
        if (format == q4_k) std::memcpy(w.bytes.data() + at + 2, &half, 2);
        decode_unit(format, w.bytes.data() + at,
                    w.elements.data() + static_cast<int64_t>(at) / bytes * Unit(format).elements);
      }
      std::vector<float> x(kK);
      test::Random random(59);
      for (float& v : x) v = size * ((static_cast<float>(random.bits() % 2001) - 1000) / 1000);
      test::for_each_target([&] {
        std::vector<float> y(kColumns, 99);
        BlockWeightsProduct p;
        p.format = format, p.w = w.bytes.data(), p.k = kK, p.rows = 1, p.x = x.data(), p.x_stride = kK;
        p.y = y.data(), p.y_stride = kColumns;
        multiply_block_weights(p, 0, kColumns);
        for (int64_t j = 0; j < kColumns; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t i = 0; i < kK; ++i) {
            const double term = static_cast<double>(x[static_cast<size_t>(i)]) *
                                static_cast<double>(w.elements[static_cast<size_t>(j * kK + i)]);
            sum += term, magnitude += std::abs(term);
          }
          INFO(std::string(name_of(format)), ", size ", size, ", column ", j);
          REQUIRE(magnitude < 3e38);
          // Below the normal numbers each of the kK terms is within half a unit of the smallest.
          const double bound = 4 * std::sqrt(static_cast<double>(kK)) * 0x1p-24 * magnitude + kK * 0x1p-150;
          CHECK(std::abs(static_cast<double>(y[static_cast<size_t>(j)]) - sum) <= bound);
        }
      });
    }
}

TEST_CASE("blocks: columns with scales that are not finite, and rows with such numbers, are what their elements give") {
  for (const DType format : {q8_0, q4_k, q6_k})
    for (const int odd : {0x7c00, 0xfc00, 0x7e00}) {
      constexpr int64_t kK = 512, kColumns = 70;
      Blocks w(format, kColumns * kK / Unit(format).elements, true, 61);
      const int64_t row_bytes = kK / Unit(format).elements * Unit(format).bytes;
      std::byte* const block = w.bytes.data() + 37 * row_bytes;
      std::memcpy(block + (format == q6_k ? 208 : 0), &odd, 2);
      decode_unit(format, block, w.elements.data() + 37 * kK);
      for (const bool is_row_odd : {false, true}) {
        test::Elements x = test::Elements::random(f32, kK, 37);
        if (is_row_odd) x.set(300, std::numeric_limits<double>::infinity());
        const auto* xs = static_cast<const float*>(x.data());
        test::for_each_target([&] {
          std::vector<float> y(kColumns, 99);
          BlockWeightsProduct p;
          p.format = format, p.w = w.bytes.data(), p.k = kK, p.rows = 1, p.x = xs, p.x_stride = kK;
          p.y = y.data(), p.y_stride = kColumns;
          multiply_block_weights(p, 0, kColumns);
          for (int64_t j = 0; j < kColumns; ++j) {
            double sum = 0;
            for (int64_t i = 0; i < kK; ++i)
              sum += static_cast<double>(xs[i]) * static_cast<double>(w.elements[static_cast<size_t>(j * kK + i)]);
            const auto got = static_cast<double>(y[static_cast<size_t>(j)]);
            INFO(std::string(name_of(format)), ", column ", j, ", odd row ", is_row_odd);
            if (std::isnan(sum)) CHECK(std::isnan(got));
            else if (std::isinf(sum)) CHECK(got == sum);
            else CHECK(std::isfinite(got));
          }
        });
      }
    }
}

TEST_CASE("blocks: elements of q4_k that are nothing add nothing, however large x is there") {
  // Scale 1 and minimum 3 for each of the eight sub-blocks, and the value 3 everywhere, so that all elements are 0, but
  // for the last one, which is 4 - 3.
  std::vector<std::byte> block(144, std::byte{0x33});
  const auto put = [&](size_t at, std::initializer_list<int> bytes) {
    for (int b : bytes) block[at++] = static_cast<std::byte>(b);
  };
  put(0, {0, 0x3c, 0, 0x3c, 1, 1, 1, 1, 3, 3, 3, 3, 0x31, 0x31, 0x31, 0x31});
  block[143] = std::byte{0x43};
  std::vector<float> x(256, 3e37F);
  x[255] = 0.3F;
  test::for_each_target([&] {
    float y = 99;
    BlockWeightsProduct p;
    p.format = q4_k, p.w = block.data(), p.k = 256, p.rows = 1, p.x = x.data(), p.x_stride = 256, p.y = &y;
    p.y_stride = 1;
    multiply_block_weights(p, 0, 1);
    CHECK(y == 0.3F);
  });
}

namespace {

/// x[k] as integers of two or three digits.
struct SplitRow {
  SplitDigits digits;
  std::vector<char> memory;
  bool is_there;
  SplitRow(SplitDigits d, DType format, const float* x, int64_t k)
      : digits(d), memory(split_row_bytes(d, k) + 64), is_there(split_row(d, format, x, k, row())) {}
  char* row() { return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64; }
};
/// Calls f(digits) for each number of digits that rows are split into here, with all instructions and with AVX2's
/// alone.
template <class F>
void for_each_split(const F& f) {
  for (const char* isa : {"native", "avx2"}) {
    const InstructionSetLimit* limit = nullptr;
    try {
      limit = instruction_set_limit(isa, "isa");
    } catch (const Error& e) {
      MESSAGE("skipped: ", e.what());
      continue;
    }
    const InstructionSetScope scope(limit);
    for (const SplitDigits digits : {SplitDigits::two, SplitDigits::three}) {
      INFO(std::string(isa), ", digits ", digits == SplitDigits::two ? 2 : 3);
      if (splits_rows_beside(digits, q8_0, 256)) f(digits);
      else MESSAGE("skipped: no row is split into so many digits with ", used_instruction_set());
    }
  }
}
/// How much of 2^e is lost of a number where the largest beside it is below 2^e.
double half_step(SplitDigits digits) { return digits == SplitDigits::two ? 0x1p-15 : 0x1p-23; }

}  // namespace

TEST_CASE("blocks: a row that is split into integers has sums within a rounding of its largest numbers") {
  for_each_split([](SplitDigits digits) {
    for (const int64_t k : {0, 128, 288, 16384 + 256}) CHECK(!splits_rows_beside(digits, q8_0, k));
    for (const DType format : {q8_0, q4_k, q6_k})
      for (const int64_t k : {256, 1024, 3072}) {
        REQUIRE(splits_rows_beside(digits, format, k));
        const int64_t columns = 67;
        const Blocks w(format, columns * k / info(format).block_elements, true, 31);
        for (const double size : {1.0, 1e-9, 1e9}) {
          test::Elements x = test::Elements::random(f32, k, 37, -size, size);
          x.set(k - 1, size * 60), x.set(3, 0);  // one number is much larger than the others
          const auto* xs = static_cast<const float*>(x.data());
          SplitRow row(digits, format, xs, k);
          REQUIRE(row.is_there);
          std::vector<float> y(static_cast<size_t>(columns), 99);
          BlockWeightsProduct p;
          p.format = format, p.w = w.bytes.data(), p.k = k, p.rows = 1, p.x = xs, p.x_stride = k;
          p.y = y.data(), p.y_stride = columns;
          multiply_split_row(digits, p, row.row(), 0, columns);
          double worst = 0;
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 0, bound = 0;
            for (int64_t i = 0; i < k; ++i) {
              const double number = static_cast<double>(w.elements[static_cast<size_t>(j * k + i)]);
              sum += static_cast<double>(xs[i]) * number;
              bound += std::abs(number) * size * (i >= k - 256 ? 60 : 1);
            }
            worst = std::max(worst, std::abs(static_cast<double>(y[static_cast<size_t>(j)]) - sum) /
                                        (2 * half_step(digits) * bound));  // 2^e is up to twice the largest number
          }
          INFO(std::string(name_of(format)), ", k ", k, ", size ", size, ", digits ", static_cast<int>(digits));
          CHECK(worst <= 1);
          CHECK(worst > 1e-6);  // and it is not f32's sums that are compared
        }
        std::vector<float> x(static_cast<size_t>(k), 1);
        CHECK(SplitRow(digits, format, x.data(), k).is_there);
        for (const float odd : {std::numeric_limits<float>::infinity(), std::nanf(""), 1e30F}) {
          x[static_cast<size_t>(k / 2)] = odd;
          CHECK(!SplitRow(digits, format, x.data(), k).is_there);
        }
      }
  });
}

TEST_CASE("blocks: a column of a split row's product does not depend on the columns beside it") {
  constexpr int64_t kColumns = 71, kK = 768;
  for_each_split([](SplitDigits digits) {
    for (const DType format : {q8_0, q4_k, q6_k}) {
      const Blocks w(format, kColumns * kK / info(format).block_elements, true, 33);
      const int64_t row_bytes = kK / info(format).block_elements * info(format).block_bytes;
      const test::Elements x = test::Elements::random(f32, kK, 37);
      const auto* xs = static_cast<const float*>(x.data());
      SplitRow row(digits, format, xs, kK);
      REQUIRE(row.is_there);
      std::vector<float> together(kColumns, 99);
      BlockWeightsProduct p;
      p.format = format, p.w = w.bytes.data(), p.k = kK, p.rows = 1, p.x = xs, p.x_stride = kK;
      p.y = together.data(), p.y_stride = kColumns;
      multiply_split_row(digits, p, row.row(), 0, kColumns);
      for (int64_t j = 0; j < kColumns; ++j) {
        float alone = 98;
        p.w = w.bytes.data() + j * row_bytes, p.y = &alone, p.y_stride = 1;
        multiply_split_row(digits, p, row.row(), 0, 1);
        INFO(std::string(name_of(format)), ", column ", j);
        CHECK(std::memcmp(&alone, &together[static_cast<size_t>(j)], sizeof alone) == 0);
      }
    }
  });
}

namespace {

/// x[k] as digits.
struct Digits {
  std::vector<char> memory;
  bool are_there;
  Digits(DType format, const float* x, int64_t k)
      : memory(digit_row_bytes(k) + 64), are_there(make_digits(format, x, k, row())) {}
  char* row() { return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64; }
};
BlockWeightsProduct product_of_row(const Blocks& w, const float* x, int64_t k, std::vector<float>& y) {
  BlockWeightsProduct p;
  p.format = w.format, p.w = w.bytes.data(), p.k = k, p.rows = 1, p.x = x, p.x_stride = k;
  p.y = y.data(), p.y_stride = static_cast<int64_t>(y.size());
  return p;
}

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles, "blocks: products of a row's digits are within the bound of f32 sums") {
  if (!are_there) return;
  // One run; an odd number of them; whole chunks of 1024 and parts of one; few columns, and many.
  for (const DType format : {q8_0, q4_k, q6_k})
    for (const int64_t k : {32, 96, 256, 512, 768, 1024, 1120, 2048, 3328})
      for (const int64_t columns : {16, 35, 75, 149}) {
        if (k % info(format).block_elements != 0) continue;
        REQUIRE(has_digits_beside(format, k, columns));
        const Blocks w(format, columns * k / info(format).block_elements, true, 53);
        for (const double size : {1.0, 1e-9, 1e9}) {
          test::Elements x = test::Elements::random(f32, k, 37, -size, size);
          // As different as digits permit; both signs; a power of two, which has one digit.
          x.set(k - 1, size * 1e3), x.set(3, 0), x.set(5, -size * 1e-5), x.set(6, std::ldexp(1.0, std::ilogb(size)));
          const auto* xs = static_cast<const float*>(x.data());
          Digits digits(format, xs, k);
          REQUIRE(digits.are_there);
          std::vector<float> y(static_cast<size_t>(columns), 99);
          const BlockWeightsProduct p = product_of_row(w, xs, k, y);
          const int64_t middle = columns >= 75 ? 32 : 0;  // as two threads
          if (middle > 0) multiply_digits(p, digits.row(), 0, middle);
          multiply_digits(p, digits.row(), middle, columns);
          INFO(std::string(name_of(format)), ", k ", k, ", ", columns, " columns, size ", size);
          CHECK(worst_of_bound(w, xs, 1, columns, k, y) <= 1);
        }
      }
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "blocks: what is nothing adds nothing to sums of digits, and what is small is not lost") {
  if (!are_there) return;
  // As for many rows, above: all elements are 0, but for each last one, which is 1.
  Blocks w(q4_k, 32 * 4, true, 3);
  for (size_t at = 0; at < w.bytes.size(); at += 144) {
    const uint8_t head[16] = {0, 0x3c, 0, 0x3c, 1, 1, 1, 1, 3, 3, 3, 3, 0x31, 0x31, 0x31, 0x31};
    std::memcpy(w.bytes.data() + at, head, sizeof head);
    std::fill_n(w.bytes.data() + at + 16, 128, std::byte{0x33});
    w.bytes[at + 143] = at / 144 % 4 == 3 ? std::byte{0x43} : std::byte{0x33};
  }
  std::vector<float> x(1024, 1e9F), y(32, 99);
  x[1023] = 0.3F;
  Digits digits(q4_k, x.data(), 1024);
  REQUIRE(digits.are_there);
  multiply_digits(product_of_row(w, x.data(), 1024, y), digits.row(), 0, 32);
  for (const float v : y) CHECK(v == 0.3F);
}

TEST_CASE_FIXTURE(MatrixTiles, "blocks: rows that digits do not hold are refused") {
  if (!are_there) return;
  std::vector<float> x(2048, 1);
  const auto takes = [&](float v) {
    x[1500] = v;
    return Digits(q8_0, x.data(), 2048).are_there;
  };
  // Where the exponents of 1024 numbers differ by 33 or more, bits of the smaller ones would be lost.
  for (const float v : {1.0F, 0.0F, -0.0F, 0x1p32F, 0x1p-32F, -0x1.fffffep-32F}) CHECK(takes(v));
  for (const float v : {0x1p33F, 0x1p-33F, 1e-40F, 1e30F, std::numeric_limits<float>::infinity(), std::nanf("")})
    CHECK(!takes(v));
  std::fill(x.begin(), x.begin() + 1024, 0.0F);  // beside nothing
  std::fill(x.begin() + 1024, x.end(), 0x1p30F);
  CHECK(takes(1));
  CHECK(!has_digits_beside(q8_0, 1024, 15));
  CHECK(!has_digits_beside(q5_k, 1024, 64));
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "blocks: beside digits, columns with scales that are not finite are those of the elements") {
  if (!are_there) return;
  for (const DType format : {q8_0, q4_k, q6_k})
    for (const int odd : {0x7c00, 0xfc00, 0x7e00}) {
      Blocks w(format, 70 * 256 / info(format).block_elements, true, 59);
      const int64_t row_bytes = 256 / info(format).block_elements * info(format).block_bytes;
      std::memcpy(w.bytes.data() + 37 * row_bytes + (format == q6_k ? 208 : 0), &odd, 2);
      const test::Elements x = test::Elements::random(f32, 256, 37);
      const auto* xs = static_cast<const float*>(x.data());
      Digits digits(format, xs, 256);
      REQUIRE(digits.are_there);
      std::vector<float> y(70, 99), want(70, 99);
      multiply_digits(product_of_row(w, xs, 256, y), digits.row(), 0, 70);
      multiply_block_weights(product_of_row(w, xs, 256, want), 0, 70);
      CHECK(!std::isfinite(y[37]));
      for (size_t j = 0; j < 70; ++j) {
        INFO(std::string(name_of(format)), ", column ", j);
        if (j == 37) CHECK(std::memcmp(&y[j], &want[j], 4) == 0);
        else CHECK(std::isfinite(y[j]));
      }
    }
}

TEST_CASE_FIXTURE(MatrixTiles, "blocks: products of digits have bias, activation and residual, in y's dtype") {
  if (!are_there) return;
  for (const DType dtype : {f32, bf16}) {
    constexpr int64_t kColumns = 75, kK = 256;
    const Blocks w(q8_0, kColumns * kK / 32, true, 61);
    const test::Elements x = test::Elements::random(f32, kK, 37, -1e-4, 1e-4),
                         bias = test::Elements::random(f32, kColumns, 23),
                         residual = test::Elements::random(dtype, kColumns, 29);
    const auto* xs = static_cast<const float*>(x.data());
    Digits digits(q8_0, xs, kK);
    REQUIRE(digits.are_there);
    std::vector<float> unused(kColumns);
    test::Elements y(dtype, kColumns);
    BlockWeightsProduct p = product_of_row(w, xs, kK, unused);
    p.y = y.as<std::byte>(), p.y_dtype = dtype, p.bias = bias.data(), p.residual = residual.data();
    p.epilogue.bias = true, p.epilogue.activation = Activation::relu, p.epilogue.residual = Residual::separate;
    multiply_digits(p, digits.row(), 0, kColumns);
    for (int64_t j = 0; j < kColumns; ++j) {
      double total = 0, magnitude = 0;
      for (int64_t i = 0; i < kK; ++i) {
        const double term =
            static_cast<double>(xs[i]) * static_cast<double>(w.elements[static_cast<size_t>(j * kK + i)]);
        total += term, magnitude += std::abs(term);
      }
      test::require_close(dtype, j, y[j], std::max(total + bias[j], 0.0) + residual[j], 8, magnitude + 4);
    }
  }
}

TEST_CASE("blocks: numbers of few bits lose nothing in a split row") {
  for_each_split([](SplitDigits digits) {
    for (const DType format : {q8_0, q4_k, q6_k}) {
      const int64_t k = 512, columns = 9;
      REQUIRE(splits_rows_beside(digits, format, k));
      std::vector<std::byte> bytes;
      std::vector<float> numbers(static_cast<size_t>(k * columns));
      // The scales are powers of two: so are all that f32 has to round.
      test::Random random(41);
      const DTypeInfo& f = info(format);
      for (int64_t b = 0; b < k * columns / f.block_elements; ++b) {
        std::vector<std::byte> block(static_cast<size_t>(f.block_bytes));
        for (std::byte& byte : block) byte = static_cast<std::byte>(random.bits());
        const uint16_t half = 0x3c00;  // 1
        if (format == q6_k) {
          for (int64_t i = 192; i < 208; ++i) block[static_cast<size_t>(i)] &= std::byte{7};
          std::memcpy(block.data() + 208, &half, 2);
        } else {
          std::memcpy(block.data(), &half, 2);
          if (format == q4_k) std::memcpy(block.data() + 2, &half, 2);
        }
        block_decoder(format)(block.data(), 1, numbers.data() + b * f.block_elements);
        bytes.insert(bytes.end(), block.begin(), block.end());
      }
      std::vector<float> x(static_cast<size_t>(k)), y(static_cast<size_t>(columns));
      for (float& v : x) v = static_cast<float>(random.below(2001) - 1000) / 8;
      SplitRow row(digits, format, x.data(), k);
      REQUIRE(row.is_there);
      BlockWeightsProduct p;
      p.format = format, p.w = bytes.data(), p.k = k, p.rows = 1, p.x = x.data(), p.x_stride = k;
      p.y = y.data(), p.y_stride = columns;
      multiply_split_row(digits, p, row.row(), 0, columns);
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < k; ++i) {
          const double term = static_cast<double>(x[static_cast<size_t>(i)]) *
                              static_cast<double>(numbers[static_cast<size_t>(j * k + i)]);
          sum += term, magnitude += std::abs(term);
        }
        INFO(std::string(name_of(format)), ", column ", j);
        CHECK(std::abs(static_cast<double>(y[static_cast<size_t>(j)]) - sum) <= 0x1p-22 * magnitude);
      }
    }
  });
}

namespace {

/// A product of many rows by tiles, beside sums in double.
struct ManyRows {
  DType format;
  int64_t m, k, n;
  std::vector<std::byte> w;
  std::vector<float> numbers, x, y;  // numbers: of w

  ManyRows(DType t, int64_t rows, int64_t depth, int64_t columns)
      : format(t), m(rows), k(depth), n(columns), y(static_cast<size_t>(m * n), 99) {
    if (is_block(t)) {
      Blocks blocks(t, n * k / Unit(t).elements, true, 17);
      w = std::move(blocks.bytes), numbers = std::move(blocks.elements);
    } else {  // random bits of floats would nearly all be out of the range of tiles
      const test::Elements floats = test::Elements::random(t, n * k, 17);
      const auto* bytes = static_cast<const std::byte*>(floats.data());
      w.assign(bytes, bytes + static_cast<int64_t>(byte_size(t)) * n * k);
      for (int64_t i = 0; i < n * k; ++i) numbers.push_back(static_cast<float>(floats[i]));
    }
    const test::Elements all = test::Elements::random(f32, m * k, 19);
    x.assign(static_cast<const float*>(all.data()), static_cast<const float*>(all.data()) + m * k);
  }
  BlockWeightsProduct product() {
    BlockWeightsProduct p;
    p.format = format, p.w = w.data(), p.k = k, p.rows = m, p.x = x.data(), p.x_stride = k;
    p.y = y.data(), p.y_stride = p.residual_stride = n;
    return p;
  }
  void run(const BlockWeightsProduct& p, int threads, const std::vector<BF16>* narrow = nullptr) {
    const TiledBlockProduct tiled(p, narrow ? bf16 : f32, n, threads);
    std::vector<char> memory(tiled.scratch_bytes() + 64, 0x7f);
    char* scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    const void* rows = narrow ? static_cast<const void*>(narrow->data()) : p.x;
    tiled.run(p, rows, scratch, ThreadPool::shared());
  }
  float number(int64_t j, int64_t i) const { return numbers[static_cast<size_t>(j * k + i)]; }
  /// The sum of a row and a column, and that of its magnitudes.
  std::pair<double, double> sum(int64_t r, int64_t j) const {
    double total = 0, magnitude = 0;
    for (int64_t i = 0; i < k; ++i) {
      const double term = static_cast<double>(x[static_cast<size_t>(r * k + i)]) * static_cast<double>(number(j, i));
      total += term, magnitude += std::abs(term);
    }
    return {total, magnitude};
  }
  /// Of the sums of magnitudes, the worst.
  double worst_error() const {
    double worst = 0;
    for (int64_t r = 0; r < m; ++r)
      for (int64_t j = 0; j < n; ++j) {
        const auto [want, magnitude] = sum(r, j);
        const double error = std::abs(static_cast<double>(y[static_cast<size_t>(r * n + j)]) - want);
        worst = std::max(worst, magnitude > 0 ? error / magnitude : error);
      }
    return worst;
  }
};

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles, "blocks: products of many rows by tiles are as exact as multiply-adds") {
  if (!are_there) return;
  const auto check = [](DType format, int64_t m, int64_t k, int64_t n, int threads) {
    ManyRows p(format, m, k, n);
    p.run(p.product(), threads);
    INFO(std::string(name_of(format)), ", ", m, " x ", k, " x ", n, ", ", threads, " threads");
    CHECK(p.worst_error() < 0x1p-22);
  };
  // More than one chunk of k, of which the last is a part; columns that fill no block.
  for_each_format([&](DType format) { check(format, 40, 1280, 50, 1); });
  for (const DType format : {q8_0, q4_k, q5_1, q6_k, bf16, f16}) {
    check(format, 24, 256, 32, 1);
    check(format, 49, 2304, 49, 2);
    check(format, 530, 256, 145, 3);  // two groups of rows, two strips of columns
    check(format, 70, 2304, 401, 1);  // a task of several strips, and three chunks of k
  }
  for (const DType format : {q8_0, q4_k})
    check(format, 300, 1280, 1100, 2);  // the last of several tasks has fewer strips
}

TEST_CASE_FIXTURE(MatrixTiles, "blocks: by tiles, too, an error is one of the sum's own terms, whatever cancels") {
  if (!are_there) return;
  // x is large where a weight is nothing or next to it, so that what a minimum takes away is much larger than the sum.
  const int64_t k = 1024, n = 32;
  for (const DType format : {q4_k, q5_k, q4_1, q5_1, q8_0, q4_0, iq4_xs})
    for (int64_t column = 0; column < n; column += 3) {
      ManyRows p(format, 32, k, n);
      for (int64_t r = 0; r < p.m; ++r)
        for (int64_t i = 0; i < k; ++i) {
          // 2^-40 to 2^40, the larger the nearer to 0 the weight is.
          const float w = std::abs(p.number(column, i));
          const int exponent = w == 0 ? 40 : std::clamp(-2 * std::ilogb(w), -40, 40);
          float& v = p.x[static_cast<size_t>(r * k + i)];
          v = std::ldexp(v, exponent);
        }
      p.run(p.product(), 1);
      double worst = 0;
      for (int64_t r = 0; r < p.m; ++r) {
        const auto [want, magnitude] = p.sum(r, column);
        const double error = std::abs(static_cast<double>(p.y[static_cast<size_t>(r * n + column)]) - want);
        worst = std::max(worst, magnitude > 0 ? error / magnitude : error);
      }
      INFO(std::string(name_of(format)), ", column ", column);
      CHECK(worst < 3.97 * 32 * 0x1p-24);
    }
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "blocks: elements of q4_k that are nothing add nothing to many rows, however large x is") {
  if (!are_there) return;
  // Scale 1 and minimum 3 for all runs, and the value 3 everywhere, so that all elements are 0, but for each last one.
  ManyRows p(q4_k, 32, 256, 32);
  for (int64_t j = 0; j < p.n; ++j) {
    std::byte* const block = p.w.data() + j * 144;
    const uint8_t head[16] = {0, 0x3c, 0, 0x3c, 1, 1, 1, 1, 3, 3, 3, 3, 0x31, 0x31, 0x31, 0x31};
    std::memcpy(block, head, sizeof head);
    std::fill_n(block + 16, 128, std::byte{0x33});
    block[143] = std::byte{0x43};
  }
  for (int64_t r = 0; r < p.m; ++r) {
    std::fill_n(p.x.data() + r * p.k, p.k, 3e12F);
    p.x[static_cast<size_t>(r * p.k + 255)] = 0.3F;
  }
  p.run(p.product(), 1);
  for (const float y : p.y) CHECK(y == 0.3F);
}

TEST_CASE_FIXTURE(MatrixTiles, "blocks: scales and minima that tiles do not take leave the block to multiply-adds") {
  if (!are_there) return;
  const auto with_halves = [](uint16_t d, uint16_t min) {
    ManyRows p(q4_k, 32, 256, 64);
    std::memcpy(p.w.data() + 5 * 144, &d, 2), std::memcpy(p.w.data() + 5 * 144 + 2, &min, 2);
    block_decoder(q4_k)(p.w.data() + 5 * 144, 1, p.numbers.data() + 5 * 256);
    p.run(p.product(), 1);
    return p;
  };
  // A scale of nothing beside minima; both nothing; the smallest; an infinite one; no number.
  for (const auto& half : {std::pair{0, 0x3c00}, {0, 0}, {1, 1}, {1, 0x3c00}, {0x7bff, 1}, {0x3c00, 0x8001}}) {
    ManyRows p = with_halves(static_cast<uint16_t>(half.first), static_cast<uint16_t>(half.second));
    INFO("scale ", half.first, ", minimum ", half.second);
    CHECK(p.worst_error() < 0x1p-21);
  }
  const ManyRows infinite = with_halves(0x7c00, 0x3c00), odd = with_halves(0x3c00, 0x7e00);
  for (int64_t r = 0; r < 32; ++r) {
    CHECK(!std::isfinite(infinite.y[static_cast<size_t>(r * 64 + 5)]));
    CHECK(std::isnan(odd.y[static_cast<size_t>(r * 64 + 5)]));
    CHECK(std::isfinite(odd.y[static_cast<size_t>(r * 64 + 4)]));
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "blocks: beside rows of bf16, weights are rounded to bf16, and sums are those of f32") {
  if (!are_there) return;
  for (const DType format : {q8_0, q4_k, bf16})
    for (const int64_t m : {24, 49, 530}) {
      ManyRows p(format, m, 1280, 49);
      std::vector<BF16> narrow;
      for (float& v : p.x) {
        narrow.push_back(from_f32<BF16>(v));
        v = to_f32(narrow.back());
      }
      p.x[5] = 1e-38F, narrow[5] = from_f32<BF16>(1e-38F), p.x[5] = to_f32(narrow[5]);  // of the first block of rows
      for (float& w : p.numbers) w = to_f32(from_f32<BF16>(w));
      p.run(p.product(), 2, &narrow);
      double worst = 0;
      for (int64_t r = 32; r < m; ++r)
        for (int64_t j = 0; j < p.n; ++j) {
          const auto [want, magnitude] = p.sum(r, j);
          worst =
              std::max(worst, std::abs(static_cast<double>(p.y[static_cast<size_t>(r * p.n + j)]) - want) / magnitude);
        }
      INFO(std::string(name_of(format)), ", ", m, " rows");
      CHECK(worst < 0x1p-22);
      for (int64_t j = 0; j < p.n; ++j) {  // these are out of range: weights of f32
        const auto [want, magnitude] = p.sum(0, j);
        CHECK(std::abs(static_cast<double>(p.y[static_cast<size_t>(j)]) - want) < 0x1p-8 * magnitude);
      }
    }
}

TEST_CASE_FIXTURE(MatrixTiles, "blocks: tiles take products of many rows, and what is out of their range is left out") {
  if (!are_there) return;
  for (const DType format : {q8_0, bf16}) {
    ManyRows p(format, 64, 256, 96);
    if (format == bf16) {  // beside a term of x that is 0, an infinity must not become NaN
      const uint16_t infinity = 0x7f80;
      std::memcpy(p.w.data() + 2 * (70 * p.k + 5), &infinity, sizeof infinity);
      p.numbers[static_cast<size_t>(70 * p.k + 5)] = std::numeric_limits<float>::infinity();
      for (int64_t r = 0; r < p.m; ++r) p.x[static_cast<size_t>(r * p.k + 5)] = r % 2 ? 1.0F : -2.0F;
    }
    p.x[static_cast<size_t>(40 * p.k + 7)] = 1e-38F;
    p.run(p.product(), 1);
    const std::vector<float> tiled = p.y;
    std::vector<float> added(tiled.size());
    for (int64_t r = 0; r < p.m; r += BlockWeightsProduct::kMaxRows) {
      BlockWeightsProduct few = p.product();
      few.rows = BlockWeightsProduct::kMaxRows, few.x += r * p.k, few.y = added.data() + r * p.n;
      multiply_block_weights(few, 0, p.n);
    }
    INFO(std::string(name_of(format)));
    int64_t different = 0;
    for (int64_t r = 0; r < p.m; ++r)
      for (int64_t j = 0; j < p.n; ++j) {
        const auto at = static_cast<size_t>(r * p.n + j);
        const bool is_equal = std::bit_cast<uint32_t>(tiled[at]) == std::bit_cast<uint32_t>(added[at]);
        if (r >= 32 || (format == bf16 && j >= 64)) CHECK(is_equal);
        else different += !is_equal;
      }
    CHECK(different > 100);  // so that it is tiles that computed the others
    if (format == bf16) {
      CHECK(tiled[70] == -std::numeric_limits<float>::infinity());
      CHECK(tiled[static_cast<size_t>(p.n) + 70] == std::numeric_limits<float>::infinity());
    }
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "blocks: products by tiles have bias, activation and residual, in y's dtype") {
  if (!are_there) return;
  for (const DType format : {q8_0, bf16})
    for (const DType dtype : {f32, bf16}) {
      ManyRows p(format, 37, 128, 75);
      for (float& v : p.x) v *= format == q8_0 ? 1e-4F : 0.1F;
      const test::Elements bias = test::Elements::random(f32, p.n, 23),
                           residual = test::Elements::random(dtype, p.m * p.n, 29);
      test::Elements y(dtype, p.m * p.n);
      BlockWeightsProduct call = p.product();
      call.y = y.as<std::byte>(), call.y_dtype = dtype, call.bias = bias.data(), call.residual = residual.data();
      call.epilogue.bias = true, call.epilogue.activation = Activation::relu,
      call.epilogue.residual = Residual::separate;
      p.run(call, 2);
      for (int64_t r = 0; r < p.m; ++r)
        for (int64_t j = 0; j < p.n; ++j) {
          const auto [total, magnitude] = p.sum(r, j);
          test::require_close(dtype, r * p.n + j, y[r * p.n + j],
                              std::max(total + bias[j], 0.0) + residual[r * p.n + j], 8, magnitude + 4);
        }
    }
}
