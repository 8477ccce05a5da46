// See the header. Eight vectors are what x86-64 and Arm64 pass in registers.
#include "kernels/elementwise_chain.h"

#include "kernels/highway_targets.h"
#include "kernels/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise_chain.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/abreast-inl.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_f32-inl.h"
#include "kernels/memory_traffic-inl.h"

// Highway warns of GCC's code for vectors as arguments on Arm64 (shared-inl.h); vectors of no fixed size are untried.
// Clang passes vectors in memory that are wider than what the whole file is compiled for: twice as slow as kernels.
#undef RLX_HAS_CHAINS  // this file is read once for each target
#if HWY_HAVE_SCALABLE || (HWY_COMPILER_GCC_ACTUAL && HWY_ARCH_ARM_A64) || \
    (HWY_COMPILER_CLANG && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3))
#define RLX_HAS_CHAINS 0
#else
#define RLX_HAS_CHAINS 1
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

using elementwise::BlockTraffic;
using elementwise::ChainTarget;
using elementwise::Link;
using elementwise::Moving;

#if RLX_HAS_CHAINS

constexpr int kVectors = 8;
constexpr int64_t kLanes = int64_t{hn::MaxLanes(F32Tag())}, kBlock = kVectors * kLanes;

using Block = hn::Abreast<F32Vec, kVectors>;
#define RLX_VECTORS F32Vec v0, F32Vec v1, F32Vec v2, F32Vec v3, F32Vec v4, F32Vec v5, F32Vec v6, F32Vec v7
using Typed = void (*)(const Link*, RLX_VECTORS);

HWY_INLINE void go_on(const Link* link, const Block& x) {
  reinterpret_cast<Typed>(link[1].code)(link + 1, x.v[0], x.v[1], x.v[2], x.v[3], x.v[4], x.v[5], x.v[6], x.v[7]);
}

/// Vector `i` of an operand's block.
HWY_INLINE F32Vec operand(const std::byte* block, int i) {
  return hn::LoadU(F32Tag(), reinterpret_cast<const float*>(block) + i * kLanes);
}

/// The code of a link: `Step::apply(link, block)`, then the next link's.
template <class Step>
void code(const Link* link, RLX_VECTORS) {
  Block x{{v0, v1, v2, v3, v4, v5, v6, v7}};
  Step::apply(*link, x);
  go_on(link, x);
}
void end(const Link*, F32Vec, F32Vec, F32Vec, F32Vec, F32Vec, F32Vec, F32Vec, F32Vec) {}

/// Steps whose vectors do not meet: `Step::vector(link, i, vector)` for each.
template <class Step>
struct EachVector {
  static HWY_INLINE void apply(const Link& link, Block& x) {
    x = hn::Each<kVectors>([&](int i) HWY_ATTR { return Step::vector(link, i, x.v[i]); });
  }
};
/// Line `i` of a busy link's traffic, if a block has so many.
HWY_INLINE void move_line_of_block(const MemoryTraffic::Lines& lines, int i) {
  if (i < static_cast<int>(kBlock * sizeof(float) / MemoryTraffic::kLine)) move_line(lines, i);
}
template <bool is_busy>
struct Load : EachVector<Load<is_busy>> {
  static HWY_INLINE F32Vec vector(const Link& link, int i, F32Vec) {
    if constexpr (is_busy) move_line_of_block(*link.lines, i);
    return operand(link.from[0], i);
  }
};
struct Store : EachVector<Store> {
  static HWY_INLINE F32Vec vector(const Link& link, int i, F32Vec x) {
    hn::StoreU(x, F32Tag(), reinterpret_cast<float*>(link.to) + i * kLanes);
    return x;
  }
};
template <class T>
struct Narrow : EachVector<Narrow<T>> {
  static HWY_INLINE F32Vec vector(const Link&, int, F32Vec x) { return narrowed<T>(F32Tag(), x); }
};
template <Op op>
struct Unary : EachVector<Unary<op>> {
  static HWY_INLINE F32Vec vector(const Link&, int, F32Vec x) { return unary<op>(F32Tag(), x); }
};
/// Ops whose vectors go side by side: those that gain by it, where there are 32 registers.
constexpr bool is_abreast([[maybe_unused]] Op op) {
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
  return op == Op::gelu_erf || op == Op::logistic;
#else
  return false;
#endif
}
/// Moves the lines of a block, one at a time.
struct MoveNext {
  MemoryTraffic::Lines lines;
  int* next = nullptr;
  HWY_INLINE void operator()() const { move_line_of_block(lines, (*next)++); }
};
template <Op op, bool is_busy>
struct Long {
  static HWY_INLINE void apply([[maybe_unused]] const Link& link, Block& x) {
    if constexpr (is_abreast(op) && is_busy) {
      int next = 0;
      const hn::AbreastTag<F32Tag, kVectors, MoveNext> d{{*link.lines, &next}};
      x = unary<op>(d, x);
      while (next < kVectors) d.between();
    } else if constexpr (is_abreast(op)) {
      x = unary<op>(hn::AbreastTag<F32Tag, kVectors>(), x);
    } else {  // a loop, whose numbers stay in registers
      HWY_ALIGN float lanes[kBlock];
      hn::Each<kVectors>([&](int i) HWY_ATTR { return hn::Store(x.v[i], F32Tag(), lanes + i * kLanes), 0; });
      for (int i = 0; i < kVectors; ++i) {
        if constexpr (is_busy) move_line_of_block(*link.lines, i);
        hn::Store(unary<op>(F32Tag(), hn::Load(F32Tag(), lanes + i * kLanes)), F32Tag(), lanes + i * kLanes);
      }
      x = hn::Each<kVectors>([&](int i) HWY_ATTR { return hn::Load(F32Tag(), lanes + i * kLanes); });
    }
  }
};
template <Op op, int held>
struct Binary : EachVector<Binary<op, held>> {
  static HWY_INLINE F32Vec vector(const Link& link, int i, F32Vec x) {
    const F32Vec y = operand(link.from[0], i);
    return held == 0 ? binary<op>(x, y) : binary<op>(y, x);
  }
};
template <Op op, int held>
struct Compare : EachVector<Compare<op, held>> {
  static HWY_INLINE F32Vec vector(const Link& link, int i, F32Vec x) {
    const F32Vec y = operand(link.from[0], i);
    store_mask(held == 0 ? compare<op>(x, y) : compare<op>(y, x), reinterpret_cast<uint8_t*>(link.to) + i * kLanes);
    return x;
  }
};
template <int held>
struct Select : EachVector<Select<held>> {
  static HWY_INLINE F32Vec vector(const Link& link, int i, F32Vec x) {
    const auto mask = load_mask(reinterpret_cast<const uint8_t*>(link.from[0]) + i * kLanes);
    const F32Vec y = operand(link.from[1], i);
    return held == 1 ? hn::IfThenElse(mask, x, y) : hn::IfThenElse(mask, y, x);
  }
};
struct Clamp : EachVector<Clamp> {
  static HWY_INLINE F32Vec vector(const Link& link, int i, F32Vec x) {
    return clamp(operand(link.from[0], i), x, operand(link.from[1], i));
  }
};
template <int held>
struct Fma : EachVector<Fma<held>> {
  static HWY_INLINE F32Vec vector(const Link& link, int i, F32Vec x) {
    const F32Vec y = operand(link.from[0], i), z = operand(link.from[1], i);
    return held == 0 ? hn::MulAdd(x, y, z) : held == 1 ? hn::MulAdd(y, x, z) : hn::MulAdd(y, z, x);
  }
};

