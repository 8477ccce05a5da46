// Which windows are pools of ML Programs, and which are tables.
#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "coreml/packages.h"
#include "coreml/samples.h"
#include "rlx/ops.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("windows that may lie in padding alone are a table: pools do not say what such give") {
  TemporaryFolder temporary;
  for (int64_t low : {1, 2}) {
    Graph g("pool");
    g.output(reduce_window(g.input("x", f32, {1, 1, 3, 4}), {.kind = Reduction::max,
                                                             .window_dims = {1, 1, 2, 2},
                                                             .padding_low = {0, 0, low, 0},
                                                             .padding_high = {0, 0, 0, 0}}),
             "y");
    const std::vector inputs = {numbers({1, 1, 3, 4})};
    coreml::Translated made = coreml::translate(run_pipeline(g, coreml::target({}), {}).graph);
    size_t pools = 0;
    for (const auto& [name, function] : made.model.program.functions)
      for (const mil::Operation& op : function.body().operations) pools += op.type == "max_pool";
    CHECK(pools == (low < 2 ? 1 : 0));
    CHECK(judged(folder_for_cases(temporary) / text_of("pool.", low), "reduce_window", made, g, inputs) == "");
  }
}
