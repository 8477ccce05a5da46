// The workloads of `rlx bench`: what is computed, on which numbers. Neighbour: tools/bench/bench.cpp, which times them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rlx/graph.h"
#include "rlx/io.h"
#include "rlx/session.h"

namespace rlx::tools {

/// What is timed, its steps if they can be told apart, and the bytes of its compiled graph.
struct BenchRun {
  std::function<void()> run;
  std::function<Profile()> profile = {};
  std::function<size_t()> held_bytes = {};
};

struct BenchCase {
  std::string name;  ///< in full: "minilm_1x16"
  /// Reads or makes params and inputs; called once, and not timed.
  std::function<void(BenchCase&)> prepare;
  std::function<Graph()> graph;
  NamedTensors params = {};
  std::vector<Tensor> inputs = {};  ///< in the order of the graph's inputs
  /// Instead of a graph: what is timed, and where it puts its results.
  std::function<BenchRun(const BenchCase& self, const Session&, std::vector<Tensor>& results)> start = {};
  bool takes_options = false;  ///< `start` compiles with the options that bench_case() was given
};

/// A family of cases, as `rlx bench --help` lists them.
struct BenchFamily {
  std::string_view name, shape, what;
  std::vector<std::string_view> usual;  ///< the shapes that the peers run
};
std::span<const BenchFamily> bench_families();

/// The case of that name: "gemm_512", "minilm_1x16" or, short for it, "1x16". Fails as wrong usage, naming those that
/// there are. `model` is a sentence encoder for the cases of minilm, a language model for those of prefill and decode,
/// whose caches are of the dtype `cache`, and which is compiled with `compile`.
BenchCase bench_case(const std::string& name, const std::string& model, DType cache = f32,
                     const CompileOptions& compile = CompileOptions::from_environment());
/// linear_i8, linear_i4, qmatmul, digits, digits_i8: tools/bench/quantized.cpp.
BenchCase codes_case(std::string_view family, const Shape& shape);
/// x[m, k] in f32 times w[n, k] of halves or of a block format of GGUF, for {m, k, n}.
BenchCase weights_of_blocks(DType format, const Shape& mkn);
/// decode, prefill: tools/bench/language.cpp.
BenchCase language_case(std::string_view family, int64_t tokens, const std::string& model, DType cache,
                        const CompileOptions& compile);
/// train_mlp, train_cnn, train_encoder: tools/bench/training.cpp.
BenchCase training_case(const std::string& name);
/// resnet50 and mobilenetv2 on that many images: tools/bench/vision.cpp.
BenchCase vision_case(std::string_view family, int64_t images);

}  // namespace rlx::tools
