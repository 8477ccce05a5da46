// Several independent vectors that go through the same operations, unrolled. Evaluating a polynomial is one long
// dependency chain; eight interleaved chains keep the execution ports busy where the processor's out-of-order window
// is too short to overlap successive loop iterations. Functions of a tag and vectors (vector_math-inl.h,
// elementary-inl.h) accept UnrolledTag and Unrolled as well. These are in Highway's namespace because those functions
// qualify Highway's operations: include this file before them. Compiled per target.
#if defined(RLX_KERNELS_VECTOR_UNROLLED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_VECTOR_UNROLLED_INL_H_
#undef RLX_KERNELS_VECTOR_UNROLLED_INL_H_
#else
#define RLX_KERNELS_VECTOR_UNROLLED_INL_H_
#endif

#include <cstddef>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hwy {
namespace HWY_NAMESPACE {

/// f(vectors), or f applied to each index of unrolled vectors: for operations that Highway does not have.
template <class F, class A, class... Rest>
HWY_INLINE auto EachVector(F f, A a, Rest... rest) {
  return f(a, rest...);
}

/// Called between the steps of a long dependency chain; does nothing except for an UnrolledTag with `BetweenSteps`.
template <class D, class V>
HWY_INLINE void Between(D, V&) {}

#if !HWY_HAVE_SCALABLE  // scalable vectors cannot be members of a struct

struct NothingBetween {};
/// The tag of N unrolled vectors of tag D. `between()` is called between the steps of a long dependency chain, for work
/// that overlaps with arithmetic, such as memory traffic.
template <class D, int N, class BetweenSteps = NothingBetween>
struct UnrolledTag {
  using T = TFromD<D>;
  template <class NewT>
  using Rebind = UnrolledTag<typename D::template Rebind<NewT>, N>;
  static constexpr size_t kPrivateN = D::kPrivateN;  ///< lanes of each vector
  [[no_unique_address]] BetweenSteps between{};
};
/// N vectors, or N masks.
template <class V, int N>
struct Unrolled {
  V v[N];
};

/// f(0), f(1) ... f(N - 1). Not a loop, because compilers keep the vectors in memory if the index is not a constant
/// from the beginning.
template <class F, int... I>
HWY_INLINE auto Each(F f, std::integer_sequence<int, I...>) {
  return Unrolled<decltype(f(0)), sizeof...(I)>{{f(I)...}};
}
template <int N, class F>
HWY_INLINE auto Each(F f) {
  return Each(f, std::make_integer_sequence<int, N>());
}

#define RLX_UNROLLED_1(f)                                      \
  template <class A, int N>                                    \
  HWY_INLINE auto f(const Unrolled<A, N>& a) {                 \
    return Each<N>([&](int i) HWY_ATTR { return f(a.v[i]); }); \
  }
#define RLX_UNROLLED_2(f)                                               \
  template <class A, int N>                                             \
  HWY_INLINE auto f(const Unrolled<A, N>& a, const Unrolled<A, N>& b) { \
    return Each<N>([&](int i) HWY_ATTR { return f(a.v[i], b.v[i]); });  \
  }
#define RLX_UNROLLED_MASKED(f)                                             \
  template <class M, class A, int N>                                       \
  HWY_INLINE auto f(const Unrolled<M, N>& mask, const Unrolled<A, N>& a) { \
    return Each<N>([&](int i) HWY_ATTR { return f(mask.v[i], a.v[i]); });  \
  }
#define RLX_UNROLLED_3(f)                                                                        \
  template <class A, class B, int N>                                                             \
  HWY_INLINE auto f(const Unrolled<A, N>& a, const Unrolled<B, N>& b, const Unrolled<B, N>& c) { \
    return Each<N>([&](int i) HWY_ATTR { return f(a.v[i], b.v[i], c.v[i]); });                   \
  }
#define RLX_UNROLLED_TAG(f)                                          \
  template <class D, class B, class A, int N>                        \
  HWY_INLINE auto f(UnrolledTag<D, N, B>, const Unrolled<A, N>& a) { \
    return Each<N>([&](int i) HWY_ATTR { return f(D(), a.v[i]); });  \
  }

template <class F, class A, int N>
HWY_INLINE auto EachVector(F f, const Unrolled<A, N>& a) {
  return Each<N>([&](int i) HWY_ATTR { return f(a.v[i]); });
}
template <class F, class A, class B, int N>
HWY_INLINE auto EachVector(F f, const Unrolled<A, N>& a, const Unrolled<B, N>& b) {
  return Each<N>([&](int i) HWY_ATTR { return f(a.v[i], b.v[i]); });
}
template <class D, int N, class B>
HWY_INLINE auto Set(UnrolledTag<D, N, B>, TFromD<D> value) {
  return Each<N>([&](int) HWY_ATTR { return Set(D(), value); });
}
template <class D, int N, class B>
HWY_INLINE auto Zero(UnrolledTag<D, N, B>) {
  return Each<N>([&](int) HWY_ATTR { return Zero(D()); });
}
template <int kBits, class A, int N>
HWY_INLINE auto ShiftLeft(const Unrolled<A, N>& a) {
  return Each<N>([&](int i) HWY_ATTR { return ShiftLeft<kBits>(a.v[i]); });
}
template <int kBits, class A, int N>
HWY_INLINE auto ShiftRight(const Unrolled<A, N>& a) {
  return Each<N>([&](int i) HWY_ATTR { return ShiftRight<kBits>(a.v[i]); });
}
template <class D, class B, class V>
HWY_INLINE void Between([[maybe_unused]] UnrolledTag<D, 8, B> d, [[maybe_unused]] Unrolled<V, 8>& x) {
  if constexpr (!std::is_same_v<B, NothingBetween>) {
#if HWY_TARGET == HWY_AVX3
    // Keeps the compiler from moving the arithmetic behind all of the calls of between().
    asm volatile(""
                 : "+v"(x.v[0].raw), "+v"(x.v[1].raw), "+v"(x.v[2].raw), "+v"(x.v[3].raw), "+v"(x.v[4].raw),
                   "+v"(x.v[5].raw), "+v"(x.v[6].raw), "+v"(x.v[7].raw)
                 :
                 : "memory");
#endif
    d.between();
  }
}
RLX_UNROLLED_TAG(BitCast)
RLX_UNROLLED_TAG(ConvertTo)
RLX_UNROLLED_1(Abs)
RLX_UNROLLED_1(Neg)
RLX_UNROLLED_1(Round)
RLX_UNROLLED_1(Floor)
RLX_UNROLLED_1(ApproximateReciprocal)
RLX_UNROLLED_2(Add)
RLX_UNROLLED_2(Sub)
RLX_UNROLLED_2(Mul)
RLX_UNROLLED_2(Div)
RLX_UNROLLED_2(Min)
RLX_UNROLLED_2(Max)
RLX_UNROLLED_2(And)
RLX_UNROLLED_2(CopySign)
RLX_UNROLLED_2(Eq)
RLX_UNROLLED_2(Lt)
RLX_UNROLLED_2(Le)
RLX_UNROLLED_2(Gt)
RLX_UNROLLED_2(Ge)
RLX_UNROLLED_MASKED(IfThenElseZero)
RLX_UNROLLED_MASKED(IfThenZeroElse)
RLX_UNROLLED_3(IfThenElse)
RLX_UNROLLED_3(MulAdd)
RLX_UNROLLED_3(MulSub)
RLX_UNROLLED_3(NegMulAdd)

#undef RLX_UNROLLED_1
#undef RLX_UNROLLED_2
#undef RLX_UNROLLED_MASKED
#undef RLX_UNROLLED_3
#undef RLX_UNROLLED_TAG

#endif  // !HWY_HAVE_SCALABLE

}  // namespace HWY_NAMESPACE
}  // namespace hwy
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_VECTOR_UNROLLED_INL_H_
