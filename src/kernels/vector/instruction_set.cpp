// See the header.
#include "kernels/vector/instruction_set.h"

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "kernels/conv/onednn.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/vector/highway_targets.h"
// Above: the instruction sets must be chosen before any Highway header.
#include "hwy/targets.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace {

struct Named {
  InstructionSet set;
  std::string_view name;
};
constexpr Named kSets[] = {{InstructionSet::sse4, "sse4"},
                           {InstructionSet::avx2, "avx2"},
                           {InstructionSet::avx512, "avx512"},
                           {InstructionSet::avx512_vnni, "avx512_vnni"},
                           {InstructionSet::amx, "amx"}};

std::string_view given() {
  const char* text = std::getenv("RLX_ISA");
  return text ? text : "";
}
std::optional<InstructionSet> limit_of(std::string_view name) {
  for (const Named& n : kSets)
    if (n.name == name) return n.set;
  return std::nullopt;
}

#if HWY_ARCH_X86_64
int64_t highway_target(InstructionSet set) {
  return set == InstructionSet::sse4 ? HWY_SSE4 : set == InstructionSet::avx2 ? HWY_AVX2 : HWY_AVX3;
}

void limit_kernels(InstructionSet limit) {
  const int64_t target = highway_target(limit), all = hwy::SupportedTargets() & HWY_TARGETS;
  // Better targets of Highway have lower bits.
  if ((all & ((target << 1) - 1)) == 0)
    fail(ErrorCode::unsupported, "RLX_ISA=", name_of(limit), ": this processor has ", vector_instruction_set(),
         " at most");
  const int64_t left = all & ~(target - 1);
  if (left == 0)
    fail(ErrorCode::unsupported, "RLX_ISA=", name_of(limit), ": this build has kernels for ", vector_instruction_set(),
         " at least");
  hwy::SetSupportedTargetsForTest(left);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  limit_onednn(limit);
}
#else
void limit_kernels(InstructionSet limit) {
  fail(ErrorCode::unsupported, "RLX_ISA=", name_of(limit), ": this processor is no x86-64; leave RLX_ISA unset");
}
#endif

}  // namespace

std::string_view name_of(InstructionSet set) { return kSets[static_cast<size_t>(set)].name; }

bool is_permitted(InstructionSet set) noexcept {
  static const InstructionSet limit = limit_of(given()).value_or(InstructionSet::amx);
  return set <= limit;
}

void obey_instruction_set_limit() {
  const std::string_view name = given();
  if (name.empty() || name == "native") return;
  const auto limit = limit_of(name);
  if (!limit) {
    std::string names;
    for (const Named& n : kSets) names += text_of(n.name, ", ");
    fail(ErrorCode::invalid_argument, "RLX_ISA=", name, " is no instruction set: take one of ", names, "native");
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static bool is_done = false;
  if (is_done) return;
  limit_kernels(*limit);
  is_done = true;
}

std::string_view vector_instruction_set() {
#if HWY_ARCH_X86_64
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  for (InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2})
    if ((targets & ((highway_target(set) << 1) - 1)) != 0) return name_of(set);
  return name_of(InstructionSet::sse4);
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
  return text_of(kArchitecture, " with ", vector_instruction_set(), has_matrix_tiles() ? " and matrix tiles" : "");
}

}  // namespace rlx::kernels
