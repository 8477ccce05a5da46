// See the header. The three functions are weak, so that a program that links librlx.a and Highway's own library has
// one definition of each. They mean the same, but that Highway's knows no limit of a thread: instruction_set_limit()
// refuses one there. librlx.so does not export them (cmake/symbol_versions.cmake).
#include "kernels/vector/highway_dispatch.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/vector/highway_targets.h"
#include "kernels/vector/instruction_set_limit.h"
// Above: the instruction sets must be chosen before any Highway header.
#include "hwy/targets.h"

namespace rlx::kernels {
namespace {

std::atomic<int64_t> targets_limit{0};
hwy::ChosenTarget process_target;  // constant-initialized: kernels may run before other objects are made

int64_t processor_targets() {
#if HWY_ARCH_X86_64
  int64_t targets = HWY_TARGETS & (HWY_EMU128 | HWY_SCALAR);
  // __builtin_cpu_supports asks the operating system for the registers, too; gcc 10 and clang 14 do not know two names.
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0;
  const bool lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c >> 5 & 1) != 0;
  const bool sse4 =
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
  const bool avx2 = sse4 && f16c && lzcnt && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd");
  if (sse4) targets |= HWY_SSE4;
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
  return targets;
#else
  return HWY_STATIC_TARGET;
#endif
}

}  // namespace

std::atomic<bool> has_thread_limits{false};
RLX_STATIC_TLS constinit thread_local const InstructionSetLimit* limit_of_thread = nullptr;

int64_t available_targets() {
  if (const InstructionSetLimit* limit = InstructionSetScope::current()) return limit->targets;
  static const int64_t all = processor_targets();
  const int64_t limited = targets_limit.load();
  return limited != 0 ? limited : all;
}

void limit_targets(int64_t targets) {
  targets_limit.store(targets);
  const InstructionSetScope of_process(nullptr);
  hwy::GetChosenTarget().Update(available_targets());
}

}  // namespace rlx::kernels

namespace hwy {

__attribute__((weak)) int64_t SupportedTargets() { return rlx::kernels::available_targets(); }
__attribute__((weak)) ChosenTarget& GetChosenTarget() {
  const rlx::kernels::InstructionSetLimit* limit = rlx::kernels::InstructionSetScope::current();
  return limit ? *limit->chosen : rlx::kernels::process_target;
}
__attribute__((weak)) void SetSupportedTargetsForTest(int64_t targets) {
  rlx::kernels::targets_limit.store(targets);
  rlx::kernels::process_target.DeInit();  // the next kernel chooses anew
}

}  // namespace hwy
