// Convolutions of codes on the CPU: in f32 while all sums are exact there, in i32 beyond.
#include <doctest/doctest.h>

#include <algorithm>

#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

TEST_CASE("a sum of codes is exact, below 2^24 and above it") {
  for (auto [channels, verdict] : {std::pair{int64_t{50}, Verdict::rewritten}, {int64_t{70}, Verdict::composed}}) {
    // All products are 255 127, but one that is 255 126: an odd sum, which f32 does not have above 2^24.
    const int64_t sum = channels * 9 * 255 * 127 - 255;
    Tensor x(i8, {1, channels, 3, 3}), w(i8, {1, channels, 3, 3});
    for (size_t i = 0; i < x.element_count(); ++i) store<int64_t>(x, i, 127), store<int64_t>(w, i, i == 7 ? 126 : 127);
    Graph g("one");
    Value in = g.input("x", i8, {1, channels, 3, 3});
    Value bias = g.constant(Tensor::of<int32_t>({1}, {static_cast<int32_t>(5 - sum)}));
    QConv2dAttrs attrs;
    attrs.x_zero_point = -128;
    g.output(qconv2d(in, g.constant(w), bias, attrs), "y");
    CompiledGraph compiled = Session().compile(g);
    CHECK(load_index(compiled.run({{"x", x}})[0], 0) == 5);
    const auto& lines = compiled.report().lines;
    auto line = std::find_if(lines.begin(), lines.end(), [](const DispatchLine& l) { return l.op == "qconv2d"; });
    REQUIRE(line != lines.end());
    CHECK(line->verdict == verdict);
  }
}
