// Which of the processor's instruction sets the kernels use: all that it has, or at most the one that the environment
// variable RLX_ISA names, which holds for the whole process. Below that, a thread can be held to fewer while it
// compiles or runs a program (CompileOptions::isa): Highway asks for the choice at each call of a kernel
// (highway_dispatch.cpp), and all other questions are answered here.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "base/static_tls.h"

namespace rlx::kernels {

/// A limit permits all before it of its architecture, of which a processor may lack some.
enum class InstructionSet {
  scalar,  ///< no vector instructions: a name that no build has yet, as the error says
  // x86-64
  sse4,         ///< the least that kernels are compiled for on x86-64
  avx2,         ///< with FMA
  avx512,       ///< F, BW, DQ, VL, CD
  avx512_vnni,  ///< AVX-512 with VNNI, bf16, or both. AVX-VNNI of processors without AVX-512 is permitted with it, too:
                ///< used only where no limit is set, and reported as avx2
  amx,          ///< matrix tiles of bf16 and of 8-bit integers
  // aarch64
  neon,       ///< vectors of 128 bits, which all of them have
  neon_dot,   ///< dot products of 8-bit integers (FEAT_DotProd)
  neon_i8mm,  ///< products of 2 x 8 by 8 x 2 of them (FEAT_I8MM), dot products of bf16 (FEAT_BF16), or both
};
/// What RLX_ISA must permit for dot products of bf16.
#if defined(__aarch64__) || defined(_M_ARM64)
inline constexpr InstructionSet kBF16Dots = InstructionSet::neon_i8mm;
#else
inline constexpr InstructionSet kBF16Dots = InstructionSet::avx512_vnni;
#endif

std::string_view name_of(InstructionSet set);

/// Whether RLX_ISA, as it was at the first call, and the calling thread's scope permit it. True says nothing of the
/// processor: kernels that Highway does not choose (tiles, VNNI, bf16 dot products) ask both, each time, as scopes come
/// and go. If RLX_ISA names no instruction set of this architecture, all are permitted here, and
/// apply_instruction_set_limit() fails. Of another architecture than the processor's none is, but those of Arm on a
/// processor that is neither.
bool is_permitted(InstructionSet set) noexcept;

/// Makes Highway keep to RLX_ISA (on Arm only checks the name and the processor: Highway has one target there). Does
/// nothing if RLX_ISA is unset, empty or "native", or, for a valid name, once a call has succeeded; may be called by
/// several threads. The CPU backend calls it when it is made, before any kernel runs. oneDNN is limited where its
/// engine is made (conv/onednn.cpp); LAPACK is not (OPENBLAS_CORETYPE). Fails if RLX_ISA names no instruction set, one
/// that this processor or this build lacks, or one below what this build has kernels for (a build for one processor may
/// have them for AVX2 alone); on a processor that is neither x86-64 nor aarch64, for every name but "native".
void apply_instruction_set_limit();

/// The best that kernels use now: of what the processor, the build, RLX_ISA and the calling thread's scope allow; "amx"
/// only if the operating system lets this process use tiles. "native" where the processor is neither x86-64 nor
/// aarch64.
std::string_view used_instruction_set();

/// Whether the processor has matrix tiles and their products of bf16 and of 8-bit integers, whatever RLX_ISA and the
/// operating system say; has_matrix_tiles() asks those, too. False in builds without kernels for tiles.
bool processor_has_tiles() noexcept;

/// What an Arm processor has beyond NEON, whatever RLX_ISA says, as Linux and Apple's systems report it; false
/// elsewhere.
enum class ArmExtension { dotprod, i8mm, bf16 };
bool processor_has(ArmExtension extension) noexcept;

/// The architecture and what is in use of it: "x86-64 with amx". The same in every process of one
/// machine that has the same limit.
std::string instruction_set();

/// What threads in a scope use at most. There is one for each name, which is never destroyed.
struct InstructionSetLimit;

/// The limit of that name; null for "" and "native", which are none. Fails as apply_instruction_set_limit() does, with
/// `what` ("isa") in front of the name, and for a set that RLX_ISA does not permit this process.
const InstructionSetLimit* instruction_set_limit(std::string_view name, std::string_view what);

/// Whether the calling thread may use less than the process: libraries that are limited for a whole process (oneDNN)
/// are then not called.
bool is_held_below_process() noexcept;

/// Whether there has been a limit in this process. Until then no thread's is looked up: that costs every call of a
/// kernel one load.
extern std::atomic<bool> has_thread_limits;
RLX_STATIC_TLS extern constinit thread_local const InstructionSetLimit* limit_of_thread;

/// While it lives, the calling thread keeps to `limit`, or if that is null to the process's own sets. Jobs of
/// ThreadPool keep to that of the thread which posts them. Results of kernels, plans and packed weights depend on it:
/// what was prepared in a scope has to be run in one of the same limit.
class InstructionSetScope {
 public:
  explicit InstructionSetScope(const InstructionSetLimit* limit) noexcept
      : before_(current()), changes_(before_ != limit) {
    if (changes_) limit_of_thread = limit;
  }
  ~InstructionSetScope() {
    if (changes_) limit_of_thread = before_;
  }
  InstructionSetScope(const InstructionSetScope&) = delete;
  InstructionSetScope& operator=(const InstructionSetScope&) = delete;

  /// Of the calling thread; null: none.
  static const InstructionSetLimit* current() noexcept {
    return has_thread_limits.load(std::memory_order_relaxed) ? limit_of_thread : nullptr;
  }

 private:
  const InstructionSetLimit* before_;
  bool changes_;
};

}  // namespace rlx::kernels
