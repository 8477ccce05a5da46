// See the header.
#include "tools/numpy_random.h"

#include <array>
#include <bit>

namespace rlx::tools {
namespace {

/// A hash whose constant changes with every use.
struct Hash {
  uint32_t constant, multiplier;
  uint32_t operator()(uint32_t value) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ value >> 16;
  }
};

/// SeedSequence(seed).generate_state(4, uint64)
std::array<uint64_t, 4> seed_state(uint32_t seed) {
  std::array<uint32_t, 4> pool = {seed, 0, 0, 0};
  Hash in{0x43b0d7e5, 0x931e8875}, out{0x8b51f9dd, 0x58f38ded};
  for (uint32_t& word : pool) word = in(word);
  for (size_t from = 0; from < pool.size(); ++from)
    for (size_t to = 0; to < pool.size(); ++to) {
      if (from == to) continue;
      uint32_t mixed = 0xca01f9ddU * pool[to] - 0x4973f715U * in(pool[from]);
      pool[to] = mixed ^ mixed >> 16;
    }
  std::array<uint64_t, 4> state{};
  for (size_t i = 0; i < 8; ++i) state[i / 2] |= uint64_t{out(pool[i % 4])} << (i % 2 * 32);
  return state;
}

}  // namespace

NumpyRandom::NumpyRandom(uint32_t seed) {
  auto words = seed_state(seed);
  Word128 start = Word128{words[0]} << 64 | words[1], stream = Word128{words[2]} << 64 | words[3];
  increment_ = stream << 1 | 1;
  state_ = increment_ + start;  // one step from zero, then the seed
  next();
}

uint64_t NumpyRandom::next() {
  constexpr Word128 kMultiplier = Word128{2549297995355413924ULL} << 64 | 4865540595714422341ULL;
  state_ = state_ * kMultiplier + increment_;
  auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

void NumpyRandom::uniform(double low, double high, std::span<float> values) {
  for (float& value : values) value = static_cast<float>(low + (high - low) * next_double());
}

}  // namespace rlx::tools
