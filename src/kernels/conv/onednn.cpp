// See onednn.h. oneDNN calls omp_get_max_threads() when it creates a primitive and when it runs one; both must see 1.
#include "kernels/conv/onednn.h"

#if RLX_HAS_ONEDNN
#include "kernels/conv/onednn_engine.h"

// From the OpenMP specification; declared here because <omp.h> requires -fopenmp with some compilers.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}
#endif

namespace rlx::kernels {

#if RLX_HAS_ONEDNN

bool has_onednn() noexcept { return true; }
void limit_onednn(InstructionSet most) noexcept {
  using Isa = dnnl::cpu_isa;
  constexpr Isa kMost[] = {Isa::sse41, Isa::avx2, Isa::avx512_core, Isa::avx512_core_bf16, Isa::isa_default};
  dnnl::set_max_cpu_isa(kMost[static_cast<size_t>(most)]);
}
void use_one_openmp_thread() noexcept { omp_set_num_threads(1); }
SingleThreadedOpenMp::SingleThreadedOpenMp() noexcept : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
SingleThreadedOpenMp::~SingleThreadedOpenMp() {
  if (before_ != 1) omp_set_num_threads(before_);
}

dnnl::engine& onednn_engine() {
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
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
void limit_onednn(InstructionSet) noexcept {}
void use_one_openmp_thread() noexcept {}
SingleThreadedOpenMp::SingleThreadedOpenMp() noexcept = default;
SingleThreadedOpenMp::~SingleThreadedOpenMp() = default;

#endif

}  // namespace rlx::kernels
