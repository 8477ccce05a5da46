// See the header. A block is eight vectors: as many as the calling conventions of x86-64 and Arm64 pass in registers.
#include "kernels/elementwise/threaded_code.h"

#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/threaded_code.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/f32-inl.h"
#include "kernels/memory/memory_traffic-inl.h"
#include "kernels/vector/unrolled-inl.h"

// Three cases have no threaded code: GCC on Arm64, because Highway warns of its code for vectors as arguments
// (shared-inl.h); scalable vectors, which are untried; and Clang for AVX2 and AVX-512, because it passes vectors in
// memory that are wider than those of the file's baseline target, which is twice as slow as the kernels of f32.cpp.
#undef RLX_HAS_THREADED_CODE  // this file is read once for each target
#if HWY_HAVE_SCALABLE || (HWY_COMPILER_GCC_ACTUAL && HWY_ARCH_ARM_A64) || \
    (HWY_COMPILER_CLANG && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3))
#define RLX_HAS_THREADED_CODE 0
#else
#define RLX_HAS_THREADED_CODE 1
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

using elementwise::BlockTraffic;
using elementwise::Instruction;
using elementwise::MovingPointer;
using elementwise::ThreadedCodeTarget;

#if RLX_HAS_THREADED_CODE

constexpr int kVectors = 8;
constexpr int64_t kLanes = int64_t{hn::MaxLanes(F32Tag())}, kBlock = kVectors * kLanes;

/// The register-resident values: kBlock elements of f32.
using Block = hn::Unrolled<F32Vec, kVectors>;
#define RLX_VECTORS F32Vec v0, F32Vec v1, F32Vec v2, F32Vec v3, F32Vec v4, F32Vec v5, F32Vec v6, F32Vec v7
using Typed = void (*)(const Instruction*, RLX_VECTORS);

HWY_INLINE void go_on(const Instruction* instruction, const Block& x) {
  reinterpret_cast<Typed>(instruction[1].code)(instruction + 1, x.v[0], x.v[1], x.v[2], x.v[3], x.v[4], x.v[5], x.v[6],
                                               x.v[7]);
}

/// Vector `i` of the block of an operand in memory.
HWY_INLINE F32Vec operand(const std::byte* block, int i) {
  return hn::LoadU(F32Tag(), reinterpret_cast<const float*>(block) + i * kLanes);
}

/// The code of an instruction: it runs `Step::apply(instruction, block)` and then jumps to the code of the next
/// instruction.
template <class Step>
void code(const Instruction* instruction, RLX_VECTORS) {
  Block x{{v0, v1, v2, v3, v4, v5, v6, v7}};
  Step::apply(*instruction, x);
  go_on(instruction, x);
}
void end(const Instruction*, F32Vec, F32Vec, F32Vec, F32Vec, F32Vec, F32Vec, F32Vec, F32Vec) {}

