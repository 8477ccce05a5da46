// Hashes that are the same in each process: they name files and tell whether bytes are those that were written. None
// withstands somebody who looks for two contents with one hash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

/// FNV-1a (Fowler, Noll, Vo), 64 bits: byte by byte, for names.
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

/// 16 digits.
inline std::string hex_text(uint64_t n) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; n >>= 4) text[i] = "0123456789abcdef"[n & 15];
  return text;
}

/// As fast as memory is read: for megabytes. Eight sums that do not wait for each other, each of every eighth word; a
/// step is a bijection of the word and of the sum, so that one changed word always shows. High bits are brought down
/// before they are multiplied, which carries them upwards only: else two changed signs of floats would undo each other.
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
