// A secret number for the hash tables that are filled from a tokenizer's file. Without it, somebody could write a file
// whose entries all fall into one bucket. It differs between processes, so nothing may depend on the order of a table.
#pragma once

#include <cstdint>

namespace rlx::tokenizer {

/// The same in all of a process.
uint64_t hash_seed();

/// A bijection in which each bit depends on every bit of `n`: what SplitMix64 gives out (Steele, Lea, Flood 2014).
inline uint64_t mixed(uint64_t n) {
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
  n = (n ^ n >> 27) * 0x94d049bb133111ebu;
  return n ^ n >> 31;
}

}  // namespace rlx::tokenizer
