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

// The activations as functions of a tag and a vector. No lambdas: compilers leave those out of line where they are
// called several times, and vectors in memory.
struct NoActivation {
  template <class D, class V>
  HWY_INLINE V operator()(D, V v) const {
    return v;
  }
};
#define RLX_ACTIVATION(name, value)             \
  struct name {                                 \
    template <class D, class V>                 \
    HWY_INLINE V operator()(D d, V v) const {   \
      using T [[maybe_unused]] = hn::TFromD<D>; \
      return value;                             \
    }                                           \
  };
RLX_ACTIVATION(ReluActivation, hn::Max(hn::Zero(d), v))
RLX_ACTIVATION(GeluErfActivation, GeluErf(d, v))
RLX_ACTIVATION(GeluTanhActivation, GeluTanh(d, v))
RLX_ACTIVATION(SiluActivation, Silu(d, v))
RLX_ACTIVATION(SigmoidActivation, Sigmoid(d, v))
RLX_ACTIVATION(TanhActivation, Tanh(d, v))
RLX_ACTIVATION(Relu6Activation, Relu6(d, v))
RLX_ACTIVATION(HardSwishActivation, hn::Mul(v, hn::Div(Relu6(d, hn::Add(v, hn::Set(d, T(3)))), hn::Set(d, T(6)))))
#undef RLX_ACTIVATION

// Calls f with the activation, one of these.
template <class F>
HWY_INLINE void with_activation(Activation activation, F f) {
  switch (activation) {
    case Activation::none: return f(NoActivation());
    case Activation::relu: return f(ReluActivation());
    case Activation::gelu_erf: return f(GeluErfActivation());
    case Activation::gelu_tanh: return f(GeluTanhActivation());
    case Activation::silu: return f(SiluActivation());
    case Activation::sigmoid: return f(SigmoidActivation());
    case Activation::tanh: return f(TanhActivation());
    case Activation::relu6: return f(Relu6Activation());
    case Activation::hard_swish: return f(HardSwishActivation());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_VECTOR_ACTIVATION_INL_H_
