// The seed of a process; see the header.
#include "io/tokenizer/hash_seed.h"

#include <chrono>
#include <exception>
#include <random>

namespace rlx::tokenizer {

uint64_t hash_seed() {
  static const uint64_t drawn = [] {
    try {
      std::random_device source;
      return uint64_t{source()} << 32 | source();
    } catch (const std::exception&) {  // this system gives no random numbers
      return mixed(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
    }
  }();
  return drawn;
}

}  // namespace rlx::tokenizer
