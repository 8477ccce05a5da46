#include "base/hash.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace rlx;

TEST_CASE("FNV-1a gives the published hashes") {  // Landon Curt Noll's test vectors
  CHECK(fnv1a("") == 0xcbf29ce484222325u);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8cu);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8u);
  CHECK(hex_text(fnv1a("foobar")) == "85944171f73967e8");
  CHECK(hex_text(1) == "0000000000000001");
}

TEST_CASE("a checksum tells each changed byte, each length and exchanged words") {
  std::vector<std::byte> bytes(200);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  std::set<uint64_t> seen;
  for (size_t size = 0; size <= bytes.size(); ++size) seen.insert(checksum({bytes.data(), size}));
  CHECK(seen.size() == bytes.size() + 1);
  seen.insert(checksum(bytes));
  for (size_t i = 0; i < bytes.size(); ++i)
    for (unsigned bit = 0; bit < 8; ++bit) {
      auto changed = bytes;
      changed[i] ^= static_cast<std::byte>(1u << bit);
      CHECK(seen.insert(checksum(changed)).second);
    }
  for (size_t i = 0; i + 16 <= bytes.size(); i += 8) {
    auto changed = bytes;
    std::swap_ranges(changed.begin() + static_cast<std::ptrdiff_t>(i),
                     changed.begin() + static_cast<std::ptrdiff_t>(i) + 8,
                     changed.begin() + static_cast<std::ptrdiff_t>(i) + 8);
    CHECK(seen.insert(checksum(changed)).second);
  }
  const std::vector<std::byte> zeros(128);
  CHECK(checksum({zeros.data(), 64}) != checksum({zeros.data(), 128}));
}