/// For steps that treat each vector on its own: applies `Step::vector(instruction, i, vector)` to vectors 0 to 7.
template <class Step>
struct EachVector {
  static HWY_INLINE void apply(const Instruction& instruction, Block& x) {
    x = hn::Each<kVectors>([&](int i) HWY_ATTR { return Step::vector(instruction, i, x.v[i]); });
  }
};
/// The memory traffic of cache line `i` of a block, if a block has so many.
HWY_INLINE void move_cache_line_of_block(const MemoryTraffic::CacheLines& cache_lines, int i) {
  if (i < static_cast<int>(kBlock * sizeof(float) / MemoryTraffic::kCacheLine)) move_cache_line(cache_lines, i);
}
template <bool is_interleaved>
struct Load : EachVector<Load<is_interleaved>> {
  static HWY_INLINE F32Vec vector(const Instruction& instruction, int i, F32Vec) {
    if constexpr (is_interleaved) move_cache_line_of_block(*instruction.cache_lines, i);
    return operand(instruction.from[0], i);
  }
};
struct Store : EachVector<Store> {
  static HWY_INLINE F32Vec vector(const Instruction& instruction, int i, F32Vec x) {
    hn::StoreU(x, F32Tag(), reinterpret_cast<float*>(instruction.to) + i * kLanes);
    return x;
  }
};
template <class T>
struct Narrow : EachVector<Narrow<T>> {
  static HWY_INLINE F32Vec vector(const Instruction&, int, F32Vec x) { return narrowed<T>(F32Tag(), x); }
};
template <Op op>
struct Unary : EachVector<Unary<op>> {
  static HWY_INLINE F32Vec vector(const Instruction&, int, F32Vec x) { return unary<op>(F32Tag(), x); }
};
/// The ops that compute the 8 vectors of a block unrolled, because that is faster. It needs 32 vector registers.
constexpr bool is_unrolled([[maybe_unused]] Op op) {
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
  return op == Op::gelu_erf || op == Op::logistic;
#else
  return false;
#endif
}
/// Called between the steps of an unrolled op: does the memory traffic of a block, one cache line per call.
struct MoveNext {
  MemoryTraffic::CacheLines cache_lines;
  int* next = nullptr;
  HWY_INLINE void operator()() const { move_cache_line_of_block(cache_lines, (*next)++); }
};
template <Op op, bool is_interleaved>
struct Long {
  static HWY_INLINE void apply([[maybe_unused]] const Instruction& instruction, Block& x) {
    if constexpr (is_unrolled(op) && is_interleaved) {
      int next = 0;
      const hn::UnrolledTag<F32Tag, kVectors, MoveNext> d{{*instruction.cache_lines, &next}};
      x = unary<op>(d, x);
      while (next < kVectors) d.between();
    } else if constexpr (is_unrolled(op)) {
      x = unary<op>(hn::UnrolledTag<F32Tag, kVectors>(), x);
    } else {  // a loop over vectors in memory, so that the constants of the op fit in the registers
      HWY_ALIGN float lanes[kBlock];
      hn::Each<kVectors>([&](int i) HWY_ATTR { return hn::Store(x.v[i], F32Tag(), lanes + i * kLanes), 0; });
      for (int i = 0; i < kVectors; ++i) {
        if constexpr (is_interleaved) move_cache_line_of_block(*instruction.cache_lines, i);
        hn::Store(unary<op>(F32Tag(), hn::Load(F32Tag(), lanes + i * kLanes)), F32Tag(), lanes + i * kLanes);
      }
      x = hn::Each<kVectors>([&](int i) HWY_ATTR { return hn::Load(F32Tag(), lanes + i * kLanes); });
    }
  }
};
template <Op op, int register_operand>
struct Binary : EachVector<Binary<op, register_operand>> {
  static HWY_INLINE F32Vec vector(const Instruction& instruction, int i, F32Vec x) {
    const F32Vec y = operand(instruction.from[0], i);
    return register_operand == 0 ? binary<op>(x, y) : binary<op>(y, x);
  }
};
template <Op op, int register_operand>
struct Compare : EachVector<Compare<op, register_operand>> {
  static HWY_INLINE F32Vec vector(const Instruction& instruction, int i, F32Vec x) {
    const F32Vec y = operand(instruction.from[0], i);
    store_mask(register_operand == 0 ? compare<op>(x, y) : compare<op>(y, x),
               reinterpret_cast<uint8_t*>(instruction.to) + i * kLanes);
    return x;
  }
};
template <int register_operand>
struct Select : EachVector<Select<register_operand>> {
  static HWY_INLINE F32Vec vector(const Instruction& instruction, int i, F32Vec x) {
    const auto mask = load_mask(reinterpret_cast<const uint8_t*>(instruction.from[0]) + i * kLanes);
    const F32Vec y = operand(instruction.from[1], i);
    return register_operand == 1 ? hn::IfThenElse(mask, x, y) : hn::IfThenElse(mask, y, x);
  }
};
struct Clamp : EachVector<Clamp> {
  static HWY_INLINE F32Vec vector(const Instruction& instruction, int i, F32Vec x) {
    return clamp(operand(instruction.from[0], i), x, operand(instruction.from[1], i));
  }
};
template <int register_operand>
struct Fma : EachVector<Fma<register_operand>> {
  static HWY_INLINE F32Vec vector(const Instruction& instruction, int i, F32Vec x) {
    const F32Vec y = operand(instruction.from[0], i), z = operand(instruction.from[1], i);
    return register_operand == 0   ? hn::MulAdd(x, y, z)
           : register_operand == 1 ? hn::MulAdd(y, x, z)
                                   : hn::MulAdd(y, z, x);
  }
};

