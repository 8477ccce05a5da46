// Decoding of block formats, and products with weights in them, on every instruction set. The scalar decoders, which
// tests/golden/blocks_test.cpp compares with the gguf package, say what the elements are; sums are compared with those
// of f64.
#include "kernels/quant/blocks.h"

#include <bit>
#include <cstring>

#include "kernels/kernel_test.h"
#include "rlx/blocks.h"
#include "rlx/element.h"

using namespace rlx;
using namespace rlx::kernels;

namespace {

constexpr float kGreatest = 1e4F;

/// What is decoded at once: a block, or halves.
struct Unit {
  int64_t elements, bytes;
  explicit Unit(DType t)
      : elements(is_block(t) ? info(t).block_elements : BlockWeightsProduct::kHalvesTogether),
        bytes(is_block(t) ? info(t).block_bytes : 2 * elements) {}
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
          double worst = 0;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t j = 0; j < columns; ++j) {
              double sum = 0, magnitude = 0;
              for (int64_t i = 0; i < k; ++i) {
                const double term = static_cast<double>(xs[r * k + i]) *
                                    static_cast<double>(w.elements[static_cast<size_t>(j * k + i)]);
                sum += term, magnitude += std::abs(term);
              }
              const double bound = 4 * std::sqrt(static_cast<double>(k)) * 0x1p-24 * magnitude;
              const double error = std::abs(static_cast<double>(y[static_cast<size_t>(r * columns + j)]) - sum);
              worst = std::max(worst, error / std::max(bound, 1e-30));
            }
          INFO(std::string(name_of(format)), ", k ", k, ", ", rows, " rows");
          CHECK(worst <= 1);
        }
      });
    }
  });
}
