// Random bits on every instruction set against the scalar generators of src/ops/random/random_bits.h.
#include "kernels/random/random.h"

#include <cstring>

#include "kernels/kernel_test.h"
#include "ops/random/random_bits.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

constexpr uint32_t kKey[2] = {0x12345678, 0x9abcdef0};

/// The words of the stream that the elements consist of, in order.
std::vector<std::byte> expected(BitGenerator generator, int64_t count, size_t bytes) {
  std::vector<std::byte> all(static_cast<size_t>(count) * bytes);
  auto put = [&](size_t at, const void* from, size_t size) {
    if (at < all.size()) std::memcpy(all.data() + at, from, std::min(size, all.size() - at));
  };
  auto threefry = [](uint32_t high, uint32_t low) {
    return threefry_2x32_20<uint32_t>({high, low}, {kKey[0], kKey[1]});
  };
  if (generator == BitGenerator::philox) {
    for (size_t at = 0; at < all.size(); at += 16) {
      auto block = philox_4x32_10<uint32_t>({static_cast<uint32_t>(at / 16), 0, 0, 0}, {kKey[0], kKey[1]});
      put(at, block.data(), 16);
    }
  } else if (generator == BitGenerator::threefry) {
    for (int64_t i = 0; i < count; ++i) {
      auto block = threefry(0, static_cast<uint32_t>(i));
      uint64_t value = bytes == 8 ? uint64_t{block[0]} << 32 | block[1] : block[0] ^ block[1];
      put(static_cast<size_t>(i) * bytes, &value, bytes);
    }
  } else {
    const auto words = static_cast<uint32_t>((all.size() + 3) / 4), half = (words + 1) / 2;
    for (uint32_t i = 0; i < half; ++i) {
      auto block = threefry(i, i + half < words ? i + half : 0);
      if (bytes == 8) {
        uint64_t value = uint64_t{block[0]} << 32 | block[1];
        put(size_t{i} * 8, &value, 8);
      } else {
        put(size_t{i} * 4, &block[0], 4);
        if (i + half < words) put(size_t{i + half} * 4, &block[1], 4);
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE(
    "every generator draws its bits on every instruction set, in ranges split anywhere, and nothing beyond them") {
  for_each_target([] {
    for (BitGenerator generator : {BitGenerator::philox, BitGenerator::threefry, BitGenerator::threefry_original})
      for (size_t bytes : {1, 2, 4, 8})
        for (int64_t count : {0, 1, 2, 5, 16, 63, 64, 65, 127, 500, 1030}) {
          auto wanted = expected(generator, count, bytes);
          std::vector<std::byte> got(wanted.size() + 8, std::byte{0x5a});
          int64_t blocks = random_blocks(generator, count, bytes), middle = blocks / 128 * 64;
          random_bits(generator, kKey, count, bytes, 0, middle, got.data());
          random_bits(generator, kKey, count, bytes, middle, blocks, got.data());
          CHECK_MESSAGE(std::equal(wanted.begin(), wanted.end(), got.begin()), int(generator), " ", bytes, " ", count);
          for (size_t i = wanted.size(); i < got.size(); ++i) CHECK(got[i] == std::byte{0x5a});
        }
  });
}

TEST_CASE("Philox counts on from a counter that is given, over the ends of its words") {
  for_each_target([] {
    for (uint32_t first : {3u, 0xffffffc0u, 0xffffffffu}) {
      const uint32_t counter[4] = {first, 0xffffffff, 0xffffffff, 8};
      constexpr int64_t kBlocks = 150;
      std::vector<uint32_t> got(4 * kBlocks);
      random_bits(BitGenerator::philox, kKey, 4 * kBlocks, 4, 0, 64, got.data(), counter);
      random_bits(BitGenerator::philox, kKey, 4 * kBlocks, 4, 64, kBlocks, got.data(), counter);
      for (uint32_t n = 0; n < kBlocks; ++n) {
        const bool over = first + n < first;
        auto block =
            philox_4x32_10<uint32_t>({first + n, over ? 0 : ~0u, over ? 0 : ~0u, over ? 9u : 8u}, {kKey[0], kKey[1]});
        CHECK(std::equal(block.begin(), block.end(), got.begin() + 4 * n));
      }
    }
  });
}
