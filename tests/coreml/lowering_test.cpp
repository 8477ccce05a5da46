// Every op of the table as a Core ML package. What has no lowering says why, and stands in a list here; what has one is
// written, read back, run, and compared with the reference. With RLX_COREML_CASES=dir the packages stay there, as cases
// for `rlx conformance` and for others to judge; RLX_COREML_OPS=",add,sub," takes only some ops.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/coreml/coreml.h"
#include "compile/coreml_pipeline.h"
#include "io/mlpackage.h"
#include "ir/rewrite.h"
#include "reference/interpreter.h"
#include "rlx/coreml.h"
#include "rlx/coreml_model.h"
#include "support/io_files.h"
#include "support/laws.h"
#include "support/sanitized.h"

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
    else if (t.dtype() == boolean) store<int64_t>(out, i, load_number(t, i) != 0);
    else if (kind_of(t.dtype()) == Kind::unsigned_int)  // the bits of 32
      store<int64_t>(out, i, static_cast<int32_t>(static_cast<uint32_t>(load<uint64_t>(t, i))));
    else store<int64_t>(out, i, static_cast<int32_t>(load<int64_t>(t, i)));
  }
  return out;
}

/// Real and imaginary parts in place of complex numbers, as packages have them.
std::vector<Tensor> in_parts(const std::vector<Tensor>& all) {
  std::vector<Tensor> parts;
  for (const Tensor& t : all) {
    if (!is_complex(t.dtype())) {
      parts.push_back(t);
      continue;
    }
    for (bool imaginary : {false, true}) {
      Tensor part(real_part(t.dtype()), t.shape());
      for (size_t i = 0; i < t.element_count(); ++i) {
        auto z = load<std::complex<double>>(t, i);
        store<double>(part, i, imaginary ? z.imag() : z.real());
      }
      parts.push_back(part);
    }
  }
  return parts;
}

/// Blocks are weights: the graph with those among its inputs as constants, and what is left of the inputs.
Graph with_blocks_bound(const Graph& g, std::vector<Tensor>& inputs) {
  Graph to(g.name());
  std::vector<Value> values;
  std::vector<Tensor> rest;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node& node = g.node(g.inputs()[i]);
    if (is_block(node.types[0].dtype)) {
      values.push_back(to.constant(inputs[i]));
      continue;
    }
    values.push_back(to.input(node.name, node.types[0]));
    rest.push_back(inputs[i]);
  }
  auto outputs = splice(to, g, values);
  for (size_t i = 0; i < outputs.size(); ++i) to.output(outputs[i], g.outputs()[i].name);
  inputs = rest;
  return to;
}

/// The largest finite magnitude in a tensor.
double largest_of(const Tensor& t) {
  double largest = 0;
  for (size_t i = 0; i < t.element_count(); ++i)
    if (double v = std::abs(load_number(t, i)); std::isfinite(v)) largest = std::max(largest, v);
  return largest;
}

void write_case(const fs::path& folder, const mil::Model& model, Tensors inputs, Tensors outputs) {
  nlohmann::json step, in = nlohmann::json::array();
  auto put = [&](const std::vector<mil::Feature>& features, Tensors tensors, const char* key) {
    for (size_t i = 0; i < features.size(); ++i) {
      std::string file = text_of("s0.", key, ".", i, ".npy");
      write_npy((folder / file).string(), tensors[i]);
      step[key][features[i].name] = file;
    }
  };
  put(model.main.inputs, inputs, "in");
  put(model.main.outputs, outputs, "out");
  for (const mil::Feature& f : model.main.inputs) in.push_back({{"name", f.name}, {"kind", "tensor"}});
  if (!step.contains("in")) step["in"] = nlohmann::json::object();
  double largest = 1e-30;
  for (const Tensor& t : outputs) largest = std::max(largest, largest_of(t));
  nlohmann::json json{{"precision", "fp32"}, {"atol", 1e-5 * largest}, {"rtol", 1e-5},
                      {"inputs", in},        {"steps", {step}},        {"states", nlohmann::json::array()}};
  put_file((folder / "case.json").string(), json.dump(1));
}

/// How far a result may be from the reference, as a part of the largest magnitude in the tensor. What is composed in
/// f16 rounds in between: by a unit in the last place. The rest is f32, but for sums that cancel.
double tolerance_of_result(DType dtype, std::string_view op) {
  if (is_low_precision(dtype)) return std::ldexp(1.0, -info(dtype).mantissa_bits);
  // The camera's derivatives are sums over pixels of both signs, in f32 here and in f64 by the reference.
  if (op == "gaussian_splat_render_backward") return 1e-4;
  return 1e-5;
}
/// Outputs that are zero but for rounding, on paths where terms cancel: nothing of them is left to compare.
double least_magnitude(std::string_view op) { return op == "spd_parallel_transport_backward" ? 1e-7 : 0; }

/// What the package at `path` makes of the inputs, beside what it should; empty if they agree.
std::string read_back(const std::string& path, std::string_view op, const mil::Model& model, Tensors inputs,
                      Tensors wanted, std::span<const DType> dtypes) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(model.main.inputs[i].name, inputs[i]);
  auto got = CoremlModel::load(path, {.threads = 1}).predict(named);
  if (got.size() != wanted.size()) return text_of(got.size(), " outputs instead of ", wanted.size());
  for (size_t o = 0; o < got.size(); ++o) {
    const Tensor& made = got[o].second;
    if (made.type() != wanted[o].type()) return text_of("is ", made.type(), " instead of ", wanted[o].type());
    double tolerance = 0;
    if (is_float(made.dtype()))
      tolerance = std::max(tolerance_of_result(dtypes[o], op) * largest_of(wanted[o]), least_magnitude(op));
    for (size_t i = 0; i < made.element_count(); ++i) {
      double x = load_number(made, i), y = load_number(wanted[o], i);
      if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance) continue;
      return text_of("output ", o, " [", i, "] of ", made.type(), " is ", x, " instead of ", y);
    }
  }
  return "";
}