template <class Step>
Instruction::Code code_of() {
  return reinterpret_cast<Instruction::Code>(&code<Step>);
}
template <template <Op> class Step, Op... ops>
Instruction::Code find_in(OpList<ops...>, Op op) {
  Instruction::Code found = nullptr;
  ((op == ops ? void(found = code_of<Step<ops>>()) : void()), ...);
  return found;
}
template <Op op>
using LongAlone = Long<op, false>;
template <Op op>
using LongInterleaved = Long<op, true>;
template <Op op>
using BinaryFirst = Binary<op, 0>;
template <Op op>
using BinarySecond = Binary<op, 1>;
template <Op op>
using CompareFirst = Compare<op, 0>;
template <Op op>
using CompareSecond = Compare<op, 1>;

Instruction::Code find(Op op, int register_operand) {
  switch (op) {
    case Op::select:
      return register_operand == 1 ? code_of<Select<1>>() : register_operand == 2 ? code_of<Select<2>>() : nullptr;
    case Op::clamp: return register_operand == 1 ? code_of<Clamp>() : nullptr;
#if HWY_NATIVE_FMA
    case Op::fma:
      return register_operand == 0 ? code_of<Fma<0>>() : register_operand == 1 ? code_of<Fma<1>>() : code_of<Fma<2>>();
#endif
    default: break;
  }
  if (register_operand == 0) {
    if (const Instruction::Code found = find_in<Unary>(UnaryOps(), op)) return found;
    if (const Instruction::Code found = find_in<LongAlone>(LongOps(), op)) return found;
    if (const Instruction::Code found = find_in<CompareFirst>(CompareOps(), op)) return found;
    return find_in<BinaryFirst>(BinaryOps(), op);
  }
  if (register_operand != 1) return nullptr;
  if (const Instruction::Code found = find_in<CompareSecond>(CompareOps(), op)) return found;
  return find_in<BinarySecond>(BinaryOps(), op);
}

Instruction::Code find_interleaved(Op op) { return find_in<LongInterleaved>(LongOps(), op); }

void run(const Instruction* instructions, int64_t blocks, std::span<const MovingPointer> moving,
         BlockTraffic traffic) noexcept {
  const F32Vec none = hn::Zero(F32Tag());
  const auto first = reinterpret_cast<Typed>(instructions[0].code);
  constexpr size_t kBlockBytes = kBlock * sizeof(float);
  const auto prefetched_blocks = static_cast<int64_t>(traffic.prefetch.size() / kBlockBytes);
  for (int64_t block = 0; block < blocks; ++block) {
    if (traffic.cache_lines) {
      traffic.cache_lines->prefetch =
          block < prefetched_blocks ? traffic.prefetch.data() + static_cast<size_t>(block) * kBlockBytes : nullptr;
      if (traffic.more) traffic.more->advance(traffic.share);
    }
    first(instructions, none, none, none, none, none, none, none, none);
    for (const MovingPointer& m : moving) *m.pointer += m.bytes;
    if (traffic.stream_to) traffic.cache_lines->to = traffic.stream_to + static_cast<size_t>(block) * kBlockBytes;
  }
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // The compiler does not know that instructions leave the upper halves of vector registers set, which would slow down
  // SSE code after this.
  _mm256_zeroupper();
#endif
}

ThreadedCodeTarget target() {
  return {.block = kBlock,
          .load = code_of<Load<false>>(),
          .interleaved_load = code_of<Load<true>>(),
          .store = code_of<Store>(),
          .end = reinterpret_cast<Instruction::Code>(&end),
          .narrow_f16 = code_of<Narrow<F16>>(),
          .narrow_bf16 = code_of<Narrow<BF16>>(),
          .find = find,
          .find_interleaved = find_interleaved,
          .is_unrolled = is_unrolled,
          .run = run};
}

#else
ThreadedCodeTarget target() { return {}; }
#endif  // RLX_HAS_THREADED_CODE

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(target);
}  // namespace
elementwise::ThreadedCodeTarget elementwise::threaded_code_target() { return HWY_DYNAMIC_DISPATCH(target)(); }
}  // namespace rlx::kernels
#endif  // HWY_ONCE
