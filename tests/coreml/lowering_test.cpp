// Every op of the table as a Core ML package. What has no lowering says why, and stands in a list here; what has one is
// written. With RLX_COREML_CASES=dir the packages stay there, each with its inputs and what the reference makes of
// them, for others to judge; RLX_COREML_OPS=",add,sub," takes only some ops.
#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "io/mlpackage.h"
#include "reference/interpreter.h"
#include "rlx/coreml.h"
#include "support/io_files.h"
#include "support/laws.h"

using namespace rlx;
using namespace rlx::test;

namespace fs = std::filesystem;

namespace {

/// The sample with f32 for any float, which is what Core ML computes in.
laws::Case in_f32(const Sample& sample) {
  laws::Case c = laws::case_of(sample);
  for (Type& t : c.types)
    if (t.dtype == f64) t.dtype = f32;
  return c;
}

/// A tensor as it crosses the boundary of a package.
Tensor at_the_boundary(const Tensor& t, const mil::Feature& feature) {
  Tensor out(*feature.dtype, feature.shape);
  REQUIRE(out.element_count() == t.element_count());
  for (size_t i = 0; i < t.element_count(); ++i) {
    if (is_float(out.dtype())) store<double>(out, i, load_number(t, i));
    else store<int64_t>(out, i, t.dtype() == boolean ? (load_number(t, i) != 0) : load_index(t, i));
  }
  return out;
}

void write_case(const fs::path& folder, const mil::Model& model, Tensors inputs, Tensors outputs) {
  fs::create_directories(folder);
  write_mlpackage((folder / "model.mlpackage").string(), model);
  nlohmann::json step, in = nlohmann::json::array();
  auto put = [&](const std::vector<mil::Feature>& features, Tensors tensors, const char* key) {
    for (size_t i = 0; i < features.size(); ++i) {
      std::string file = text_of("s0.", key, ".", i, ".npy");
      write_npy((folder / file).string(), at_the_boundary(tensors[i], features[i]));
      step[key][features[i].name] = file;
    }
  };
  put(model.main.inputs, inputs, "in");
  put(model.main.outputs, outputs, "out");
  for (const mil::Feature& f : model.main.inputs) in.push_back({{"name", f.name}, {"kind", "array"}});
  if (!step.contains("in")) step["in"] = nlohmann::json::object();
  // Of the largest magnitude in the tensor.
  double largest = 1e-30;
  for (const Tensor& t : outputs)
    for (size_t i = 0; i < t.element_count() && !is_complex(t.dtype()); ++i)
      if (double v = std::abs(load_number(t, i)); std::isfinite(v)) largest = std::max(largest, v);
  nlohmann::json json{
      {"atol", 1e-5 * largest}, {"rtol", 1e-5}, {"inputs", in}, {"steps", {step}}, {"states", nlohmann::json::array()}};
  put_file((folder / "case.json").string(), json.dump(1));
}

struct Count {
  size_t samples = 0, lowered = 0;
  std::string why;  // the first reason of a sample that is not lowered
};

/// Ops none of whose samples is written: for want of a type that programs compute in (complex numbers, u32 of random
/// bits, blocks, the bits of floats), of a rank above 5 (im2col), of sums wider than their operands (qconv2d).
const std::set<std::string> kWithout = {"bitcast",
                                        "complex",
                                        "complex_norm_sq",
                                        "complex_norm_sq_backward",
                                        "conjugate",
                                        "dequant_grouped_matmul",
                                        "dequant_moe_weights",
                                        "dequantize_blocks",
                                        "dropout",
                                        "eig",
                                        "fft",
                                        "fold_in",
                                        "im2col",
                                        "imag",
                                        "partitioned_conv",
                                        "qconv2d",
                                        "real",
                                        "rng_bernoulli",
                                        "rng_bits",
                                        "rng_categorical",
                                        "rng_normal",
                                        "rng_permutation",
                                        "rng_randint",
                                        "rng_split",
                                        "rng_truncated_normal",
                                        "rng_uniform",
                                        "sample",
                                        "scaled_quantize",
                                        "scaled_round"};

bool has_elements(const Graph& g) {
  auto some = [](const Type& t) {
    return std::all_of(t.dims.begin(), t.dims.end(), [](const Dim& d) { return d.value() > 0; });
  };
  auto in = g.input_types(), out = g.output_types();
  return std::all_of(in.begin(), in.end(), some) && std::all_of(out.begin(), out.end(), some);
}

}  // namespace

TEST_CASE("every op of the table is written as an ML Program, or says why not") {
  const char* cases = std::getenv("RLX_COREML_CASES");
  const char* only = std::getenv("RLX_COREML_OPS");
  coreml::Options options{.narrow = true};
  auto backend = coreml::make_backend(options);
  std::map<std::string, Count> ops;
  for (const OpDef* op : all_ops()) {
    if (op->samples().empty()) continue;
    if (only && std::string(only).find(text_of(",", op->name, ",")) == std::string::npos) continue;
    Count& count = ops[std::string(op->name)];
    auto samples = op->samples();
    for (size_t s = 0; s < samples.size(); ++s) {
      CAPTURE(op->name);
      CAPTURE(s);
      laws::Case c = in_f32(samples[s]);
      std::optional<Graph> g;
      try {
        g = c.graph(*op);
      } catch (const Error&) {
        c = laws::case_of(samples[s]);  // an op with attributes of f64
        g = c.graph(*op);
      }
      if (!has_elements(*g)) continue;  // Core ML has no tensors without elements
      ++count.samples;
      Pipelined legal = run_pipeline(*g, *backend, {});
      if (legal.report.count(Verdict::missing)) {
        for (const DispatchLine& line : legal.report.lines)
          if (line.verdict == Verdict::missing && count.why.empty()) count.why = text_of(line.op, ": ", line.reason);
        continue;
      }
      coreml::Translated made;
      try {
        made = coreml::translate(legal.graph, options);
      } catch (const Error& error) {
        if (count.why.empty()) count.why = text_of("translate: ", error.what());
        continue;
      }
      ++count.lowered;
      if (cases) {
        auto inputs = c.inputs();
        write_case(fs::path(cases) / text_of(op->name, ".", s), made.model, inputs, interpret(*g, inputs));
      }
    }
  }
  size_t whole = 0, some = 0, samples = 0, lowered = 0;
  std::set<std::string> without;
  for (const auto& [name, count] : ops) {
    samples += count.samples, lowered += count.lowered;
    whole += count.lowered == count.samples;
    some += count.lowered > 0;
    if (count.lowered == 0) without.insert(name);
    if (count.lowered < count.samples)
      MESSAGE("without a lowering: ", name, ", ", count.samples - count.lowered, " of ", count.samples, " samples; ",
              count.why);
  }
  MESSAGE(whole, " of ", ops.size(), " ops with every sample, ", some, " with some; ", lowered, " of ", samples,
          " samples");
}
