// The scalar versions of the tile instructions (support/emulated_tiles.h) beside the processor's.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "kernels/gemm/amx/tiles.h"
#include "support/emulated_tiles.h"

#if RLX_HAS_TILES

using namespace rlx;

namespace {

/// 16 rows of 64 bytes: bits of any kind, or of f32 or pairs of bf16 with small exponents, some of them subnormal.
struct TileBytes {
  alignas(64) uint32_t words[256];

  enum class Of { bits, f32, bf16 };
  TileBytes(Of kind, std::mt19937& random) {
    const auto drawn = [&] { return static_cast<uint32_t>(random()); };
    const auto number = [&](int bits) {
      const uint32_t exponent = drawn() % 9 == 0 ? 0 : 100 + drawn() % 54;
      return (drawn() & 1) << (bits - 1) | exponent << (bits - 9) | (drawn() & ((1u << (bits - 9)) - 1));
    };
    for (uint32_t& word : words)
      word = kind == Of::bits ? drawn() : kind == Of::f32 ? number(32) : number(16) << 16 | number(16);
  }
};
/// Extents of a product: sums[rows, columns] += left[rows, 4 depth bytes] * right[depth, columns].
struct Extents {
  int rows, columns, depth;
};
/// What ldtilecfg reads (Intel SDM, volume 1, table 18-1), for sums, left and right in the registers 0, 1 and 2.
struct alignas(64) Config {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  explicit Config(Extents e) {
    row_bytes[0] = row_bytes[2] = static_cast<uint16_t>(4 * e.columns),
    row_bytes[1] = static_cast<uint16_t>(4 * e.depth);
    rows[0] = rows[1] = static_cast<uint8_t>(e.rows), rows[2] = static_cast<uint8_t>(e.depth);
  }
};

// `before` is nothing, or `ud2`, by which the scalar versions execute all that follows.
#define RLX_TILE_PRODUCT(before, product)                                                                            \
  [](const Config& config, const TileBytes& left, const TileBytes& right, TileBytes& sums) {                         \
    asm volatile(before                                                                                              \
                 "ldtilecfg (%[config])\n\t"                                                                         \
                 "tileloadd (%[sums],%[stride],1), %%tmm0\n\ttileloadd (%[left],%[stride],1), "                      \
                 "%%tmm1\n\ttileloadd (%[right],%[stride],1), %%tmm2\n\t" product                                    \
                 " %%tmm2, %%tmm1, %%tmm0\n\ttilestored %%tmm0, (%[sums],%[stride],1)\n\t"                           \
                 "tilerelease" ::[config] "r"(&config),                                                              \
                 [sums] "r"(sums.words), [left] "r"(left.words), [right] "r"(right.words), [stride] "r"(int64_t{64}) \
                 : "memory");                                                                                        \
  }

struct Product {
  const char* name;
  bool is_bf16;
  void (*processor)(const Config&, const TileBytes&, const TileBytes&, TileBytes&);
  void (*scalar)(const Config&, const TileBytes&, const TileBytes&, TileBytes&);
};
#define RLX_PRODUCT(name, is_bf16) \
  { name, is_bf16, RLX_TILE_PRODUCT("", name), RLX_TILE_PRODUCT("ud2\n\t", name) }
const Product kProducts[] = {RLX_PRODUCT("tdpbf16ps", true), RLX_PRODUCT("tdpbssd", false),
                             RLX_PRODUCT("tdpbsud", false), RLX_PRODUCT("tdpbusd", false),
                             RLX_PRODUCT("tdpbuud", false)};

}  // namespace

TEST_CASE("the scalar versions of the tile instructions give the processor's bits") {
  if (!kernels::has_matrix_tiles()) {
    MESSAGE("skipped: the processor's tiles, beside which their scalar versions are judged, are not here");
    return;
  }
  const test::TileInstructions scalar_versions;
  std::mt19937 random(5);
  for (const Product& product : kProducts)
    for (const Extents e : {Extents{16, 16, 16}, Extents{7, 3, 5}, Extents{1, 16, 1}})
      for (int repetition = 0; repetition < 20; ++repetition) {
        using Of = TileBytes::Of;
        const Of operands = product.is_bf16 && repetition > 0 ? Of::bf16 : Of::bits;  // of bits, some are NaN
        const TileBytes left(operands, random), right(operands, random);
        const TileBytes before(product.is_bf16 ? Of::f32 : Of::bits, random);
        TileBytes want = before, got = before;
        const Config config(e);
        product.processor(config, left, right, want);
        product.scalar(config, left, right, got);
        int wrong = 0;
        for (int i = 0; i < 256; ++i) {
          const bool both_nan = product.is_bf16 && std::isnan(std::bit_cast<float>(want.words[i])) &&
                                std::isnan(std::bit_cast<float>(got.words[i]));
          wrong += want.words[i] != got.words[i] && !both_nan;
        }
        INFO(product.name, ", ", e.rows, " x ", e.depth, " x ", e.columns);
        CHECK(wrong == 0);
      }
}

#endif
