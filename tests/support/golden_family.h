// A family of golden cases as it is stored in files (tests/golden/generate/README.md, "ops/"). For tests that check
// more about some cases than tests/golden checks about all.
#pragma once

#include "ir/text.h"
#include "rlx/io.h"
#include "support/io_files.h"

namespace rlx::test {

struct GoldenCase {
  Graph graph;
  std::vector<Tensor> inputs, outputs;
};

/// The cases of a family, without their derivatives.
inline std::vector<GoldenCase> golden_family(const std::string& family) {
  std::string text = file_content("tests/golden/ops/" + family + ".rlx");
  auto tensors = SafetensorsFile::open("tests/golden/ops/" + family + ".safetensors");
  std::vector<GoldenCase> cases;
  Scanner in(text);
  in.expect("rlx");
  in.number<int64_t>();
  while (!in.at_end()) {
    GoldenCase c{parse_graph(in), {}, {}};
    auto take = [&](const char* what, size_t count, std::vector<Tensor>& to) {
      for (size_t i = 0; i < count; ++i) to.push_back(tensors.tensor(text_of(c.graph.name(), "/", what, i)));
    };
    take("in", c.graph.inputs().size(), c.inputs);
    take("out", c.graph.outputs().size(), c.outputs);
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace rlx::test
