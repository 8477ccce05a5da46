#include "bench/product_accuracy/instruction_set.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "kernels/vector/highway_targets.h"
// Above: the instruction sets must be chosen before any Highway header.
#include "hwy/targets.h"
#include "kernels/gemm/amx/tiles.h"
#include "rlx/error.h"

namespace rlx::accuracy {
namespace {

struct InstructionSet {
  const char *name, *openblas, *onednn;
  int64_t target;
};
constexpr InstructionSet kSets[] = {{"sse4", "NEHALEM", "SSE41", HWY_SSE4},
                                    {"avx2", "HASWELL", "AVX2", HWY_AVX2},
                                    {"avx512", "SKYLAKEX", "AVX512_CORE", HWY_AVX3}};

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names{"native"};
  for (const InstructionSet& s : kSets) names.emplace_back(s.name);
  return names;
}

void choose_instruction_set(const std::string& name, char** argv) {
  for (const InstructionSet& s : kSets) {
    if (name != s.name) continue;
    if ((hwy::SupportedTargets() & HWY_TARGETS & s.target) == 0)
      fail(ErrorCode::unsupported, "this machine, or this build, has no ", name, "; take --isa native");
    const bool is_loaded_anew = std::getenv("OPENBLAS_CORETYPE") != nullptr;
    setenv("ONEDNN_MAX_CPU_ISA", s.onednn, 0);
    if (!is_loaded_anew) {
      setenv("OPENBLAS_CORETYPE", s.openblas, 1);
      execvp(argv[0], argv);
      fail(ErrorCode::unsupported, "'", argv[0], "' could not be started anew; set OPENBLAS_CORETYPE=", s.openblas);
    }
    hwy::SetSupportedTargetsForTest(s.target);
    hwy::GetChosenTarget().Update(s.target);
  }
}

std::string chosen_instruction_sets() {
  const int64_t best = hwy::SupportedTargets() & HWY_TARGETS;
  std::string text = text_of("RLX ", hwy::TargetName(best & -best), kernels::has_matrix_tiles() ? " with tiles" : "");
  if (const auto core = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename")))
    text += text_of(", OpenBLAS ", core());
  const char* most = std::getenv("ONEDNN_MAX_CPU_ISA");
  return text + text_of(", oneDNN ", most ? most : "native");
}

}  // namespace rlx::accuracy
