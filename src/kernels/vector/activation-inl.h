// Activation functions on vectors, for the epilogues of matrix products and convolutions. Compiled per target.
#if defined(RLX_KERNELS_VECTOR_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_VECTOR_ACTIVATION_INL_H_
#undef RLX_KERNELS_VECTOR_ACTIVATION_INL_H_
#else
#define RLX_KERNELS_VECTOR_ACTIVATION_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/gemm/gemm.h"
#include "kernels/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The constants are the first operands, because x86's min and max propagate a NaN only from the second one.
template <class D>
HWY_INLINE hn::Vec<D> Relu6(D d, hn::Vec<D> v) {
  return hn::Min(hn::Set(d, hn::TFromD<D>(6)), hn::Max(hn::Zero(d), v));
}

// Calls f with the activation as a function of a tag and a vector.
template <class F>
HWY_INLINE void with_activation(Activation activation, F f) {
  switch (activation) {
    case Activation::none: return f([](auto, auto v) HWY_ATTR { return v; });
    case Activation::relu: return f([](auto d, auto v) HWY_ATTR { return hn::Max(hn::Zero(d), v); });
    case Activation::gelu_erf: return f([](auto d, auto v) HWY_ATTR { return GeluErf(d, v); });
    case Activation::gelu_tanh: return f([](auto d, auto v) HWY_ATTR { return GeluTanh(d, v); });
    case Activation::silu: return f([](auto d, auto v) HWY_ATTR { return Silu(d, v); });
    case Activation::sigmoid: return f([](auto d, auto v) HWY_ATTR { return Sigmoid(d, v); });
    case Activation::tanh: return f([](auto d, auto v) HWY_ATTR { return Tanh(d, v); });
    case Activation::relu6: return f([](auto d, auto v) HWY_ATTR { return Relu6(d, v); });
    case Activation::hard_swish:
      return f([](auto d, auto v) HWY_ATTR {
        using T = hn::TFromD<decltype(d)>;
        return hn::Mul(v, hn::Div(Relu6(d, hn::Add(v, hn::Set(d, T(3)))), hn::Set(d, T(6))));
      });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_VECTOR_ACTIVATION_INL_H_
