// Random bits from counters: rng_bits. Which counters an element has is said in src/ops/random_bits.cpp; the plain
// version there is what the fast ones are measured against.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rlx::kernels {

enum class BitGenerator { philox, threefry, threefry_original };

/// Work is counted in blocks of the generator: 16 bytes of Philox, one element of Threefry, two words (which lie half
/// of all words apart) of its original form.
int64_t random_blocks(BitGenerator generator, int64_t count, size_t element_bytes);

/// Writes what blocks [begin, end) make of the `count` elements of one key, which start at `out`. `begin` is a multiple
/// of 64.
void random_bits(BitGenerator generator, const uint32_t* key, int64_t count, size_t element_bytes, int64_t begin,
                 int64_t end, void* out) noexcept;

}  // namespace rlx::kernels
