// What the tables of a tokenizer's file are hashed with, so that a file cannot be made for them whose entries all meet
// in one place. It is another number in each process; nothing may depend on the order that it gives.
#pragma once

#include <cstdint>

namespace rlx::tokenizer {

/// The same in all of a process.
uint64_t hash_seed();

/// A bijection in which each bit depends on all (SplitMix64: Steele, Lea, Flood 2014).
inline uint64_t mixed(uint64_t n) {
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
  n = (n ^ n >> 27) * 0x94d049bb133111ebu;
  return n ^ n >> 31;
}

}  // namespace rlx::tokenizer
