// Hashes that are the same in every process: they name files, and tell whether bytes are those that were written. They
// are not cryptographic: it is easy to find two contents with the same hash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

/// FNV-1a (Fowler, Noll, Vo) with 64 bits, byte by byte. For short texts such as names.
struct Fnv1a {
  static constexpr uint64_t kPrime = 0x100000001b3u;
  uint64_t hash = 0xcbf29ce484222325u;

  constexpr void add(char c) { hash = (hash ^ static_cast<unsigned char>(c)) * kPrime; }
  constexpr void add(std::string_view text) {
    for (char c : text) add(c);
  }
};
constexpr uint64_t fnv1a(std::string_view text) {
  Fnv1a all;
  all.add(text);
  return all.hash;
}

/// The number as 16 hexadecimal digits.
inline std::string hex_text(uint64_t n) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; n >>= 4) text[i] = "0123456789abcdef"[n & 15];
  return text;
}

/// A checksum for megabytes, computed as fast as memory is read. Eight independent sums each take every eighth word. A
/// step is a bijection of the word and of the sum, so one changed word always changes the result. The step moves high
/// bits down before it multiplies, because a multiplication carries bits upwards only: otherwise two floats whose signs
/// have changed would leave the sum the same.
inline uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;  // 2^64 divided by the golden ratio
  constexpr size_t kWord = sizeof(uint64_t);
  std::array<uint64_t, 8> sums = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  const auto step = [](uint64_t sum, uint64_t word) {
    const uint64_t both = sum ^ word;
    return (both ^ (both >> 32)) * kOdd;
  };
  for (; left >= sums.size() * kWord; at += sums.size() * kWord, left -= sums.size() * kWord)
    for (size_t i = 0; i < sums.size(); ++i) {
      uint64_t word = 0;
      std::memcpy(&word, at + i * kWord, kWord);
      sums[i] = step(sums[i], word);
    }
  uint64_t all = step(bytes.size(), 0);
  for (; left > 0; at += kWord) {
    const size_t count = left < kWord ? left : kWord;
    uint64_t word = 0;
    std::memcpy(&word, at, count);
    all = step(all ^ (all >> 32), word);
    left -= count;
  }
  for (uint64_t sum : sums) all = step(all ^ (all >> 32), sum ^ (sum >> 32));
  return all ^ (all >> 32);
}

}  // namespace rlx
