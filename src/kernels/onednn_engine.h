// oneDNN's engine and streams, for the files that call it; only where RLX_HAS_ONEDNN. Neighbour: onednn.h, which all
// may include.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#if DNNL_VERSION_MAJOR < 3
#error "oneDNN 3 or newer is needed; build without RLX_HAS_ONEDNN"
#endif

#include "rlx/dtype.h"

namespace rlx::kernels {

dnnl::engine& onednn_engine();
/// The calling thread's stream: a stream must not be used by two threads at once.
dnnl::stream& onednn_stream();
/// For f32, bf16 and f16.
dnnl::memory::data_type onednn_type(DType t);

}  // namespace rlx::kernels
