// Random bits from counter-based generators: rng_bits. Which counters an element uses is defined in
// src/ops/random/random_bits.cpp, which is also the scalar reference.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rlx::kernels {

enum class BitGenerator { philox, threefry, threefry_original };

/// The number of blocks by which the work is split. A block is what one call of the generator gives: 16 bytes of
/// Philox, one element of Threefry, or, for Threefry's original form, two words that are half of all words apart.
int64_t random_blocks(BitGenerator generator, int64_t count, size_t element_bytes);

/// Writes those of the `count` elements at `out` that blocks [begin, end) of one key generate. `begin` is a multiple of
/// 64. Philox's block 0 has the counter at `counter`, four words with the low one first, or 0.
void random_bits(BitGenerator generator, const uint32_t* key, int64_t count, size_t element_bytes, int64_t begin,
                 int64_t end, void* out, const uint32_t* counter = nullptr) noexcept;

}  // namespace rlx::kernels
