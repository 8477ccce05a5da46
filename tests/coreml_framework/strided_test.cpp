// Arrays with strides become dense tensors, and the other way; expected elements by index arithmetic.
#include "backends/coreml_framework/strided.h"

#include <doctest/doctest.h>

#include "rlx/element.h"

using namespace rlx;
using namespace rlx::coreml_framework;

namespace {

/// Memory whose element at place i is i.
std::vector<float> counted(size_t n) {
  std::vector<float> memory(n);
  for (size_t i = 0; i < n; ++i) memory[i] = static_cast<float>(i);
  return memory;
}

void check_copy(const Shape& shape, const Shape& strides, size_t room) {
  auto memory = counted(room);
  Tensor dense = dense_from(memory.data(), room * 4, f32, shape, strides);
  REQUIRE(dense.shape() == shape);
  std::vector<bool> touched(room);
  for_each_index(shape, [&](const Axes& index) {
    int64_t place = 0, flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) place += index[d] * strides[d], flat = flat * shape[d] + index[d];
    CHECK(dense.values<float>()[static_cast<size_t>(flat)] == static_cast<float>(place));
    touched[static_cast<size_t>(place)] = true;
  });
  // And back: only those places are written.
  std::vector<float> back(room, -1);
  copy_to(dense, back.data(), room * 4, strides);
  for (size_t i = 0; i < room; ++i) CHECK(back[i] == (touched[i] ? static_cast<float>(i) : -1));
}

}  // namespace

TEST_CASE("arrays with any strides are copied element by element") {
  check_copy({2, 3, 4}, {12, 4, 1}, 24);               // dense
  check_copy({2, 3, 4}, {3 * 16, 16, 1}, 2 * 3 * 16);  // rows padded to 64 bytes, as the neural engine has them
  check_copy({1, 5, 1, 7}, {5 * 16, 16, 16, 1}, 80);   // extents of 1, whose strides say nothing
  check_copy({3, 4}, {1, 3}, 12);                      // transposed
  check_copy({4, 1}, {16, 1}, 64);                     // one element a row
  check_copy({5}, {16}, 80);
  check_copy({}, {}, 1);
  check_copy({2, 0, 3}, {3, 3, 1}, 1);  // no element
}

TEST_CASE("f16 and integers are moved as their bytes") {
  std::vector<uint16_t> halves(2 * 32);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i * 77);
  Tensor t = dense_from(halves.data(), 128, f16, {2, 3}, {32, 1});
  const auto* bits = static_cast<const uint16_t*>(static_cast<const void*>(t.data()));
  CHECK(bits[2] == 2 * 77);
  CHECK(bits[5] == 34 * 77);
}

TEST_CASE("an array that its memory does not hold is refused") {
  auto memory = counted(24);
  CHECK_THROWS_AS(dense_from(memory.data(), 96, f32, {2, 3, 4}, {16, 4, 1}), Error);
  CHECK_THROWS_AS(dense_from(memory.data(), 95, f32, {2, 3, 4}, {12, 4, 1}), Error);
  CHECK_THROWS_AS(dense_from(memory.data(), 96, f32, {2, 3, 4}, {12, 4}), Error);
  CHECK_THROWS_AS(dense_from(memory.data(), 96, f32, {2, 3, 4}, {12, -4, 1}), Error);
  CHECK_THROWS_AS(dense_from(memory.data(), 96, f32, {int64_t{1} << 40, int64_t{1} << 40}, {int64_t{1} << 40, 1}),
                  Error);
  Tensor t(f32, {2, 3, 4});
  CHECK_THROWS_AS(copy_to(t, memory.data(), 92, {12, 4, 1}), Error);
}
