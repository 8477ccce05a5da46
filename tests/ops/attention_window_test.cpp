// The window of attention at its ends: none, as many positions as there are, and the most that it may be.
#include <doctest/doctest.h>

#include <limits>
#include <optional>

#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

Tensor attended(std::optional<int64_t> window, bool causal, KernelDispatch dispatch) {
  Graph g("window");
  Value q = g.input("q", f32, {1, 2, 5, 4}), k = g.input("k", f32, {1, 2, 7, 4}), v = g.input("v", f32, {1, 2, 7, 4});
  AttentionAttrs attrs{.heads = 2};
  attrs.window = window, attrs.causal = causal;
  g.output(attention(q, k, v, attrs), "y");
  CompileOptions options;
  options.kernel_dispatch = dispatch;
  std::vector<Tensor> inputs;
  for (const Shape& shape : {Shape{1, 2, 5, 4}, Shape{1, 2, 7, 4}, Shape{1, 2, 7, 4}}) {
    Tensor t(f32, shape);
    for (size_t i = 0; i < t.element_count(); ++i)
      store<double>(t, i, 0.1 * static_cast<double>((i * 7 + shape[2]) % 19) - 0.9);
    inputs.push_back(t);
  }
  return Session(Device::cpu(), {1}).compile(g, options).run_ordered(inputs)[0];
}

}  // namespace

TEST_CASE("a window of all positions and more masks nothing, however large it is") {
  for (const KernelDispatch dispatch : {KernelDispatch::native, KernelDispatch::common})
    for (const bool causal : {false, true}) {
      CAPTURE(causal);
      CAPTURE(static_cast<int>(dispatch));
      const Tensor all = attended(std::nullopt, causal, dispatch);
      for (const int64_t window : {int64_t{7}, int64_t{1} << 30, int64_t{std::numeric_limits<int32_t>::max()}}) {
        CAPTURE(window);
        const Tensor y = attended(window, causal, dispatch);
        for (size_t i = 0; i < y.element_count(); ++i)
          CHECK(load<double>(y, i) == doctest::Approx(load<double>(all, i)).epsilon(1e-6));
      }
      // A window of 0 positions is the query's own place alone: v there.
      const Tensor own = attended(0, causal, dispatch);
      CHECK(load<double>(own, 0) == doctest::Approx(0.1 * static_cast<double>((8 * 7 + 7) % 19) - 0.9).epsilon(1e-6));
    }
}
