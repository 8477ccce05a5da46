// A library that brings an op of its own and a CPU kernel for it: `rlx --load build/release/examples/clip_norm.so ...`
// knows both, in `ops`, `where` and `run`. The decomposition is what every device runs and what gradients come from;
// the kernel is what the CPU runs where it takes the node.
#include <rlx/rlx.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace {

struct ClipNormAttrs {
  double limit = 1;
  RLX_FIELDS(ClipNormAttrs, rlx::field("limit", &ClipNormAttrs::limit));
};

const rlx::OpDef kClipNorm = rlx::define<ClipNormAttrs>({
    .name = "clip_norm",
    .doc = "the rows of x, each scaled down until its norm is at most `limit`",
    .source = "Pascanu, Mikolov, Bengio, ICML 2013, section 3.2",
    .operands = {"x"},
    .infer = [](rlx::Types in, const ClipNormAttrs& a) -> rlx::Type {
      if (in[0].rank() == 0 || !rlx::is_float(in[0].dtype))
        rlx::fail(rlx::ErrorCode::invalid_argument, "rows of floats are needed, got ", in[0]);
      if (!(a.limit > 0)) rlx::fail(rlx::ErrorCode::invalid_argument, "a norm of ", a.limit, " is not above 0");
      return in[0];
    },
    .decompose =
        [](rlx::Values in, const ClipNormAttrs& a) {
          rlx::Value x = in[0], norm = rlx::sqrt(rlx::reduce_sum(x * x, {-1}, true));
          return x * rlx::broadcast_to(a.limit / rlx::maximum(norm, rlx::full_like(norm, a.limit)), x.dims());
        },
    .samples = {{.dims = {{3, 5}}, .attrs = ClipNormAttrs{0.5}},
                {.dims = {{7}}},
                {.dims = {{2, 0, 3}}},
                {.dims = {{1, 1}}, .attrs = ClipNormAttrs{100}}},
});

rlx::PreparedKernel rows(const rlx::KernelSite& site) {
  int64_t columns = site.operands[0].shape.back(), count = site.operands[0].count();
  double limit = site.attrs<ClipNormAttrs>().limit;
  auto run = [=](const rlx::KernelRun& args) {
    args.parallel_for(columns ? count / columns : 0, [&](int64_t row) {
      const float* x = args.in<float>(0) + row * columns;
      float* y = args.out<float>() + row * columns;
      double squares = 0;
      for (int64_t i = 0; i < columns; ++i) squares += double{x[i]} * x[i];
      auto factor = static_cast<float>(limit / std::max(limit, std::sqrt(squares)));
      for (int64_t i = 0; i < columns; ++i) y[i] = x[i] * factor;
    });
  };
  return {run};
}

}  // namespace

/// What `rlx --load` calls. (A static object could register as well, but not report an error.)
extern "C" void rlx_register() {
  rlx::register_op(kClipNorm);
  auto only_f32 = [](rlx::Types in, rlx::Types, const rlx::Attrs&) -> std::string {
    return in[0].dtype == rlx::f32 ? "" : rlx::text_of(in[0], " is not f32");
  };
  rlx::register_cpu_kernel({&kClipNorm, "clip_norm rows", only_f32, rows});
}
