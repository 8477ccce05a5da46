// See the header.
#include "kernels/vector/instruction_set.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <optional>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "kernels/vector/highway_dispatch.h"
#include "kernels/vector/highway_targets.h"
// Above: the instruction sets must be chosen before any Highway header.
#include "hwy/targets.h"
#include "kernels/gemm/amx/tiles.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace {

constexpr std::string_view kNames[] = {"sse4", "avx2", "avx512", "avx512_vnni", "amx", "neon", "neon_dot", "neon_i8mm"};

// Those of this architecture, least first.
constexpr InstructionSet kOfThisArchitecture[] = {
#if HWY_ARCH_X86_64
    InstructionSet::sse4, InstructionSet::avx2, InstructionSet::avx512, InstructionSet::avx512_vnni, InstructionSet::amx
#else  // on other architectures than these two none is in use, and only "native" is taken
    InstructionSet::neon, InstructionSet::neon_dot, InstructionSet::neon_i8mm
#endif
};
constexpr InstructionSet kOldest = std::begin(kOfThisArchitecture)[0], kBest = std::end(kOfThisArchitecture)[-1];

std::string_view given() {
  const char* text = std::getenv("RLX_ISA");
  return text ? text : "";
}
std::optional<InstructionSet> limit_of(std::string_view name) {
  for (InstructionSet set : kOfThisArchitecture)
    if (name_of(set) == name) return set;
  return std::nullopt;
}

#if HWY_ARCH_X86_64
int64_t highway_target(InstructionSet set) {
  return set == InstructionSet::sse4 ? HWY_SSE4 : set == InstructionSet::avx2 ? HWY_AVX2 : HWY_AVX3;
}
/// Better targets of Highway have lower bits.
bool has_vectors(InstructionSet set) {
  return (available_targets() & HWY_TARGETS & ((highway_target(set) << 1) - 1)) != 0;
}
bool has_vnni() {
  return has_vectors(InstructionSet::avx512) &&
         (__builtin_cpu_supports("avx512vnni") || __builtin_cpu_supports("avx512bf16"));
}
/// Of the processor and the build, whatever is permitted.
bool has(InstructionSet set) {
  if (set == InstructionSet::amx) return has_vectors(set) && processor_has_tiles();
  return set == InstructionSet::avx512_vnni ? has_vnni() : has_vectors(set);
}

void limit_highway(InstructionSet limit) {
  if (!has(limit))
    fail(ErrorCode::unsupported, "RLX_ISA=", name_of(limit), ": this processor, or this build, has ",
         used_instruction_set(), " at most");
  const int64_t left = available_targets() & HWY_TARGETS & ~(highway_target(limit) - 1);
  if (left == 0)
    fail(ErrorCode::unsupported, "RLX_ISA=", name_of(limit), ": this build has kernels for ", used_instruction_set(),
         " at least");
  limit_targets(left);
}
#elif HWY_ARCH_ARM_A64
bool has(InstructionSet set) {
  switch (set) {
    case InstructionSet::neon: return true;
    case InstructionSet::neon_dot: return processor_has(ArmExtension::dotprod);
    case InstructionSet::neon_i8mm: return processor_has(ArmExtension::i8mm) || processor_has(ArmExtension::bf16);
    default: return false;
  }
}
/// Highway has nothing to choose: what comes after NEON is chosen by the kernels themselves.
void limit_highway(InstructionSet limit) {
  if (!has(limit))
    fail(ErrorCode::unsupported, "RLX_ISA=", name_of(limit), ": this processor, or this build, has ",
         used_instruction_set(), " at most");
}
#else
void limit_highway(InstructionSet limit) {
  fail(ErrorCode::unsupported, "RLX_ISA=", name_of(limit),
       ": this processor is neither x86-64 nor aarch64; leave RLX_ISA unset");
}
#endif

}  // namespace

std::string_view name_of(InstructionSet set) { return kNames[static_cast<size_t>(set)]; }

bool is_permitted(InstructionSet set) noexcept {
  static const InstructionSet limit = limit_of(given()).value_or(kBest);
  return set >= kOldest && set <= limit;
}

void apply_instruction_set_limit() {
  const std::string_view name = given();
  if (name.empty() || name == "native") return;
  const auto limit = limit_of(name);
  if (!limit) {
    std::string names;
    for (InstructionSet set : kOfThisArchitecture) names += text_of(name_of(set), ", ");
    const bool is_foreign = std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
    fail(ErrorCode::invalid_argument, "RLX_ISA=", name, " is no instruction set",
         is_foreign ? " of this processor" : "", ": take one of ", names, "native");
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static bool is_applied = false;
  if (is_applied) return;
  limit_highway(*limit);
  is_applied = true;
}

std::string_view used_instruction_set() {
#if HWY_ARCH_X86_64
  if (has_matrix_tiles()) return name_of(InstructionSet::amx);
  for (InstructionSet set : {InstructionSet::avx512_vnni, InstructionSet::avx512, InstructionSet::avx2})
    if (is_permitted(set) && has(set)) return name_of(set);
  return name_of(InstructionSet::sse4);
#elif HWY_ARCH_ARM_A64
  for (InstructionSet set : {InstructionSet::neon_i8mm, InstructionSet::neon_dot})
    if (is_permitted(set) && has(set)) return name_of(set);
  return name_of(InstructionSet::neon);
#else
  return "native";
#endif
}

std::string instruction_set() {
  constexpr const char* kArchitecture =
#if defined(__x86_64__) || defined(_M_X64)
      "x86-64";
#elif defined(__aarch64__) || defined(_M_ARM64)
      "aarch64";
#else
      "another architecture";
#endif
  return text_of(kArchitecture, " with ", used_instruction_set());
}

bool processor_has_tiles() noexcept {
#if RLX_HAS_TILES
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  return (d & kBf16) != 0 && (d & kTile) != 0 && (d & kInt8) != 0;
#else
  return false;
#endif
}

bool processor_has(ArmExtension extension) noexcept {
#if defined(__aarch64__) && defined(__linux__)
  switch (extension) {
    case ArmExtension::dotprod: return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    case ArmExtension::i8mm: return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
    case ArmExtension::bf16: return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
  }
#elif defined(__aarch64__) && defined(__APPLE__)
  const auto says = [](const char* name) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
  };
  switch (extension) {
    case ArmExtension::dotprod: return says("hw.optional.arm.FEAT_DotProd");
    case ArmExtension::i8mm: return says("hw.optional.arm.FEAT_I8MM");
    case ArmExtension::bf16: return says("hw.optional.arm.FEAT_BF16");
  }
#else
  static_cast<void>(extension);
#endif
  return false;
}

}  // namespace rlx::kernels
