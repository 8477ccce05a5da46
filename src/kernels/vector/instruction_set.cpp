// See the header.
#include "kernels/vector/instruction_set.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
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
#include "kernels/vector/instruction_set_limit.h"
// Above: the instruction sets must be chosen before any Highway header.
#include "hwy/targets.h"
#include "kernels/gemm/amx/tiles.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace {

constexpr std::string_view kNames[] = {"scalar", "sse4", "avx2",     "avx512",   "avx512_vnni",
                                       "amx",    "neon", "neon_dot", "neon_i8mm"};

// Those of this architecture, least first.
constexpr InstructionSet kOfThisArchitecture[] = {InstructionSet::scalar,
#if HWY_ARCH_X86_64
                                                  InstructionSet::sse4,   InstructionSet::avx2,
                                                  InstructionSet::avx512, InstructionSet::avx512_vnni,
                                                  InstructionSet::amx
#else  // on other architectures than these two none is in use, and only "native" is taken
                                                  InstructionSet::neon, InstructionSet::neon_dot,
                                                  InstructionSet::neon_i8mm
#endif
};
constexpr InstructionSet kBest = std::end(kOfThisArchitecture)[-1];
/// The least with vector instructions.
constexpr InstructionSet kOldest = std::begin(kOfThisArchitecture)[1];

constexpr bool kHasScalar = (HWY_TARGETS & HWY_EMU128) != 0 && (HWY_TARGETS & (HWY_TARGETS - 1)) != 0;

std::string_view given() {
  const char* text = std::getenv("RLX_ISA");
  return text ? text : "";
}
std::optional<InstructionSet> limit_of(std::string_view name) {
  for (InstructionSet set : kOfThisArchitecture)
    if (name_of(set) == name) return set;
  return std::nullopt;
}

/// "RLX_ISA=avx2", as messages begin.
std::string as_given(std::string_view what, InstructionSet set) { return text_of(what, "=", name_of(set)); }
[[noreturn]] void refuse(std::string_view what, InstructionSet set) {
  if (set == InstructionSet::scalar)
    fail(
        ErrorCode::unsupported, as_given(what, set),
        ": this build has no kernels without vector instructions: Highway's emulation of vectors loses NaN in min and ",
        "max, and GCC before 12.3 miscompiles it");
  const std::string of_process = given().empty() || what == "RLX_ISA" ? "" : text_of(" under RLX_ISA=", given());
  fail(ErrorCode::unsupported, as_given(what, set), ": this processor, or this build, has ", used_instruction_set(),
       " at most", of_process);
}

#if HWY_ARCH_X86_64
int64_t highway_target(InstructionSet set) {
  switch (set) {
    case InstructionSet::scalar: return HWY_EMU128;
    case InstructionSet::sse4: return HWY_SSE4;
    case InstructionSet::avx2: return HWY_AVX2;
    default: return HWY_AVX3;
  }
}
/// Better targets of Highway have lower bits.
bool has_vectors(InstructionSet set) {
  const int64_t target = highway_target(set);
  return (available_targets() & HWY_TARGETS & (target | (target - 1))) != 0;
}
bool has_vnni() {
  return has_vectors(InstructionSet::avx512) &&
         (__builtin_cpu_supports("avx512vnni") || __builtin_cpu_supports("avx512bf16"));
}
/// Of the processor and the build, whatever is permitted.
bool has(InstructionSet set) {
  if (set == InstructionSet::scalar) return kHasScalar;
  if (set == InstructionSet::amx) return has_vectors(set) && processor_has_tiles();
  return set == InstructionSet::avx512_vnni ? has_vnni() : has_vectors(set);
}