template <class Step>
Link::Code code_of() {
  return reinterpret_cast<Link::Code>(&code<Step>);
}
template <template <Op> class Step, Op... ops>
Link::Code find_in(OpList<ops...>, Op op) {
  Link::Code found = nullptr;
  ((op == ops ? void(found = code_of<Step<ops>>()) : void()), ...);
  return found;
}
template <Op op>
using Idle = Long<op, false>;
template <Op op>
using Busy = Long<op, true>;
template <Op op>
using BinaryFirst = Binary<op, 0>;
template <Op op>
using BinarySecond = Binary<op, 1>;
template <Op op>
using CompareFirst = Compare<op, 0>;
template <Op op>
using CompareSecond = Compare<op, 1>;

Link::Code find(Op op, int held) {
  switch (op) {
    case Op::select: return held == 1 ? code_of<Select<1>>() : held == 2 ? code_of<Select<2>>() : nullptr;
    case Op::clamp: return held == 1 ? code_of<Clamp>() : nullptr;
#if HWY_NATIVE_FMA
    case Op::fma: return held == 0 ? code_of<Fma<0>>() : held == 1 ? code_of<Fma<1>>() : code_of<Fma<2>>();
#endif
    default: break;
  }
  if (held == 0) {
    if (const Link::Code found = find_in<Unary>(UnaryOps(), op)) return found;
    if (const Link::Code found = find_in<Idle>(LongOps(), op)) return found;
    if (const Link::Code found = find_in<CompareFirst>(CompareOps(), op)) return found;
    return find_in<BinaryFirst>(BinaryOps(), op);
  }
  if (held != 1) return nullptr;
  if (const Link::Code found = find_in<CompareSecond>(CompareOps(), op)) return found;
  return find_in<BinarySecond>(BinaryOps(), op);
}

Link::Code find_busy(Op op) { return find_in<Busy>(LongOps(), op); }

void run(const Link* links, int64_t blocks, std::span<const Moving> moving, BlockTraffic traffic) noexcept {
  const F32Vec none = hn::Zero(F32Tag());
  const auto first = reinterpret_cast<Typed>(links[0].code);
  constexpr size_t kBytes = kBlock * sizeof(float);
  const auto asked = static_cast<int64_t>(traffic.ahead.size() / kBytes);
  for (int64_t block = 0; block < blocks; ++block) {
    if (traffic.lines) {
      traffic.lines->ahead = block < asked ? traffic.ahead.data() + static_cast<size_t>(block) * kBytes : nullptr;
      if (traffic.more) traffic.more->advance(traffic.share);
    }
    first(links, none, none, none, none, none, none, none, none);
    for (const Moving& m : moving) *m.pointer += m.bytes;
    if (traffic.stream_to) traffic.lines->to = traffic.stream_to + static_cast<size_t>(block) * kBytes;
  }
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  _mm256_zeroupper();  // a compiler does not see that links leave vectors behind, which would slow narrower ones down
#endif
}

ChainTarget target() {
  return {.block = kBlock,
          .load = code_of<Load<false>>(),
          .busy_load = code_of<Load<true>>(),
          .store = code_of<Store>(),
          .end = reinterpret_cast<Link::Code>(&end),
          .narrow_f16 = code_of<Narrow<F16>>(),
          .narrow_bf16 = code_of<Narrow<BF16>>(),
          .find = find,
          .find_busy = find_busy,
          .run = run};
}

#else
ChainTarget target() { return {}; }
#endif  // RLX_HAS_CHAINS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(target);
}  // namespace
elementwise::ChainTarget elementwise::chain_target() { return HWY_DYNAMIC_DISPATCH(target)(); }
}  // namespace rlx::kernels
#endif  // HWY_ONCE
