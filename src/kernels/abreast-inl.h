// Several vectors that go through the same operations side by side. A polynomial is one long chain of operations that
// wait for each other; eight chains in turn keep a processor busy whose window is too short to find them by itself.
// What is written on a tag and vectors (vector_math-inl.h, elementary-inl.h) takes AbreastTag and Abreast as well.
// They stand in Highway's namespace because those files name its operations in full: include this one before them.
// Compiled per target.
#if defined(RLX_KERNELS_ABREAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_ABREAST_INL_H_
#undef RLX_KERNELS_ABREAST_INL_H_
#else
#define RLX_KERNELS_ABREAST_INL_H_
#endif

#include <cstddef>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hwy {
namespace HWY_NAMESPACE {

/// f of vectors, or of each of those abreast: for what Highway has no operation.
template <class F, class A, class... Rest>
HWY_INLINE auto EachVector(F f, A a, Rest... rest) {
  return f(a, rest...);
}

/// For the steps of long chains; see AbreastTag.
template <class D, class V>
HWY_INLINE void Between(D, V&) {}

#if !HWY_HAVE_SCALABLE  // whose vectors cannot be members

struct NothingBetween {};
/// `between()` is called between the steps of a long chain: work that goes well beside arithmetic.
template <class D, int N, class BetweenSteps = NothingBetween>
struct AbreastTag {
  using T = TFromD<D>;
  template <class NewT>
  using Rebind = AbreastTag<typename D::template Rebind<NewT>, N>;
  static constexpr size_t kPrivateN = D::kPrivateN;  ///< lanes of each
  [[no_unique_address]] BetweenSteps between{};
};
/// N vectors, or N masks.
template <class V, int N>
struct Abreast {
  V v[N];
};

/// f(0), f(1) ... f(N - 1). No loop: with an index that is not a constant from the first, a compiler keeps the vectors
/// in memory.
template <class F, int... I>
HWY_INLINE auto Each(F f, std::integer_sequence<int, I...>) {
  return Abreast<decltype(f(0)), sizeof...(I)>{{f(I)...}};
}
template <int N, class F>
HWY_INLINE auto Each(F f) {
  return Each(f, std::make_integer_sequence<int, N>());
}

#define RLX_ABREAST_1(f)                                       \
  template <class A, int N>                                    \
  HWY_INLINE auto f(const Abreast<A, N>& a) {                  \
    return Each<N>([&](int i) HWY_ATTR { return f(a.v[i]); }); \
  }
#define RLX_ABREAST_2(f)                                               \
  template <class A, int N>                                            \
  HWY_INLINE auto f(const Abreast<A, N>& a, const Abreast<A, N>& b) {  \
    return Each<N>([&](int i) HWY_ATTR { return f(a.v[i], b.v[i]); }); \
  }
#define RLX_ABREAST_MASKED(f)                                             \
  template <class M, class A, int N>                                      \
  HWY_INLINE auto f(const Abreast<M, N>& mask, const Abreast<A, N>& a) {  \
    return Each<N>([&](int i) HWY_ATTR { return f(mask.v[i], a.v[i]); }); \
  }
#define RLX_ABREAST_3(f)                                                                      \
  template <class A, class B, int N>                                                          \
  HWY_INLINE auto f(const Abreast<A, N>& a, const Abreast<B, N>& b, const Abreast<B, N>& c) { \
    return Each<N>([&](int i) HWY_ATTR { return f(a.v[i], b.v[i], c.v[i]); });                \
  }
#define RLX_ABREAST_TAG(f)                                          \
  template <class D, class B, class A, int N>                       \
  HWY_INLINE auto f(AbreastTag<D, N, B>, const Abreast<A, N>& a) {  \
    return Each<N>([&](int i) HWY_ATTR { return f(D(), a.v[i]); }); \
  }

template <class F, class A, int N>
HWY_INLINE auto EachVector(F f, const Abreast<A, N>& a) {
  return Each<N>([&](int i) HWY_ATTR { return f(a.v[i]); });
}
template <class F, class A, class B, int N>
HWY_INLINE auto EachVector(F f, const Abreast<A, N>& a, const Abreast<B, N>& b) {
  return Each<N>([&](int i) HWY_ATTR { return f(a.v[i], b.v[i]); });
}
template <class D, int N, class B>
HWY_INLINE auto Set(AbreastTag<D, N, B>, TFromD<D> value) {
  return Each<N>([&](int) HWY_ATTR { return Set(D(), value); });
}
template <class D, int N, class B>
HWY_INLINE auto Zero(AbreastTag<D, N, B>) {
  return Each<N>([&](int) HWY_ATTR { return Zero(D()); });
}
template <int kBits, class A, int N>
HWY_INLINE auto ShiftLeft(const Abreast<A, N>& a) {
  return Each<N>([&](int i) HWY_ATTR { return ShiftLeft<kBits>(a.v[i]); });
}
template <int kBits, class A, int N>
HWY_INLINE auto ShiftRight(const Abreast<A, N>& a) {
  return Each<N>([&](int i) HWY_ATTR { return ShiftRight<kBits>(a.v[i]); });
}
template <class D, class B, class V>
HWY_INLINE void Between([[maybe_unused]] AbreastTag<D, 8, B> d, [[maybe_unused]] Abreast<V, 8>& x) {
  if constexpr (!std::is_same_v<B, NothingBetween>) {
#if HWY_TARGET == HWY_AVX3
    // Compilers move arithmetic behind what is done between, all of which would then come at once.
    asm volatile(""
                 : "+v"(x.v[0].raw), "+v"(x.v[1].raw), "+v"(x.v[2].raw), "+v"(x.v[3].raw), "+v"(x.v[4].raw),
                   "+v"(x.v[5].raw), "+v"(x.v[6].raw), "+v"(x.v[7].raw)
                 :
                 : "memory");
#endif
    d.between();
  }
}
RLX_ABREAST_TAG(BitCast)
RLX_ABREAST_TAG(ConvertTo)
RLX_ABREAST_1(Abs)
RLX_ABREAST_1(Neg)
RLX_ABREAST_1(Round)
RLX_ABREAST_1(Floor)
RLX_ABREAST_1(ApproximateReciprocal)
RLX_ABREAST_2(Add)
RLX_ABREAST_2(Sub)
RLX_ABREAST_2(Mul)
RLX_ABREAST_2(Div)
RLX_ABREAST_2(Min)
RLX_ABREAST_2(Max)
RLX_ABREAST_2(And)
RLX_ABREAST_2(CopySign)
RLX_ABREAST_2(Eq)
RLX_ABREAST_2(Lt)
RLX_ABREAST_2(Le)
RLX_ABREAST_2(Gt)
RLX_ABREAST_2(Ge)
RLX_ABREAST_MASKED(IfThenElseZero)
RLX_ABREAST_MASKED(IfThenZeroElse)
RLX_ABREAST_3(IfThenElse)
RLX_ABREAST_3(MulAdd)
RLX_ABREAST_3(MulSub)
RLX_ABREAST_3(NegMulAdd)

#undef RLX_ABREAST_1
#undef RLX_ABREAST_2
#undef RLX_ABREAST_MASKED
#undef RLX_ABREAST_3
#undef RLX_ABREAST_TAG

#endif  // !HWY_HAVE_SCALABLE

}  // namespace HWY_NAMESPACE
}  // namespace hwy
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_ABREAST_INL_H_