/// Highway's targets up to the limit.
int64_t targets_within(InstructionSet limit, std::string_view what) {
  if (!has(limit)) refuse(what, limit);
  const int64_t left = available_targets() & HWY_TARGETS & ~(highway_target(limit) - 1);
  if (left == 0)
    fail(ErrorCode::unsupported, as_given(what, limit), ": this build has kernels for ", used_instruction_set(),
         " at least");
  return left;
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
int64_t targets_within(InstructionSet limit, std::string_view what) {
  if (!has(limit)) refuse(what, limit);
  return available_targets();
}
#else
int64_t targets_within(InstructionSet limit, std::string_view what) {
  fail(ErrorCode::unsupported, as_given(what, limit), ": this processor is neither x86-64 nor aarch64; leave ", what,
       " unset");
}
#endif

/// Fails for a name that is none here; nothing for "" and "native".
std::optional<InstructionSet> named(std::string_view name, std::string_view what) {
  if (name.empty() || name == "native") return std::nullopt;
  if (const auto set = limit_of(name)) return set;
  std::string names;
  for (InstructionSet set : kOfThisArchitecture)
    if (set != InstructionSet::scalar || kHasScalar) names += text_of(name_of(set), ", ");
  const bool is_foreign = std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
  fail(ErrorCode::invalid_argument, what, "=", name, " is no instruction set", is_foreign ? " of this processor" : "",
       ": take one of ", names, "native; in use is ", used_instruction_set());
}

/// By RLX_ISA alone.
bool is_permitted_to_process(InstructionSet set) noexcept {
  static const InstructionSet limit = limit_of(given()).value_or(kBest);
  return set >= kOldest && set <= limit;
}

}  // namespace

std::string_view name_of(InstructionSet set) { return kNames[static_cast<size_t>(set)]; }

bool is_permitted(InstructionSet set) noexcept {
  const InstructionSetLimit* limit = InstructionSetScope::current();
  return is_permitted_to_process(set) && (!limit || set <= limit->most);
}

void apply_instruction_set_limit() {
  if (available_targets() == 0)
    fail(ErrorCode::unsupported,
         "this processor lacks instructions that this build takes for granted, SSE4.2, AES and ",
         "PCLMULQDQ, or more in a build for one processor");
  const auto limit = named(given(), "RLX_ISA");
  if (!limit) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static bool is_applied = false;
  if (is_applied) return;
  const InstructionSetScope of_process(nullptr);
  const int64_t targets = targets_within(*limit, "RLX_ISA");
#if HWY_ARCH_X86_64
  limit_targets(targets);
#else
  static_cast<void>(targets);
#endif
  is_applied = true;
}

const InstructionSetLimit* instruction_set_limit(std::string_view name, std::string_view what) {
  const InstructionSetScope of_process(nullptr);
  const auto set = named(name, what);
  if (!set) return nullptr;
  static std::mutex mutex;
  static const InstructionSetLimit* limits[std::size(kNames)] = {};
  const std::lock_guard lock(mutex);
  const InstructionSetLimit*& limit = limits[static_cast<size_t>(*set)];
  if (limit) return limit;
  if (*set != InstructionSet::scalar && !is_permitted(*set)) refuse(what, *set);
  const int64_t targets = targets_within(*set, what);
  auto* chosen = new hwy::ChosenTarget;
  chosen->Update(targets);
  const auto used = named(used_instruction_set(), what);  // less than amx where the system permits no tiles
  auto made = std::make_unique<InstructionSetLimit>(InstructionSetLimit{*set, used && *set < *used, targets, chosen});
  has_thread_limits.store(true);
  const InstructionSetScope within(made.get());
  if (&hwy::GetChosenTarget() != chosen)
    fail(ErrorCode::unsupported, as_given(what, *set), ": this program links Highway's own library, which chooses ",
         "kernels for the whole process; set RLX_ISA");
  limit = made.release();
  return limit;
}

bool is_held_below_process() noexcept {
  const InstructionSetLimit* limit = InstructionSetScope::current();
  return limit && limit->is_below_process;
}

std::string_view used_instruction_set() {
#if HWY_ARCH_X86_64
  if (has_matrix_tiles()) return name_of(InstructionSet::amx);
  for (InstructionSet set : {InstructionSet::avx512_vnni, InstructionSet::avx512, InstructionSet::avx2})
    if (is_permitted(set) && has(set)) return name_of(set);
  return name_of(has_vectors(InstructionSet::sse4) ? InstructionSet::sse4 : InstructionSet::scalar);
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
