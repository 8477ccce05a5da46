// See onednn.h. oneDNN calls omp_get_max_threads() when it creates a primitive and when it runs one; both must see 1.
#include "kernels/conv/onednn.h"

#if RLX_HAS_ONEDNN
#include <utility>

#include "kernels/conv/onednn_engine.h"
#include "kernels/vector/instruction_set.h"

// From the OpenMP specification; declared here because <omp.h> requires -fopenmp with some compilers.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}
#endif

namespace rlx::kernels {

#if RLX_HAS_ONEDNN

bool has_onednn() noexcept { return !is_held_below_process(); }
void use_one_openmp_thread() noexcept { omp_set_num_threads(1); }
SingleThreadedOpenMp::SingleThreadedOpenMp() noexcept : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
SingleThreadedOpenMp::~SingleThreadedOpenMp() {
  if (before_ != 1) omp_set_num_threads(before_);
}

dnnl::engine& onednn_engine() {
  static auto* engine = [] {
    const InstructionSetScope of_process(nullptr);
    // oneDNN takes a limit until its first primitive is made, which needs this engine.
    constexpr std::pair<InstructionSet, dnnl::cpu_isa> kLimits[] = {
        {InstructionSet::avx2, dnnl::cpu_isa::sse41},
        {InstructionSet::avx512, dnnl::cpu_isa::avx2},
        {InstructionSet::avx512_vnni, dnnl::cpu_isa::avx512_core},
        {InstructionSet::amx, dnnl::cpu_isa::avx512_core_bf16}};
    for (const auto& [forbidden, most] : kLimits)
      if (!is_permitted(forbidden)) {
        dnnl::set_max_cpu_isa(most);
        break;
      }
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *engine;
}
dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}
dnnl::memory::data_type onednn_type(DType t) {
  using Type = dnnl::memory::data_type;
  return t == f32 ? Type::f32 : t == bf16 ? Type::bf16 : Type::f16;
}

#else

bool has_onednn() noexcept { return false; }
void use_one_openmp_thread() noexcept {}
SingleThreadedOpenMp::SingleThreadedOpenMp() noexcept = default;
SingleThreadedOpenMp::~SingleThreadedOpenMp() = default;

#endif

}  // namespace rlx::kernels
