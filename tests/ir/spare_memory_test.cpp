// Memory that freed arrays leave for the next ones.
#include "base/spare_memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using namespace rlx;

namespace {

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; }

}  // namespace

TEST_CASE("memory begins at a multiple of 64 for any size, and two arrays in use share none") {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{128} << 10, (size_t{5} << 20) + 3, size_t{40} << 20}) {
    INFO(bytes, " bytes");
    for (int round = 0; round < 3; ++round) {
      void *a = take_memory(bytes), *b = take_memory(bytes);
      REQUIRE(a);
      REQUIRE(b);
      CHECK(is_aligned(a));
      CHECK(is_aligned(b));
      CHECK(a != b);
      std::memset(a, 1, bytes);
      std::memset(b, 2, bytes);
      CHECK((bytes == 0 || static_cast<const char*>(a)[bytes - 1] == 1));
      give_memory(a, bytes), give_memory(b, bytes);
    }
  }
}

TEST_CASE("sizes that no machine has are refused, and nothing may be given back") {
  CHECK(take_memory(SIZE_MAX) == nullptr);
  CHECK(take_memory(SIZE_MAX - 62) == nullptr);
  CHECK(take_memory(SIZE_MAX / 2) == nullptr);
  give_memory(nullptr, 0), give_memory(nullptr, size_t{1} << 20);
}

TEST_CASE("what one thread holds no other is given") {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::pair<unsigned char*, size_t>> held;
      for (int i = 0; i < 400; ++i) {
        if (held.size() < 4 && random() % 2) {
          const size_t bytes = (size_t{1} << 17) * (1 + random() % 3);
          auto* p = static_cast<unsigned char*>(take_memory(bytes));
          p[0] = p[bytes / 2] = p[bytes - 1] = static_cast<unsigned char>(t + 1);
          held.emplace_back(p, bytes);
        } else if (!held.empty()) {
          const auto [p, bytes] = held.back();
          wrong[t] += p[0] != t + 1 || p[bytes / 2] != t + 1 || p[bytes - 1] != t + 1;
          give_memory(p, bytes);
          held.pop_back();
        }
      }
      for (const auto& [p, bytes] : held) give_memory(p, bytes);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}
