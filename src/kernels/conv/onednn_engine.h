// oneDNN's engine and streams, for the files that call oneDNN. It may only be included where RLX_HAS_ONEDNN is set.
// Neighbour: onednn.h, which every file may include.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#if DNNL_VERSION_MAJOR < 3
#error "oneDNN 3 or newer is needed; build without RLX_HAS_ONEDNN"
#endif

#include "rlx/dtype.h"

namespace rlx::kernels {

/// The process's only CPU engine. It is never destroyed.
dnnl::engine& onednn_engine();
/// The calling thread's stream: a stream must not be used by two threads at once.
dnnl::stream& onednn_stream();
/// oneDNN's name of `t`, which must be f32, bf16 or f16.
dnnl::memory::data_type onednn_type(DType t);

}  // namespace rlx::kernels
