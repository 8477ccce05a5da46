// Whole pieces: how many are needed, and how much they take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rlx {

/// a / b, rounded up; a is not negative, b positive.
template <class T>
requires std::is_integral_v<T>
constexpr T divided_up(T a, std::type_identity_t<T> b) { return a / b + (a % b != 0 ? 1 : 0); }

/// The multiple of `step` that is not below n.
template <class T>
requires std::is_integral_v<T>
constexpr T rounded_up(T n, std::type_identity_t<T> step) { return divided_up(n, step) * step; }

/// To whole cache lines, as wide as vectors are at most: where one piece of scratch memory ends and the next begins.
template <class T>
requires std::is_integral_v<T>
constexpr T aligned(T bytes) { return rounded_up(bytes, T{64}); }

}  // namespace rlx
