// Weights that become f16: each is the nearest number, ties to even, and what is beyond the range the largest.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/leaves.h"
#include "passes/change_floats.h"
#include "rlx/element.h"
#include "rlx/ops.h"

using namespace rlx;

TEST_CASE("every f16, what lies around it and half way to the next are rounded as a float is") {
  std::vector<float> numbers{65504, 65519, 65520, 1e30F, INFINITY, NAN, 0x1p-149F, 0x1p-25F, 0x1.8p-25F};
  for (uint32_t word = 0; word < 0x7c00; ++word) {
    auto here = static_cast<float>(decode_float(f16, word)), next = static_cast<float>(decode_float(f16, word + 1));
    if (!std::isfinite(next)) next = 65536;
    float middle = here + (next - here) / 2;
    for (float v : {here, middle}) {
      numbers.push_back(v);
      numbers.push_back(std::nextafter(v, 1e9F));
      numbers.push_back(std::nextafter(v, -1e9F));
    }
  }
  for (size_t i = numbers.size(); i-- > 0;) numbers.push_back(-numbers[i]);
  auto count = static_cast<int64_t>(numbers.size());
  Graph g;
  g.output(g.constant(Tensor::of<float>({count}, numbers)), "y");
  Graph half = change_floats(g, {f32}, f16);
  const Tensor& made = half.node(half.outputs()[0].ref).attrs.as<ConstantAttrs>().value;
  REQUIRE(made.dtype() == f16);
  size_t wrong = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    double v = numbers[i];
    if (std::isfinite(v)) v = std::clamp(v, -65504.0, 65504.0);
    uint16_t word = 0;
    std::memcpy(&word, made.data() + 2 * i, 2);
    wrong += word != encode_float(f16, v);
  }
  CHECK(wrong == 0);
}