struct Count {
  size_t samples = 0, lowered = 0;
  std::string why;  // the first reason of a sample that is not lowered
};

/// How many samples of an op are not written, where any is not. Numbers of 64 bits are narrowed to 32 by the caller's
/// word, and what needs the bits above is refused; so is what combines or compares by a function of one's own.
const std::map<std::string, size_t> kRefused = {{"fft_q", 5},
                                                {"reduce", 1},
                                                {"reduce_window", 1},
                                                {"rng_normal", 1},
                                                {"rng_randint", 1},
                                                {"rng_truncated_normal", 1},
                                                {"rng_uniform", 1},
                                                {"scatter", 2},
                                                {"shift_right_arithmetic", 1},
                                                {"shift_right_logical", 1},
                                                {"sort", 1}};

bool has_elements(const Graph& g) {
  auto some = [](const Type& t) {
    return std::all_of(t.dims.begin(), t.dims.end(), [](const Dim& d) { return d.value() > 0; });
  };
  auto in = g.input_types(), out = g.output_types();
  return std::all_of(in.begin(), in.end(), some) && std::all_of(out.begin(), out.end(), some);
}

/// Why a graph is not written; empty if it is.
std::string reason_of_refusal(const Graph& g, const coreml::Options& options) try {
  Pipelined legal = coreml_pipeline(g, options);
  for (const DispatchLine& line : legal.report.lines)
    if (line.verdict == Verdict::missing) return text_of(line.op, ": ", line.reason);
  coreml::translate(legal.graph, options);
  return "";
} catch (const Error& error) {
  return error.what();
}

}  // namespace

TEST_CASE("every op of the table is written as an ML Program that gives its numbers, or says why not") {
  TemporaryFolder temporary;
  const char* cases = std::getenv("RLX_COREML_CASES");
  const char* only = std::getenv("RLX_COREML_OPS");
  coreml::Options options{.narrow = true};
  std::map<std::string, Count> ops;
  size_t without_elements = 0;
  for (const OpDef* op : all_ops()) {
    if (op->samples().empty()) continue;
    if (only && std::string(only).find(text_of(",", op->name, ",")) == std::string::npos) continue;
    Count& count = ops[std::string(op->name)];
    auto samples = op->samples();
    // Sanitized: one sample an op, and what is not written is not counted.
    for (size_t s = 0; s < samples.size() && !(test::sanitized() && count.samples > 0); ++s) {
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
      auto inputs = c.inputs();
      if (!has_elements(*g)) {  // Core ML has no such tensors: refused, with that reason
        ++without_elements;
        std::string why = reason_of_refusal(with_blocks_bound(*g, inputs), options);
        CHECK_MESSAGE(why.find("has no elements") != std::string::npos, op->name, " sample ", s, ": ", why);
        continue;
      }
      ++count.samples;
      g = with_blocks_bound(*g, inputs);
      Pipelined legal = coreml_pipeline(*g, options);
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
      fs::path folder = fs::path(cases ? std::string(cases) : temporary / "") / text_of(op->name, ".", s);
      fs::create_directories(folder);
      std::string package = (folder / "model.mlpackage").string();
      write_mlpackage(package, made.model);
      if (std::getenv("RLX_COREML_WRITE_ONLY")) continue;  // others judge what is written
      auto outputs = in_parts(interpret(*g, inputs));
      inputs = in_parts(inputs);
      std::vector<DType> dtypes;
      for (const Tensor& t : outputs) dtypes.push_back(t.dtype());
      for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = at_the_boundary(inputs[i], made.model.main.inputs[i]);
      for (size_t o = 0; o < outputs.size(); ++o) outputs[o] = at_the_boundary(outputs[o], made.model.main.outputs[o]);
      if (cases) write_case(folder, made.model, inputs, outputs);
      std::string why = read_back(package, op->name, made.model, inputs, outputs, dtypes);
      CHECK_MESSAGE(why.empty(), op->name, " sample ", s, ", read back: ", why);
      if (!cases) fs::remove_all(folder);
    }
  }
  size_t whole = 0, some = 0, samples = 0, lowered = 0;
  for (const auto& entry : ops) {  // no structured binding: the checks below are lambdas
    const std::string& name = entry.first;
    const Count& count = entry.second;
    samples += count.samples, lowered += count.lowered;
    whole += count.lowered == count.samples;
    some += count.lowered > 0;
    size_t refused = count.samples - count.lowered;
    if (refused) MESSAGE("without a lowering: ", name, ", ", refused, " of ", count.samples, " samples; ", count.why);
    if (test::sanitized()) continue;
    auto known = kRefused.find(name);
    CHECK_MESSAGE(refused == (known == kRefused.end() ? 0 : known->second), name, " has ", refused,
                  " samples that are not written: ", count.why);
  }
  MESSAGE(whole, " of ", ops.size(), " ops with every sample, ", some, " with some; ", lowered, " of ", samples,
          " samples; ", without_elements, " more have inputs or outputs without elements");
}
