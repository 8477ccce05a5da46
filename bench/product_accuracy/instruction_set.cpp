#include "bench/product_accuracy/instruction_set.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "kernels/vector/instruction_set.h"
#include "rlx/error.h"

namespace rlx::accuracy {
namespace {

struct InstructionSet {
  const char *name, *openblas, *onednn;
};
constexpr InstructionSet kSets[] = {
    {"sse4", "NEHALEM", "SSE41"}, {"avx2", "HASWELL", "AVX2"}, {"avx512", "SKYLAKEX", "AVX512_CORE"}};

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names{"native"};
  for (const InstructionSet& s : kSets) names.emplace_back(s.name);
  return names;
}

void choose_instruction_set(const std::string& name, char** argv) {
  for (const InstructionSet& s : kSets) {
    if (name != s.name) continue;
    const bool is_loaded_anew = std::getenv("OPENBLAS_CORETYPE") != nullptr;
    setenv("RLX_ISA", s.name, 1);
    setenv("ONEDNN_MAX_CPU_ISA", s.onednn, 0);
    if (!is_loaded_anew) {
      setenv("OPENBLAS_CORETYPE", s.openblas, 1);
      execvp(argv[0], argv);
      fail(ErrorCode::unsupported, "'", argv[0], "' could not be started anew; set OPENBLAS_CORETYPE=", s.openblas);
    }
    kernels::apply_instruction_set_limit();
  }
}

std::string chosen_instruction_sets() {
  std::string text = text_of("RLX ", kernels::used_instruction_set());
  if (const auto core = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename")))
    text += text_of(", OpenBLAS ", core());
  const char* most = std::getenv("ONEDNN_MAX_CPU_ISA");
  return text + text_of(", oneDNN ", most ? most : "native");
}

}  // namespace rlx::accuracy
